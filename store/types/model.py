"""A table's definition as values, from a ``.schema`` file or a ``.tbl``.

A column may be widened beside its rows. Every value of a form has one of each wider form, and null stays null, so that
files of all forms read as one column. The way back is for rows that go to a location from before the widening, whose
files keep their form.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Literal, cast, get_args

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sparkhaven.store.types.datatypes import DataType

Keep = Literal["first", "last"]
CHARSETS = ("ISO_8859_1", "UTF_8", "US_ASCII", "UTF_16", "UTF_16BE", "UTF_16LE")
MERGE_FORMATS = ("DeephavenV1", "Parquet")
Distribution = Literal["formula", "round-robin", "free-space"]
DISTRIBUTIONS: tuple[Distribution, ...] = get_args(Distribution)
KEYS = "numbers, texts, Booleans, Instants, dates, times of the day, and decimals with a precision"  # in order
MOST_NAMES = 200  # bytes of the names of the columns of an index, which its directory has
NOW = (1 << 31) - 1
"""The version of a schema by which files are named that no record of ours is of: the newest."""
WIDER = {
    "byte": ("short", "int", "long"),
    "short": ("int", "long"),
    "int": ("long",),
    "float": ("double",),
}


@dataclass(frozen=True, slots=True)
class DedupeRule:
    """Of the rows with equal ``keys`` the first or the last is kept, by ``order_by``, then in the order of the sources.

    ``upsert``: what history has of the date comes before the rows that are new, so that these win.
    """

    keys: tuple[str, ...]
    keep: Keep = "first"
    order_by: str | None = None
    upsert: bool = False

    @property
    def columns(self) -> tuple[str, ...]:
        """Every column that it names."""
        return (*self.keys, *((self.order_by,) if self.order_by else ()))

    def words(self) -> str:
        """The options of ``merge`` that give it."""
        keys = ",".join(self.keys)
        how = f"--upsert {keys}" if self.upsert else f"--dedupe {keys} --keep {self.keep}"
        return how + (f" --order-by {self.order_by}" if self.order_by else "")

    def renamed(self, names: dict[str, str]) -> DedupeRule:
        """The rule under the names that its columns have now; ``names``: name of then -> name."""
        order_by = None if self.order_by is None else names.get(self.order_by, self.order_by)
        return DedupeRule(tuple(names.get(name, name) for name in self.keys), self.keep, order_by, self.upsert)

    def to_json(self) -> list[object]:
        """[keys, ``first`` or ``last``, order or null, upsert]."""
        return [list(self.keys), self.keep, self.order_by, self.upsert]

    @staticmethod
    def from_json(data: Any) -> DedupeRule:
        """TypeError, ValueError: it has another form."""
        keys, keep, order_by, upsert = data
        texts = isinstance(keys, list) and all(isinstance(name, str) for name in keys)
        if not keys or not texts or keep not in ("first", "last") or not isinstance(upsert, bool):
            raise ValueError(f"no rule of duplicates: {data}")
        if not isinstance(order_by, str | None):
            raise ValueError(f"no column to order by: {order_by}")
        return DedupeRule(tuple(keys), cast("Keep", keep), order_by, upsert)


class Kind(Enum):
    """Role of a column; the values are those of ``ColumnType`` in a ``.tbl``."""

    NORMAL = 1
    GROUPING = 2
    PARTITIONING = 4


class Storage(Enum):
    """How the values of a column lie on disk."""

    FIXED = "fixed"  # entries in .dat only
    SYMBOL = "symbol"  # int32 per row into .sym, which ends into .sym.bytes
    SET = "set"  # 64 bits per row, one for each symbol of .sym and .sym.bytes
    BLOB = "blob"  # int64 end per row into .bytes
    NONE = "none"  # the partitioning column: no files


@dataclass(frozen=True, slots=True)
class Form:
    """How the values of a column lie in files that were written before it was widened."""

    type: DataType
    storage: Storage


@dataclass(frozen=True, slots=True)
class Column:
    """One column. ``id`` never changes and is never reused; ``encoding`` is None unless a string.

    ``stems``: by which name its files go in a location, as (version, name): from that version of the schema on, if the
    location was begun by it. Empty: always by ``name``. ``forms``: earlier forms, the oldest first, which files from
    before a widening still have.
    """

    name: str
    type: DataType
    kind: Kind
    storage: Storage
    id: int
    encoding: str | None = None
    codec: str | None = None
    codec_args: str | None = None
    codec_width: int | None = None
    component: DataType | None = None
    spelling: str = ""  # dataType as the file spells it
    stems: tuple[tuple[int, str], ...] = ()
    forms: tuple[Form, ...] = ()

    @property
    def width(self) -> int:
        """Bytes per row in ``.dat``: 4 for symbols, 8 for blobs and sets, else the width of the type."""
        if self.storage is Storage.SYMBOL:
            return 4
        return self.type.width if self.storage in (Storage.FIXED, Storage.NONE) else 8

    @property
    def ordered(self) -> bool:
        """Whether rows can be put in order by the column, and it can be a key of an index."""
        return self.type.ordered and self.storage is not Storage.NONE

    @property
    def files(self) -> tuple[str, ...]:
        """Names of the files of this column in a location, ``.dat`` first."""
        name, storage = self.name, self.storage
        if storage is Storage.FIXED:
            return (f"{name}.dat",)
        if storage in (Storage.SYMBOL, Storage.SET):
            return (f"{name}.dat", f"{name}.sym", f"{name}.sym.bytes")
        return (f"{name}.dat", f"{name}.bytes") if storage is Storage.BLOB else ()

    def at(self, version: int) -> Column:
        """The column under the name of its files in a location that is ``named_by`` this version of the schema.

        Nothing else tells whose file it is: another column may have had the name before, or have it now.
        """
        if not self.stems:
            return self
        return replace(self, name=self.stem(version), stems=())

    def stem(self, version: int) -> str:
        """The name of ``at``."""
        run = bisect_right(self.stems, version, key=lambda stem: stem[0])
        return self.stems[max(run - 1, 0)][1] if self.stems else self.name

    @property
    def former_names(self) -> tuple[str, ...]:
        """Other names that files of it have, the newest first."""
        return tuple(dict.fromkeys(name for _, name in reversed(self.stems) if name != self.name))

    def within(self, files: Container[str]) -> Column:
        """The column with the storage that its files have in a location with these files, where they have its name."""
        if self.storage is Storage.BLOB and self.forms and f"{self.name}.sym" in files:
            return replace(self, storage=Storage.SYMBOL, forms=())
        return self

    @property
    def earlier(self) -> tuple[Column, ...]:
        """The column in each of its earlier forms."""
        return tuple(replace(self, type=form.type, storage=form.storage, forms=()) for form in self.forms)


def is_built(keys: Sequence[str], columns: Iterable[Column]) -> bool:
    """Whether a merge writes an index of these columns: all have an order, and their names fit a file name."""
    ordered = {column.name for column in columns if column.ordered}
    return ordered.issuperset(keys) and len(",".join(keys).encode()) <= MOST_NAMES


def dedupe_fault(rule: DedupeRule, columns: Iterable[Column]) -> tuple[str, str] | None:
    """What is expected of the columns of a rule and what is found; None: it can be used."""
    comparable = {column.name: column for column in columns if column.ordered}
    expected = f"columns of {KEYS}, each once"
    if not rule.keys:
        return expected, "no column"
    if len(set(rule.keys)) < len(rule.keys):
        return expected, ", ".join(rule.keys)
    unknown = [name for name in rule.columns if name not in comparable]
    if unknown:
        return expected, unknown[0]
    order_by = comparable.get(rule.order_by or "")
    if order_by is not None and order_by.type.name in ("float", "double", "Boolean"):
        return "an order by no float and no Boolean", f"{order_by.name}, a {order_by.type.name}"
    return None


def case_twins(names: Iterable[str]) -> tuple[str, str] | None:
    """The first two names that differ in case only."""
    first_spelling: dict[str, str] = {}
    for name in names:
        if (other := first_spelling.setdefault(name.lower(), name)) != name:
            return other, name
    return None


@dataclass(frozen=True, slots=True)
class ValidatorRule:
    """One child of ``Validator``: name of the rule and its attributes as written."""

    name: str
    attributes: dict[str, str]
    line: int


@dataclass(frozen=True, slots=True)
class TableSchema:
    """The definition of one table. ``extended``: type of its ``ExtendedStorage``, None for the nested layout.

    ``distribution``: how a merge chooses storage partitions; None: by the key formula.
    ``extended_format``: that of the leaves of a ``coreplus:hive`` tree. ``retired``: columns of earlier versions, whose
    files may still be there; ``dropped``: ids of those among them that a command dropped.
    """

    namespace: str
    name: str
    columns: tuple[Column, ...]
    nested: bool = True
    merge_format: str = "DeephavenV1"
    merge_codec: str | None = None
    dedupe: DedupeRule | None = None
    key_formula: str | None = None
    distribution: Distribution | None = None
    data_indexes: tuple[tuple[str, ...], ...] = ()
    rules: tuple[ValidatorRule, ...] = ()
    version: int = 1
    extended: str | None = None
    extended_format: str = "Parquet"
    retired: tuple[Column, ...] = ()
    dropped: frozenset[int] = frozenset()

    @property
    def full_name(self) -> str:
        """``Namespace.Table``."""
        return f"{self.namespace}.{self.name}"

    @property
    def partitioning(self) -> Column | None:
        """The partitioning column; None for a splayed table."""
        return next((c for c in self.columns if c.kind is Kind.PARTITIONING), None)

    @property
    def stored(self) -> tuple[Column, ...]:
        """The columns that have files, in definition order."""
        return tuple(c for c in self.columns if c.kind is not Kind.PARTITIONING)

    @property
    def grouping(self) -> tuple[Column, ...]:
        """The grouping columns in definition order."""
        return tuple(c for c in self.columns if c.kind is Kind.GROUPING)

    @property
    def built_indexes(self) -> tuple[tuple[str, ...], ...]:
        """The data indexes that a merge writes."""
        return tuple(keys for keys in self.data_indexes if is_built(keys, self.columns))

    @property
    def readable(self) -> TableSchema:
        """The schema with the columns of earlier versions behind its own, for reads that name them."""
        names = {column.name for column in self.columns}
        return replace(self, columns=(*self.columns, *(c for c in self.retired if c.name not in names)))

    def names_at(self, version: int) -> dict[str, str]:
        """Names of columns in files and records that are named by a version, where they differ -> their names now."""
        every = (*self.retired, *self.columns)
        return {stem: c.name for c in every if c.stems and (stem := c.stem(version)) != c.name}

    def moved_since(self, version: int, names: Iterable[str]) -> bool:
        """Whether one of these names stands for another column now than in a version."""
        now = self.names_at(version)
        return any(name in now or name in now.values() for name in names)

    @property
    def case_twins(self) -> tuple[str, str] | None:
        """Two columns whose names differ in case only, which a deployed schema may have."""
        return case_twins(column.name for column in self.columns)

    def column(self, name: str) -> Column | None:
        """The column of that exact name, or None."""
        return next((c for c in self.columns if c.name == name), None)

    @property
    def arrow(self) -> pa.Schema:
        """Arrow schema of what readers return: every column in definition order, all nullable."""
        return pa.schema([pa.field(c.name, c.type.arrow) for c in self.columns])


def widens(old: Column, new: Column) -> bool:
    """Whether a column may take the form of ``new``: a wider number, or text of its own in place of symbols."""
    if old.type.name == "String":
        text = new.type.name == "String" and old.encoding == new.encoding
        return text and (old.storage, new.storage) == (Storage.SYMBOL, Storage.BLOB)
    return new.type.name in WIDER.get(old.type.name, ())


def same_form(one: Column, other: Column) -> bool:
    """True if both columns have the same on-disk encoding."""
    return one.type == other.type and one.storage is other.storage


def widened(values: pa.Array, column: Column) -> pa.Array:
    """Values of an earlier form of a column in the type in which the column is read."""
    return values.cast(column.type.arrow)


def fitting(values: pa.Array, form: Column) -> npt.NDArray[np.bool_]:
    """Which values of a widened column an earlier form of it can have: whole numbers exactly, others as it rounds.

    A number that means null in that form has no place in it.
    """
    if form.storage is Storage.SYMBOL or values.null_count == len(values):
        return np.ones(len(values), np.bool_)
    numbers = values.fill_null(0).to_numpy(zero_copy_only=False)
    if not pa.types.is_floating(form.type.arrow):
        bounds = np.iinfo(form.type.arrow.to_pandas_dtype())
        return np.asarray((numbers > bounds.min) & (numbers <= bounds.max))
    with np.errstate(over="ignore"):
        rounded = numbers.astype(np.float32)
    return np.asarray((np.isfinite(rounded) | ~np.isfinite(numbers)) & (rounded != np.float32(form.type.null)))


def narrowed(values: pa.Array, form: Column) -> pa.Array:
    """Values that fit an earlier form of their column, in its type."""
    return values if form.storage is Storage.SYMBOL else values.cast(form.type.arrow, safe=False)
