"""``<NS>.<Table>.history.json``: every deployed version of a schema, with the ids that its columns were given.

One JSON object: ``format`` (4), ``versions``, and ``crc32``, the CRC-32 of that list as compact JSON. A version
has ``version`` (1, 2, ... without gaps), ``sha256`` (of the bytes of the schema file), ``columns`` [[id, name, type,
storage, charset or null, kind], ...], and where there are any ``dropped``, the ids of columns that a command dropped
with it, and ``schema``, the text of the file, where it is UTF-8. Where a column has a codec, [codec or null, arguments
or null, width or null] stands behind its kind.

An id belongs to one type, storage, charset and codec until the column is widened (``store.types.model``). Its name
may change, and another id may have the name then. So the name of a file says nothing by itself: a location knows the
version that began it, and ``stems_of_ids`` says by which name each id goes there. A reader compares the id too.
``numbered`` is a schema with the ids and names of its version.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sparkhaven.store.errors import CorruptFileError, UnsupportedVersionError
from sparkhaven.store.framing import BROKEN
from sparkhaven.store.layout import TableName
from sparkhaven.store.types.datatypes import data_type
from sparkhaven.store.types.model import Column, Form, Kind, Storage, TableSchema, widens

FORMAT = 4
Codec = tuple[str | None, str | None, int | None]


@dataclass(frozen=True, slots=True)
class ColumnVersion:
    """One column of one version, as the history keeps it."""

    id: int
    name: str
    type: str
    storage: str
    encoding: str | None
    kind: str
    codec: Codec | None = None

    @staticmethod
    def of(column: Column, number: int) -> ColumnVersion:
        """The record of a column under an id."""
        stored = (column.type.name, column.storage.value, column.encoding, column.kind.name)
        codec = (column.codec, column.codec_args, column.codec_width)
        return ColumnVersion(number, column.name, *stored, None if codec == (None, None, None) else codec)

    def column(self) -> Column:
        """The column that the record is of, as far as it says."""
        codec = self.codec or (None, None, None)
        try:
            kind = data_type(self.type, *codec)
        except ValueError:  # of another release, or in a definition that was read
            kind = data_type(self.type, *codec, opaque=True)
        return Column(self.name, kind, Kind[self.kind], Storage(self.storage), self.id, self.encoding, *codec)

    def widens_to(self, other: ColumnVersion) -> bool:
        """Whether the files of a column may go on to be read when it is declared like another record."""
        return self.codec == other.codec and widens(self.column(), other.column())

    @property
    def identity(self) -> tuple[str, str, str, str | None, Codec | None]:
        """A column of a version: its name, and how its values are stored."""
        return (self.name, *self.stored)

    @property
    def stored(self) -> tuple[str, str, str | None, Codec | None]:
        """How values are stored, which an id has until it is widened."""
        return (self.type, self.storage, self.encoding, self.codec)

    def to_json(self) -> list[object]:
        """The column as the file has it."""
        codec = [] if self.codec is None else [list(self.codec)]
        return [self.id, self.name, self.type, self.storage, self.encoding, self.kind, *codec]


@dataclass(frozen=True, slots=True)
class Version:
    """One deployed version. ``dropped``: ids that a command dropped with it; ``text``: its file, where it is kept."""

    version: int
    sha256: str
    columns: tuple[ColumnVersion, ...]
    dropped: tuple[int, ...] = ()
    text: str | None = None


@dataclass(frozen=True, slots=True)
class Retired:
    """A column that the newest version of a history lacks. ``version``: the last one that has it.

    ``declared``: a command dropped it by name; else its values belong to the table still.
    """

    record: ColumnVersion
    version: int
    declared: bool


def encode_history(history: Sequence[Version]) -> bytes:
    """The file's content."""
    versions = [
        {
            "version": v.version,
            "sha256": v.sha256,
            "columns": [column.to_json() for column in v.columns],
            **({"dropped": list(v.dropped)} if v.dropped else {}),
            **({"schema": v.text} if v.text is not None else {}),
        }
        for v in history
    ]
    content = {"format": FORMAT, "versions": versions, "crc32": _crc(versions)}
    return (json.dumps(content, indent=1, ensure_ascii=False) + "\n").encode()


def decode_history(data: bytes, where: object) -> list[Version]:
    """The versions, oldest first; anything that no deployment leaves is a CorruptFileError."""
    try:
        content = json.loads(data)
        if content["format"] != FORMAT:
            raise _other(where, content["format"])
        versions = [_version(entry) for entry in content["versions"]]
        if content["crc32"] != _crc(content["versions"]):
            raise ValueError(f"CRC-32 of the versions is {_crc(content['versions'])}, stored is {content['crc32']}")
        _require_order(versions)
    except (*BROKEN, RecursionError) as error:
        raise CorruptFileError(
            "schema history cannot be read",
            where=where,
            expected='JSON {"format", "versions": [{"version", "sha256", "columns"}], "crc32"}, each id of one column',
            found=f"{type(error).__name__}: {error}",
            hint="restore the file from a backup. Column ids must not be given twice",
        ) from error
    return versions


def retired_columns(history: Sequence[Version]) -> dict[int, Retired]:
    """Columns of earlier versions that the newest one lacks, by id; ``history`` ends with the deployed version."""
    last: dict[int, tuple[ColumnVersion, int]] = {}
    declared: set[int] = set()
    for version in history:
        declared -= {column.id for column in version.columns}
        declared |= set(version.dropped)
        last |= {column.id: (column, version.version) for column in version.columns}
    standing = {column.id for column in history[-1].columns} if history else set()
    return {
        number: Retired(record, version, number in declared)
        for number, (record, version) in last.items()
        if number not in standing
    }


def forms_of_ids(history: Sequence[Version]) -> dict[int, tuple[Form, ...]]:
    """The forms that a column had before its last one, the oldest first."""
    forms: dict[int, dict[tuple[str, str], ColumnVersion]] = {}
    for version in history:
        for column in version.columns:
            forms.setdefault(column.id, {})[column.type, column.storage] = column
    earlier = {number: [record.column() for record in list(had.values())[:-1]] for number, had in forms.items()}
    return {number: tuple(Form(column.type, column.storage) for column in had) for number, had in earlier.items()}


def stems_of_ids(history: Sequence[Version]) -> dict[int, tuple[tuple[int, str], ...]]:
    """By which name the files of a column go in a location, by the version that began the location: ``Column.stems``.

    A column of that version goes by its name there. One that was retired by then goes by its last name before, and one
    that came later by its first name. Where another column of the location has that name, its id is put behind it: a
    column keeps the name of its files for as long as the location stands, whatever is deployed later.
    """
    first: dict[int, str] = {}
    for version in history:
        for column in version.columns:
            first.setdefault(column.id, column.name)
    stems: dict[int, list[tuple[int, str]]] = {number: [] for number in first}
    last: dict[int, str] = {}
    for version in history:
        own = {column.id: column.name for column in version.columns}
        last |= own
        retired = {number: last[number] for number in sorted(last.keys() - own.keys())}
        later = {number: first[number] for number in sorted(first.keys() - last.keys())}
        taken: set[str] = set()
        for number, name in (own | retired | later).items():
            stem = f"{name}-{number}" if name in taken else name
            taken.add(stem)
            if not stems[number] or stems[number][-1][1] != stem:
                stems[number].append((version.version, stem))
    return {number: tuple(runs) for number, runs in stems.items()}


def _other(where: object, stated: object) -> UnsupportedVersionError:
    return UnsupportedVersionError(
        "schema history has a form that this release cannot read",
        where=where,
        expected=f"format {FORMAT}",
        found=repr(stated),
        hint="another release wrote it. Read the table with that release",
    )


def _crc(versions: Any) -> int:
    return zlib.crc32(json.dumps(versions, sort_keys=True, separators=(",", ":")).encode())


def _version(entry: Any) -> Version:
    columns = tuple(_column(column) for column in entry["columns"])
    if type(entry["version"]) is not int or any(type(c.id) is not int or c.id < 0 for c in columns):
        raise ValueError("version and ids are whole numbers")
    texts = [text for c in columns for text in (c.name, c.type, c.storage, c.kind)]
    if not all(isinstance(text, str) for text in texts) or not isinstance(entry["sha256"], str):
        raise ValueError("names, types and checksums are texts")
    dropped, text = tuple(entry.get("dropped", ())), entry.get("schema")
    if any(type(number) is not int for number in dropped) or not isinstance(text, str | None):
        raise ValueError("dropped columns are ids, a schema is a text")
    return Version(entry["version"], entry["sha256"], columns, dropped, text)


def _column(entry: Any) -> ColumnVersion:
    *form, codec = entry if len(entry) > 6 else (*entry, None)
    if codec is not None:
        codec_class, arguments, width = codec
        texts = isinstance(codec_class, str | None) and isinstance(arguments, str | None)
        if not texts or not (width is None or type(width) is int):
            raise ValueError("a codec is a name, arguments and a width")
        codec = codec_class, arguments, width
    number, name, kind, storage, encoding, role = form
    return ColumnVersion(number, name, kind, storage, encoding, role, codec)


def _require_order(versions: Sequence[Version]) -> None:
    owners: dict[int, ColumnVersion] = {}
    for number, version in enumerate(versions, 1):
        if version.version != number:
            raise ValueError(f"version {version.version} stands where {number} should")
        for part, entries in (("id", [c.id for c in version.columns]), ("name", [c.name for c in version.columns])):
            if len(set(entries)) != len(entries):
                raise ValueError(f"version {number} has a column {part} twice")
        for column in version.columns:
            owner = owners.get(column.id, column)
            if owner.stored != column.stored and not owner.widens_to(column):
                raise ValueError(f"id {column.id} stands for {owner.stored} and for {column.stored}")
            owners[column.id] = column


def last_renames(history: Sequence[Version]) -> set[tuple[str, str]]:
    """The pairs (old, new) of columns that the newest version has renamed."""
    before = {column.id: column.name for version in history[-2:-1] for column in version.columns}
    names = ((before.get(column.id, column.name), column.name) for column in history[-1].columns)
    return {(old, new) for old, new in names if old != new}


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


def kept_text(data: bytes) -> str | None:
    """The text of a schema file as the history keeps it; None where it is not UTF-8."""
    try:
        return data.decode()
    except UnicodeDecodeError:  # in another charset: --restore takes the file then
        return None
