"""Walks the directories of a tree that others made: leaves in order of their names, with the values of their dates.

How directories give the value of a date is a text with their keys, like ``{year}-{month:02}-{day:02}``. ``{key}`` is
the value as it is, ``{key:02}`` a number with so many digits, ``{key:date}`` the date of ``2026-11-20``, ``20261120``
or an instant, as ``YYYY-MM-DD``.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from string import Formatter
from urllib.parse import unquote

import pyarrow as pa

from sparkhaven.store.errors import CorruptFileError, InvalidNameError, SettingsError, SparkhavenError
from sparkhaven.store.format.parquet.footer import ANY_SIZE, checked_chunks
from sparkhaven.store.format.parquet.trees import HIVE_NULL, LOCATIONS_TABLES, MANIFEST, METADATA, SUFFIX
from sparkhaven.store.format.table.locations import DEEPHAVEN, LocationEntry
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import PARQUET, check_partition, without_generation
from sparkhaven.store.scan.location_files import locations_directory, read_locations
from sparkhaven.store.types.model import TableSchema
from sparkhaven.writers.transfer.leaf_readers import FoundLeaf, directory_value, foreign_bytes, foreign_damage

EXAMPLE = "'{year}-{month:02}-{day:02}'"
_DIGITS = re.compile(r"0[1-9]\Z")
_DATED = re.compile(r"([0-9]{4})-?([0-9]{2})-?([0-9]{2})(?:[T _]?[0-9]{2}:?.*)?\Z", re.DOTALL)
_MIDNIGHT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ]00:00(:00([.]0+)?)?(Z|[+-]00:?00)?\Z")
_COMPACT = re.compile(r"[0-9]{8}\Z")
_CALENDAR = (("year", "yyyy", "y"), ("month", "mm", "mon", "m"), ("day", "dd", "d"), ("hour", "hh", "hr", "h"))


@dataclass(frozen=True, slots=True)
class ValueTemplate:
    """``parts``: a text, and the key and form that follow it; None for the text at the end."""

    text: str
    parts: tuple[tuple[str, str | None, str], ...]

    @staticmethod
    def parse(text: str) -> ValueTemplate:
        """A template as it is written; SettingsError for a wrong one."""
        try:
            parts = [(before, key, form or "") for before, key, form, _ in Formatter().parse(text)]
        except ValueError as error:
            raise _wrong(text, str(error)) from None
        keys = [key for _, key, _ in parts if key is not None]
        odd = [form for _, key, form in parts if key is not None and not (form in ("", "date") or _DIGITS.match(form))]
        if not keys or "" in keys or odd:
            raise _wrong(text, f"form {odd[0]!r}" if odd else text)
        return ValueTemplate(text, tuple(parts))

    @property
    def keys(self) -> frozenset[str]:
        return frozenset(key for _, key, _ in self.parts if key is not None)

    def value(self, values: Mapping[str, str], where: object) -> str:
        """The value of a date by the values of its directories; InvalidNameError: one does not have its form."""
        return "".join(
            f"{text}{'' if key is None else _formed(values[key], form, where)}" for text, key, form in self.parts
        )


def proposed(directories: Sequence[tuple[str, str]]) -> str | None:
    """A template for directories that are there, by their keys and values; None: none comes to mind."""
    if len(directories) == 1:
        ((key, value),) = directories
        return f"{{{key}:date}}" if _COMPACT.match(value) or is_midnight(value) else f"{{{key}}}"
    keys = {key.lower(): key for key, _ in directories}
    units = [next((keys[name] for name in names if name in keys), None) for names in _CALENDAR]
    if None in units[:3] or len(directories) != sum(unit is not None for unit in units):
        return None
    year, month, day, hour = units
    return f"{{{year}:04}}-{{{month}:02}}-{{{day}:02}}" + (f"-{{{hour}:02}}" if hour else "")


def is_midnight(value: str) -> bool:
    """Whether a value is an instant that stands for a date, as writers make of a column of timestamps."""
    return _MIDNIGHT.match(value) is not None


def _formed(value: str, form: str, where: object) -> str:
    if not form:
        return value
    if form == "date":
        match = _DATED.match(value)
        try:
            return date(*map(int, match.groups())).isoformat() if match else _misformed(value, "a date", where)
        except ValueError:
            return _misformed(value, "a date", where)
    if not value.isascii() or not value.isdecimal():
        return _misformed(value, f"a number of {form[1:]} digits or fewer", where)
    return value.zfill(int(form))


def _misformed(value: str, expected: str, where: object) -> str:
    raise InvalidNameError(
        "a directory of the tree does not have the form that --value says",
        where=where,
        expected=expected,
        found=repr(value),
        hint="move the directory out of the tree, or write {key} in --value for the value as it is",
    )


def _wrong(text: str, fault: str) -> SettingsError:
    return SettingsError(
        "--value lacks keys of directories",
        where=text,
        expected=f"keys in braces, like {EXAMPLE}, with the forms 02 (digits) and date",
        found=fault,
    )


MAGIC = b"PAR1"
LOOK = "Then import it with --dry-run first, which shows what it has"
BARE = ("", ".parq", ".pq", ".snappy", ".gz", ".zstd", ".lz4")  # Hive's 000000_0, alone or with a codec
OTHERS = {b"ORC": "ORC", b"Obj\x01": "Avro", b"SEQ": "Hadoop sequences", b"ARRO": "Arrow"}


def visible(names: list[str]) -> list[str]:
    """Names of data."""
    return [name for name in names if name[0] not in "._"]


def nested_leaves(fs: Fs, root: Path, schema: TableSchema) -> Iterator[Path]:
    for internal in visible(fs.names(root)):
        for value in visible(fs.names(root / internal)):
            directory = root / internal / value / schema.name
            if fs.stat(directory) is not None:
                yield directory / PARQUET


class TreeWalk:
    """The leaves of a tree, by a method for each layout; ``template``: how directories give the value of a date."""

    def __init__(
        self, fs: Fs, root: Path, schema: TableSchema, raw_values: bool, template: ValueTemplate | None
    ) -> None:
        self.fs, self.root, self.schema, self.raw_values = fs, root, schema, raw_values
        assert schema.partitioning is not None  # noqa: S101  the caller saw it
        self.column = schema.partitioning.name
        self.template = template or ValueTemplate.parse(f"{{{self.column}}}")
        self.given = frozenset(column.name for column in schema.stored) - self.template.keys
        self.strict = template is None and not raw_values and fs.stat(root / MANIFEST) is None

    def leaf(
        self, path: Path, value: str | None, rows: int | None = None, keys: Mapping[str, str] | None = None
    ) -> FoundLeaf:
        columns = tuple((key, text) for key, text in (keys or {}).items() if key in self.given)
        return FoundLeaf(path, path.relative_to(self.root).as_posix(), value, rows, columns=columns)

    def nested(self) -> Iterator[FoundLeaf]:
        for path in nested_leaves(self.fs, self.root, self.schema):
            internal, value = path.parts[-4], path.parts[-3]
            if without_generation(internal) != internal and ".g" in internal:
                raise SettingsError(
                    "the tree is history in which dates were merged again. Replaced rows may still be there",
                    where=self.root / internal,
                    expected="each row once",
                    found=f"a later generation, {internal}",
                    hint="export the table there, and import that tree",
                )
            if self.fs.stat(path) is None:
                raise SettingsError(
                    "a location has no Parquet file",
                    where=path.parent,
                    expected=PARQUET,
                    found=", ".join(self.fs.names(path.parent)[:3]) or "an empty directory",
                    hint="export the table where its column files are",
                )
            yield self.leaf(path, check_partition("partition value", value))

    def flat(self) -> Iterator[FoundLeaf]:
        for name in visible(self.fs.names(self.root)):
            if self._is_file(self.root / name):
                yield self.leaf(self.root / name, None)

    def kv(self) -> Iterator[FoundLeaf]:
        yield from self._alike(self._level(self.root, {}))

    def _level(self, directory: Path, keys: dict[str, str]) -> Iterator[FoundLeaf]:
        value = self._value(keys, directory) if self.template.keys <= keys.keys() else None
        names = visible(self.fs.names(directory))
        if value is None:
            _require_one_key(directory, names)
        for name in names:
            path = directory / name
            deeper = value is not None and name.partition("=")[0] in self.given - keys.keys() and self.fs.is_dir(path)
            if value is None or deeper:
                key, of_key = self._pair(name, path, keys)
                if self._is_dir(path):
                    yield from self._level(path, {**keys, key: of_key})
            elif self._is_file(path):
                yield self.leaf(path, value, keys=keys)
            elif any(is_parquet(self.fs, directory / sibling) for sibling in names):
                raise _contradiction(path, f"a file *{SUFFIX}, as beside it", "a directory: one level more")
            else:
                raise self._misfit(path, f"files *{SUFFIX}", "a directory: one level more", self._proposal(path))

    def _alike(self, leaves: Iterator[FoundLeaf]) -> Iterator[FoundLeaf]:
        """Leaves of which each lies below directories of the same columns; else rows of a column would be lost."""
        first: FoundLeaf | None = None
        for leaf in leaves:
            first = first or leaf
            levels, others = ([name for name, _ in compared.columns] for compared in (first, leaf))
            if levels != others:
                expected = f"levels of {', '.join(levels) or 'the date alone'}, as of {first.name}"
                raise _contradiction(leaf.path, expected, ", ".join(others) or "the date alone")
            yield leaf

    def metadata(self) -> Iterator[FoundLeaf]:
        yield from self._alike(self._named())

    def _named(self) -> Iterator[FoundLeaf]:
        """The leaves that ``_metadata`` names."""
        from pyarrow.parquet import read_metadata  # which other layouts do not need

        path, rows = self.root / METADATA, dict[str, int]()
        data = pa.PythonFile(foreign_bytes(self.fs, path)(), mode="r")
        with foreign_damage(path):
            footer = checked_chunks(read_metadata(data), ANY_SIZE)
        for index in range(footer.num_row_groups):
            group = footer.row_group(index)
            name = group.column(0).file_path if group.num_columns else ""
            rows[name] = rows.get(name, 0) + group.num_rows
        for name, count in rows.items():
            parts = name.split("/")
            inside = self.fs.resolve(self.root) in self.fs.resolve(self.root / name).parents
            if not name or name.startswith("/") or ".." in parts or "" in parts or not inside:
                raise CorruptFileError(
                    "row group of _metadata names a file outside of the tree",
                    where=path,
                    expected="a path below the directory",
                    found=repr(name),
                    hint=f"have the tree written again. {LOOK}",
                )
            keys = self.template.keys
            given = {part.partition("=")[0] for part in parts[:-1]} & self.given
            if len(parts) != len(keys) + len(given) + 1:
                levels = f"levels of {', '.join(sorted(keys))}"
                hint = self._proposal((self.root / name).parent)
                raise self._misfit(self.root / name, levels, f"{len(parts) - 1} levels", hint)
            values: dict[str, str] = {}
            for part in parts[:-1]:
                plain = "=" not in part and len(keys) == 1 and not given
                key, of_key = (*keys, self._decoded(part)) if plain else self._pair(part, self.root / name, values)
                values[key] = of_key
            yield self.leaf(self.root / name, self._value(values, self.root / name), count, values)

    def hive(self) -> Iterator[FoundLeaf]:
        directory = locations_directory(self.fs, self.root, f"remove the one that is out of date. {LOOK}")
        if directory is None:
            raise CorruptFileError(
                "the tree has no Locations table",
                where=self.root,
                expected=" or ".join(LOCATIONS_TABLES),
                found="neither",
                hint="import it with --layout kv",
            )
        for entry in read_locations(self.fs, directory, self.column, self.schema):
            path = self.root / entry.filename
            stat = self.fs.stat(path)
            if stat is None or stat.is_dir != (entry.format == DEEPHAVEN):
                raise CorruptFileError(
                    "leaf of the Locations table is not there",
                    where=path,
                    expected=f"{entry.rows} rows in {entry.format}",
                    found="nothing" if stat is None else "a directory" if stat.is_dir else "a file",
                    hint="have the Locations table written anew from the tree",
                )
            keys: dict[str, str] = {}
            for part in entry.filename.split("/")[:-1]:
                key, value = self._pair(part, path, keys)
                keys[key] = value
            require_agreement(entry, keys, self.schema, path)
            yield self.leaf(path, self._value(keys, path), entry.rows, keys)

    def _pair(self, name: str, where: Path, keys: Mapping[str, str]) -> tuple[str, str]:
        """Key and value of a directory ``<key>=<value>``, a key that is not ``keys`` yet."""
        key, equals, value = name.partition("=")
        missing = sorted(self.template.keys - keys.keys())
        if not equals or key not in {*missing, *(self.given - keys.keys())}:
            hint = self._proposal(where) if equals else None
            expected = " or ".join(f"{key}=<value>" for key in missing) or f"files *{SUFFIX}"
            raise self._misfit(where, expected, name, hint)
        value = self._decoded(value)
        if value == HIVE_NULL and not self.raw_values and key not in self.given:
            raise self._misfit(where, "a value", f"{HIVE_NULL}, which is null")
        return key, value

    def _value(self, keys: Mapping[str, str], where: Path) -> str:
        value = check_partition("partition value", self.template.value(keys, where))
        if self.strict and is_midnight(value):
            column = self.column
            raise SettingsError(
                "a directory of the tree names an instant, not a date",
                where=where,
                expected=f"{column}={value[:10]}",
                found=f"{column}={value}",
                hint=f"import with --value '{{{column}:date}}' for the date {value[:10]}, or with"
                f" --value '{{{column}}}' for a date of this very name",
            )
        return value

    def _proposal(self, path: Path) -> str | None:
        """The --value for the directories that lead to a path, and on from there."""
        while deeper := next((n for n in visible(self.fs.names(path)) if "=" in n), None):
            path /= deeper
        pairs = [name.partition("=")[::2] for name in path.relative_to(self.root).parts if "=" in name]
        text = proposed([(key, self._decoded(value)) for key, value in pairs])
        if text is None:
            keys = ", ".join(key for key, _ in pairs)
            return f"name the keys of the date with --value, like {EXAMPLE}. The tree has {keys}"
        near = [key for key, _ in pairs if key != self.column and key.lower() == self.column.lower()]
        meant = f"do you mean {self.column}? " if near else ""
        return f"{meant}import with --value '{text}'"

    def _decoded(self, value: str) -> str:
        return value if self.raw_values else unquote(value, errors="strict")

    def _is_file(self, path: Path) -> bool:
        if self.fs.is_dir(path):
            return False
        if not is_parquet(self.fs, path):
            raise self._misfit(path, "Parquet files", _kind(self.fs, path))
        return True

    def _is_dir(self, path: Path) -> bool:
        if not self.fs.is_dir(path):
            raise self._misfit(path, f"directories {' and '.join(sorted(self.template.keys))}=<value>", path.name)
        return True

    def _misfit(self, where: Path, expected: str, found: str, hint: str | None = None) -> SparkhavenError:
        return SettingsError(
            "the tree does not fit the table",
            where=where,
            expected=expected,
            found=found,
            hint=hint or "move it out of the tree, or name another directory or --layout",
        )


def is_parquet(fs: Fs, path: Path) -> bool:
    """Whether a file is one of Parquet by its name, or by its first bytes."""
    stat = fs.stat(path)
    if stat is None or not stat.is_file:
        return False
    if path.name.endswith(SUFFIX):
        return True
    may_be = path.suffix in BARE and stat.size >= len(MAGIC)
    return may_be and fs.read_range(path, 0, len(MAGIC)) == MAGIC


def _require_one_key(directory: Path, names: Sequence[str]) -> None:
    """CorruptFileError: of directories ``<key>=<value>`` side by side, one has another key or none."""
    keys = {name: name.partition("=")[0] if "=" in name else None for name in names}
    usual = Counter(key for key in keys.values() if key is not None).most_common(1)
    for name, key in keys.items():
        if usual and key != usual[0][0]:
            raise _contradiction(directory / name, f"{usual[0][0]}=<value>, as beside it", name)


def _contradiction(where: Path, expected: str, found: str) -> CorruptFileError:
    return CorruptFileError(
        "the tree contradicts itself",
        where=where,
        expected=expected,
        found=found,
        hint=f"move it out of the tree, or have the tree written again. {LOOK}",
    )


def _kind(fs: Fs, path: Path) -> str:
    stat = fs.stat(path)
    if stat is None or not stat.is_file:
        return "nothing" if stat is None else path.name
    head = fs.read_range(path, 0, min(stat.size, len(MAGIC)))
    return next(
        (f"{path.name}, a file of {name}" for magic, name in OTHERS.items() if head.startswith(magic)), path.name
    )


def require_agreement(entry: LocationEntry, keys: Mapping[str, str], schema: TableSchema, path: Path) -> None:
    """CorruptFileError: the row has other columns, or other values, than directories ``keys`` of the leaf's path.

    SchemaMismatchError: a directory names no value of its column.
    """
    assert schema.partitioning is not None  # noqa: S101  the caller saw it
    date, row = schema.partitioning.name, dict(entry.columns)
    if keys.keys() != {date, *row}:
        raise _other_row(path, f"levels of {', '.join((date, *row))}, the columns of the Locations table", keys)
    if keys[date] != entry.value:
        raise _other_row(path, f"{date}={entry.value}, as its row of the Locations table says", keys)
    columns = {column.name: column for column in schema.stored}
    for name, value in row.items():
        if not _same(value, directory_value(keys[name], columns[name], path.parent)[0]):
            words = f"{name}={value.as_py()}" if value.is_valid else f"{name} null"
            raise _other_row(path, f"{words}, as its row of the Locations table says", keys)


def _same(left: pa.Scalar, right: pa.Scalar) -> bool:
    """NaN is the same as NaN."""
    if left.is_valid and right.is_valid and pa.types.is_floating(left.type):
        return str(left) == str(right)
    return bool(left.equals(right))


def _other_row(path: Path, expected: str, keys: Mapping[str, str]) -> CorruptFileError:
    return CorruptFileError(
        "path of a leaf contradicts the Locations table",
        where=path,
        expected=expected,
        found=", ".join(f"{name}={text}" for name, text in keys.items()) or "a leaf in the root",
        hint="have the Locations table written anew from the tree",
    )
