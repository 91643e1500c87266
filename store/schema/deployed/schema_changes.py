"""What a schema would change against the deployed one, and whether the caller has asked for that.

=======================  =============================================================================
change                   who may make it, once the table has a log or data
=======================  =============================================================================
added                    every start, and ``schema deploy``
dropped, renamed         ``schema deploy`` with ``--drop`` and ``--rename``; ``--accept-schema`` drops
restored                 ``schema deploy --restore VERSION``; ``--accept-schema``
order, roles, formula,   ``schema deploy``; ``--accept-schema``. More rules and indexes are additions
rules, indexes, format
wider numbers, texts     as a role
without a symbol table
another type or storage  nobody, while data exist (E161)
=======================  =============================================================================

A change that is made gives each column its id (``ids``), by the history of the table.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sparkhaven.store.errors import SchemaChangeError, SettingsError
from sparkhaven.store.schema.deployed.history import (
    ColumnVersion,
    Version,
    retired_columns,
)
from sparkhaven.store.schema.document.schema_file import SchemaFile
from sparkhaven.store.schema.findings import FindingCollector
from sparkhaven.store.schema.xml_tree import Element
from sparkhaven.store.types.model import Column, Kind, TableSchema


@dataclass(frozen=True, slots=True)
class Consent:
    """What a deployment may do beyond additions.

    ``drop`` names columns, ``rename`` has pairs (old, new), ``restore`` is the version whose columns may come back.
    ``changes``: order, roles, formula, rules and indexes too. ``everything``: drops and returns need no name.
    """

    drop: tuple[str, ...] = ()
    rename: tuple[tuple[str, str], ...] = ()
    restore: int | None = None
    changes: bool = False
    everything: bool = False


ADDITIONS = Consent()
ACCEPTED = Consent(changes=True, everything=True)


@dataclass(frozen=True, slots=True)
class SchemaChange:
    """Differences of a schema from the deployed one; names of columns, ``changed`` in words.

    ``older``: the earlier version that has the same columns, if there is one.
    """

    added: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    renamed: tuple[tuple[str, str], ...] = ()
    restored: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    older: int | None = None

    @property
    def additive(self) -> bool:
        """Whether it takes nothing away and changes nothing."""
        return not (self.dropped or self.renamed or self.restored or self.changed)

    def words(self) -> str:
        """The differences in a line; ``nothing`` without any."""
        parts = [
            f"{verb} {', '.join(names)}"
            for verb, names in (
                ("adds", self.added),
                ("drops", self.dropped),
                ("renames", [f"{old} to {new}" for old, new in self.renamed]),
                ("brings back", self.restored),
                ("changes", self.changed),
            )
            if names
        ]
        return "; ".join(parts) or "nothing"

    def to_json(self) -> dict[str, object]:
        """The change as plain data."""
        return {
            "added": list(self.added),
            "dropped": list(self.dropped),
            "renamed": dict(self.renamed),
            "restored": list(self.restored),
            "changed": list(self.changed),
        }


def former_names(schema: TableSchema, before: Collection[str], rename: Mapping[str, str]) -> dict[str, str]:
    """The columns of a file that are deployed, each with its name there. ``rename``: old name -> new name.

    A column is the one that a rename makes it, else the deployed one of its name, unless that has a new name in the
    file. All others are new, or come back.
    """
    names = {column.name for column in schema.columns}
    effective = {old: new for old, new in rename.items() if old in before and new in names}
    formers = {name: name for name in names if name in before and name not in effective}
    return formers | {new: old for old, new in effective.items()}


def compare(
    schema: TableSchema,
    deployed: TableSchema,
    history: Sequence[Version],
    rename: Mapping[str, str] = {},
) -> SchemaChange:
    """What a schema would change. ``history`` ends with the deployed version; ``rename``: old name -> new name."""
    names = [column.name for column in schema.columns]
    before = {column.name: column for column in deployed.columns}
    formers = former_names(schema, before, rename)
    new = [name for name in names if name not in formers]
    identities = {gone.record.identity for gone in retired_columns(history).values()}
    retired = {c.name for c in schema.columns if ColumnVersion.of(c, 0).identity in identities}
    kept = [formers[name] for name in names if name in formers]
    return SchemaChange(
        added=tuple(name for name in new if name not in retired),
        dropped=tuple(name for name in before if name not in kept),
        renamed=tuple((old, new) for old, new in rename.items() if formers.get(new) == old),
        restored=tuple(name for name in new if name in retired),
        changed=tuple(_changes(schema, deployed, formers, kept)),
        older=_older(schema, history),
    )


def _older(schema: TableSchema, history: Sequence[Version]) -> int | None:
    columns = [(ColumnVersion.of(column, 0).identity, column.kind.name) for column in schema.columns]
    for version in reversed(history[:-1]):
        if [(column.identity, column.kind) for column in version.columns] == columns:
            return version.version
    return None


def _changes(schema: TableSchema, deployed: TableSchema, formers: Mapping[str, str], kept: Sequence[str]) -> list[str]:
    """What differs beside the set of columns, in words."""
    before = {column.name: column for column in deployed.columns}
    changes = []
    for column in schema.columns:
        old = before.get(formers.get(column.name, ""))
        if old is not None and old.kind is not column.kind:
            changes.append(f"{column.name} from {old.kind.name.lower()} to {column.kind.name.lower()}")
        if old is not None and _kept_form(old) != _kept_form(column):
            changes.append(f"{column.name} from {_form(old)} to {_form(column)}")
    if list(kept) != [name for name in before if name in set(kept)]:
        changes.append("the order of columns")
    for setting, new, former in (
        ("keyFormula", schema.key_formula, deployed.key_formula),
        ("defaultMergeFormat", schema.merge_format, deployed.merge_format),
        ("MergeAttributes", _of_merges(schema), _of_merges(deployed)),
        ("ExtendedStorage", (schema.extended, schema.extended_format), (deployed.extended, deployed.extended_format)),
    ):
        if new != former:
            changes.append(setting)
    rules = Counter((rule.name, tuple(sorted(rule.attributes.items()))) for rule in deployed.rules)
    if rules - Counter((rule.name, tuple(sorted(rule.attributes.items()))) for rule in schema.rules):
        changes.append("Validator, which lacks rules of the deployed one")
    indexes = {tuple(formers.get(name, name) for name in keys) for keys in schema.data_indexes}
    if set(deployed.data_indexes) - indexes:
        changes.append("DataIndex, which lacks indexes of the deployed ones")
    return changes


def _of_merges(schema: TableSchema) -> tuple[object, ...]:
    return schema.merge_codec, schema.dedupe, schema.distribution


def same_meaning(schema: TableSchema, deployed: TableSchema, change: SchemaChange) -> bool:
    """Whether nothing differs but comments, descriptions and parts that have no effect."""
    if change.added or not change.additive or len(schema.rules) != len(deployed.rules):
        return False
    return schema.data_indexes == deployed.data_indexes and not any(
        _kept_form(new) != _kept_form(former) for new, former in zip(schema.columns, deployed.columns, strict=True)
    )


def refused_by(change: SchemaChange, consent: Consent, history: Sequence[Version]) -> SchemaChange:
    """The part of a change that the consent does not cover."""
    if consent.everything:
        return SchemaChange()
    returning: Collection[str] = ()
    if consent.restore is not None:
        returning = {column.name for v in history if v.version == consent.restore for column in v.columns}
    return SchemaChange(
        dropped=tuple(name for name in change.dropped if name not in consent.drop),
        restored=tuple(name for name in change.restored if name not in returning),
        changed=() if consent.changes else change.changed,
        older=change.older,
    )


def require_unambiguous(consent: Consent, where: str) -> None:
    """SettingsError for renames that name a column twice."""
    for what, names in zip(("is renamed", "is a new name"), zip(*consent.rename, strict=True), strict=False):
        if twice := [name for name, count in Counter(names).items() if count > 1]:
            raise SettingsError(
                f"column {twice[0]} {what} twice",
                where=where,
                expected="--rename OLD=NEW once for each OLD, and once for each NEW",
                found=" ".join(f"--rename {old}={new}" for old, new in consent.rename if twice[0] in (old, new)),
                hint="leave one of them out",
            )


def require_sensible(change: SchemaChange, consent: Consent, history: Sequence[Version], where: str) -> None:
    """SettingsError for a drop or rename of the command line that the file does not have."""
    retired = {gone.record.name for gone in retired_columns(history).values()}
    before = {column.name for column in history[-1].columns} if history else set()
    for name in consent.drop:
        if name not in change.dropped and name not in retired:
            fault = "the file has it still" if name in before else "there is no such column"
            hint = "remove it from the file first" if name in before else "names are case-sensitive"
            raise SettingsError(f"--drop {name} drops nothing", where=where, found=fault, hint=hint)
    for old, new in consent.rename:
        if (old, new) not in change.renamed:
            raise SettingsError(
                f"--rename {old}={new} renames nothing",
                where=where,
                expected=f"{old} in the deployed schema, and {new} in its place in the file",
                found=change.words(),
                hint="write the new name into the file. Names are case-sensitive",
            )


def refusal(
    deployed: TableSchema,
    name: str,
    path: Path,
    history: Sequence[Version],
    change: SchemaChange,
    refused: SchemaChange,
) -> SchemaChangeError:
    """The error for a change without consent: what it takes, and the commands that would do it.

    ``name`` is the file that is refused, ``path`` the deployed one.
    """
    table, version = deployed.full_name, history[-1].version
    back = {c.name: name for c in deployed.columns for name in c.former_names if name in change.added}
    older = f"version {change.older}, an older one, which " if change.older is not None else ""
    words = [
        f"sparkhaven schema deploy {name}",
        *(f"--rename {old}={back[old]}" if old in back else f"--drop {old}" for old in refused.dropped),
    ]
    if refused.restored:
        words.append(f"--restore {_version_with(refused.restored, history, change.older)}")
    added = [new for new in change.added if new not in back.values()]
    gone = [old for old in refused.dropped if old not in back]
    renamed = [f"--rename {old}={new}" for old, new in zip(gone, added, strict=False)]
    instead = f". For a column with a new name, write `{renamed[0]}` in place of `--drop`" if renamed else ""
    return SchemaChangeError(
        f"this schema drops or changes columns of {table}",
        where=name,
        expected=f"the columns and settings of the deployed version {version}, or more",
        found=f"{older}{refused.words()}",
        hint=f"to keep the deployed schema, use {path}. To change it, `{' '.join(words)}`{instead}."
        " A start does it with --accept-schema",
        columns=", ".join(refused.dropped) or None,
        table=table,
    )


def _version_with(names: Sequence[str], history: Sequence[Version], older: int | None) -> int:
    """The version to restore so that columns come back: the given one, else the newest that has them all."""
    if older is not None:
        return older
    retired = retired_columns(history)
    every = [v.version for v in history if set(names) <= {c.name for c in v.columns if c.id in retired}]
    return max(every, default=max(gone.version for gone in retired.values() if gone.record.name == names[0]))


def refuse_conflicts(
    file: SchemaFile,
    name: str,
    deployed: TableSchema,
    history: Sequence[Version],
    rename: Mapping[str, str],
    running: Sequence[str] = (),
) -> None:
    """E161 for a column whose data could not be read any more: another type, storage, codec or partitioning.

    ``running``: there are no data yet, but these streams may write some by the deployed schema at any moment.
    """
    findings = FindingCollector(name)
    elements = {e.attributes.get("name", ""): e for e in file.root.all("Column")}
    before = {column.name: column for column in deployed.columns}
    formers = former_names(file.schema, before, rename)

    def refuse(element: Element, expected: str, found: str, hint: str) -> None:
        if running:
            hint = f"the table has no rows yet. First end its running streams ({', '.join(running)})"
        findings.add("E161", element, expected=expected, found=found, hint=hint)

    for column in file.schema.columns:
        element = elements.get(column.name, file.root)
        old = before.get(formers.get(column.name, ""))
        if old is None:
            continue
        if "PARTITIONING" in (old.kind.name, column.kind.name) and old.kind is not column.kind:
            hint = "make a new table. The directories are named by this column"
            refuse(element, f"{column.name} {old.kind.name}", column.kind.name, hint)
        elif _kept_form(old) != _kept_form(column) and not _may_widen(old, column):
            hint = (
                f"give it another name in {name}: then it is a new column, and this one is dropped by"
                f" `sparkhaven schema deploy {name} --drop {old.name}`"
            )
            refuse(element, _stored(ColumnVersion.of(old, 0)), _stored(ColumnVersion.of(column, 0)), hint)
    partitioning = next((c.name for c in deployed.columns if c.kind.name == "PARTITIONING"), None)
    if partitioning is not None and partitioning not in elements:
        refuse(file.root, f"{partitioning} as Partitioning column", "none", "make a new table")
    findings.raise_errors()


def _kept_form(column: Column) -> tuple[object, ...]:
    """What the files of a column were written by."""
    component = column.component.name if column.component else None
    return (*ColumnVersion.of(column, 0).stored, component)


def _may_widen(old: Column, new: Column) -> bool:
    """Whether files of the column are read on; the directories that a column names keep their texts."""
    return old.kind is not Kind.PARTITIONING and ColumnVersion.of(old, 0).widens_to(ColumnVersion.of(new, 0))


def _form(column: Column) -> str:
    name = column.type.name
    return f"{name} stored as {column.storage.value}" if name == "String" else name


def _stored(record: ColumnVersion) -> str:
    charset = f" in {record.encoding}" if record.encoding else ""
    name, arguments, _ = record.codec or (None, None, None)
    codec = f" by {name} {arguments or ''}".rstrip() if name else ""
    return f"{record.name}: {record.type}, stored as {record.storage}{charset}{codec}"


def renamed_back(schema: TableSchema, history: Sequence[Version], consent: Consent) -> dict[str, str]:
    """Columns that had another name in the version that comes back: name of now -> name of then.

    The name of now may be that of another column then, which comes back too.
    """
    wanted = {c.id: c.name for v in history if v.version == consent.restore for c in v.columns}
    owners = {name: number for number, name in wanted.items()}
    names = {column.name for column in schema.columns}
    return {
        column.name: wanted[column.id]
        for column in history[-1].columns
        if wanted.get(column.id, column.name) != column.name
        and wanted[column.id] in names
        and (column.name not in names or column.name in owners)
    }


def dropped_ids(change: SchemaChange, consent: Consent, history: Sequence[Version]) -> tuple[int, ...]:
    """Ids that the consent drops: columns of now, and those that are gone already without having been dropped."""
    before = {column.name: column.id for column in history[-1].columns} if history else {}
    gone = {number: old.record.name for number, old in retired_columns(history).items() if not old.declared}
    late = [number for number, name in gone.items() if name in consent.drop and name not in before]
    return (*(before[name] for name in change.dropped), *late)


def ids(
    schema: TableSchema,
    history: Sequence[Version],
    rename: Mapping[str, str],
    *,
    returning: bool,
    widening: bool,
    restore: int | None = None,
) -> dict[str, int]:
    """The id of each column: its own, that of its former name, or a new one.

    ``returning``: retired ones come back; of several that are alike the one of version ``restore``, else the newest.
    ``widening``: a column keeps its id in a wider form, as its files stay.
    """
    before = {column.name: column for column in history[-1].columns}
    formers = former_names(schema, before, rename)
    wanted = {column.id for version in history if version.version == restore for column in version.columns}
    retired = retired_columns(history) if returning else {}
    newest = sorted(retired, key=lambda number: (number in wanted, retired[number].version))
    returned = {retired[number].record.identity: number for number in newest}
    following = 1 + max((c.id for v in history for c in v.columns), default=-1)
    ids: dict[str, int] = {}
    for column in schema.columns:
        record, old = ColumnVersion.of(column, 0), before.get(formers.get(column.name, ""))
        number = returned.get(record.identity)
        if old is not None and (old.stored == record.stored or (widening and old.widens_to(record))):
            number = old.id
        if number is None:
            number, following = following, following + 1
        ids[column.name] = number
    return ids
