"""Ids of columns: which a new version gets, and a schema with those of its version."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sparkhaven.store.errors import CorruptFileError
from sparkhaven.store.layout import TableName
from sparkhaven.store.schema.deployed.history import (
    ColumnVersion,
    Version,
    forms_of_ids,
    retired_columns,
    stems_of_ids,
)
from sparkhaven.store.schema.deployed.schema_changes import Consent, SchemaChange, former_names
from sparkhaven.store.types.model import Column, Form, TableSchema


def last_renames(history: Sequence[Version]) -> set[tuple[str, str]]:
    """The pairs (old, new) of columns that the newest version has renamed."""
    before = {column.id: column.name for version in history[-2:-1] for column in version.columns}
    names = ((before.get(column.id, column.name), column.name) for column in history[-1].columns)
    return {(old, new) for old, new in names if old != new}


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


def kept_text(data: bytes) -> str | None:
    """The text of a schema file as the history keeps it; None where it is not UTF-8."""
    try:
        return data.decode()
    except UnicodeDecodeError:  # in another charset: --restore takes the file then
        return None


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


def recorded_schema(table: TableName, version: Version) -> TableSchema:
    """The columns of a version, as the history has them; without rules, formula and codecs."""
    columns = tuple(record.column() for record in version.columns)
    return TableSchema(table.namespace, table.table, columns, version=version.version)


def numbered(schema: TableSchema, history: Sequence[Version]) -> TableSchema:
    """The schema of the newest version with ids and earlier names; CorruptFileError: they have other columns."""
    version = history[-1]
    numbers = {c.name: c.id for c in version.columns}
    for column in schema.columns:
        recorded = next((c for c in version.columns if c.name == column.name), None)
        if recorded != ColumnVersion.of(column, numbers.get(column.name, 0)) or len(numbers) != len(schema.columns):
            raise CorruptFileError(
                "schema and its history disagree on a column",
                where=f"{schema.full_name}, version {version.version}, column {column.name}",
                expected=ColumnVersion.of(column, numbers.get(column.name, 0)),
                found=recorded or f"only {', '.join(numbers)}",
                hint="restore the history of the schema from a backup. Column ids must not be given twice",
            )
    stems, forms = stems_of_ids(history), forms_of_ids(history)
    columns = tuple(_completed(replace(c, id=numbers[c.name]), stems, forms) for c in schema.columns)
    gone = retired_columns(history)
    retired = tuple(_completed(old.record.column(), stems, forms) for old in gone.values())
    dropped = frozenset(number for number, old in gone.items() if old.declared)
    return replace(schema, columns=columns, version=version.version, retired=retired, dropped=dropped)


def _completed(
    column: Column, stems: Mapping[int, tuple[tuple[int, str], ...]], forms: Mapping[int, tuple[Form, ...]]
) -> Column:
    """The column with the names of its files and its earlier forms; a retired one has a name that no other has."""
    runs = stems[column.id]
    name = runs[-1][1]
    return replace(column, name=name, stems=runs if len(runs) > 1 else (), forms=forms.get(column.id, ()))
