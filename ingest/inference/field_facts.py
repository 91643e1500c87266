"""What is known of the values of one field of a sample, and how they become values of a column type.

Facts are kinds, ranges, how often each value comes. Names of fields become names of columns: ASCII identifiers, each
once, also for tools that ignore case.

A reading says how values become those of a type. Nothing is believed that the decoder would not take: each value goes
through the exact rules that ingest itself goes by.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any, TypedDict

import numpy as np
import pyarrow as pa

from sparkhaven.ingest.formats.json.field_paths import path_of
from sparkhaven.ingest.formats.parquet.typed_values import SourceColumn, check_type, exact_value, show, typed_values
from sparkhaven.ingest.sample_rows import Sample, TypedPart, shown
from sparkhaven.ingest.spec import ColumnSpec, Far, Target, TextForm, Unit
from sparkhaven.ingest.values.exact_values import SPECIAL_TEXT, from_json, from_text
from sparkhaven.ingest.values.json_text import exact_number, json_text
from sparkhaven.ingest.values.text_forms import NO, YES
from sparkhaven.ingest.values.typed_rows import Refusal, Value
from sparkhaven.store.conversions.conversion_table import Group, source_of
from sparkhaven.store.conversions.number_arrays import plain
from sparkhaven.store.errors import SchemaMismatchError
from sparkhaven.store.layout import MAX_NAME
from sparkhaven.store.types.datatypes import coded_row, data_type
from sparkhaven.store.types.model import Column, Kind, Storage

BOOLEAN, WHOLE, FRACTION, TEXT, ARRAY, OBJECT = "boolean", "whole", "fraction", "text", "array", "object"
PLURAL = {
    BOOLEAN: "booleans",
    WHOLE: "whole numbers",
    FRACTION: "numbers with a fraction",
    TEXT: "texts",
    ARRAY: "arrays",
    OBJECT: "objects",
}
_WHOLE_TEXT = re.compile(r"[+-]?(0|[1-9][0-9]*)\Z", re.ASCII)
_NUMBER_TEXT = re.compile(r"[+-]?((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?\Z", re.ASCII)
_DIGITS = 4000  # of a number; longer ones are never compared
_RESERVED = re.compile(
    "i|ii|k|in|not|null|true|false|ignore|abstract|assert|boolean|break|byte|case|catch|char|class|const|continue|default"
    "|do|double|else|enum|extends|final|finally|float|for|goto|if|implements|import|instanceof|int|interface|long|native"
    "|new|package|private|protected|public|return|short|static|strictfp|super|switch|synchronized|this|throw|throws"
    "|transient|try|void|volatile|while"
)
"""Names that queries of Deephaven (Java) or a stream file have taken."""


@dataclass(slots=True)
class Facts:
    """Counts over all rows of one field. ``kinds``: how many values are of each kind, ``first`` an example of each.

    ``counts`` has the texts of scalar values and how often each comes; ``low`` and ``high`` bound the numbers;
    ``types`` are those that Parquet files declare.
    """

    rows: int = 0
    nulls: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    first: dict[str, str] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    low: int | Decimal | None = None
    high: int | Decimal | None = None
    widest: int = 0
    types: tuple[pa.DataType, ...] = ()

    @property
    def values(self) -> int:
        """Rows that are not null."""
        return self.rows - self.nulls

    @property
    def distinct(self) -> int:
        return len(self.counts)

    @property
    def only(self) -> str | None:
        """The kind that all values are of."""
        return next(iter(self.kinds)) if len(self.kinds) == 1 else None


def facts_of(sample: Sample, source: str) -> Facts:
    """What a sample says about one field."""
    facts = Facts(rows=sample.rows)
    if sample.form == "parquet":
        parts = [part for part in sample.fields[source] if not pa.types.is_null(part.array.type)]
        facts.types = tuple(dict.fromkeys(part.array.type for part in parts))
        values: Iterator[Any] = (value for part in sample.fields[source] for value in _values(part))
    else:
        values = sample.values(source)
    texts = sample.form == "csv"
    for row, value in enumerate(values):
        if value is None:
            facts.nulls += 1
            continue
        kind, number = _text_kind(value) if texts else _kind(value)
        facts.kinds[kind] += 1
        text = json_text(value) if isinstance(value, dict | list) else str(value)
        facts.counts[text] += 1
        facts.widest = max(facts.widest, len(text))
        if kind not in facts.first:
            facts.first[kind] = f"{shown(text)} ({sample.positions[row]})"
        if number is not None:
            facts.low = number if facts.low is None or number < facts.low else facts.low
            facts.high = number if facts.high is None or number > facts.high else facts.high
    if facts.only == FRACTION and all(SPECIAL_TEXT.match(text) for text in facts.counts) and texts:
        facts.kinds = Counter({TEXT: facts.values})
        facts.first = {TEXT: facts.first[FRACTION]}
    return facts


def _kind(value: Any) -> tuple[str, int | Decimal | None]:
    if isinstance(value, bool):
        return BOOLEAN, None
    if isinstance(value, int):
        return WHOLE, value
    if isinstance(value, Decimal):
        return FRACTION, value if value.is_finite() else None
    if isinstance(value, float):
        return FRACTION, None
    return (ARRAY if isinstance(value, list) else OBJECT if isinstance(value, dict) else TEXT), None


def _text_kind(text: str) -> tuple[str, int | Decimal | None]:
    """Of a text of CSV. One with leading zeros is no number: it would lose them."""
    if _WHOLE_TEXT.match(text):
        return (WHOLE, int(text)) if len(text) < _DIGITS else (FRACTION, None)
    if _NUMBER_TEXT.match(text):
        number = exact_number(text)
        return FRACTION, number if number.is_finite() else None
    if SPECIAL_TEXT.match(text):
        return FRACTION, None
    return BOOLEAN if text in YES or text in NO else TEXT, None


def _values(part: TypedPart) -> Iterator[Any]:
    """Values as Python has them; instants as their counts, what has no use here as null or not."""
    kind, kinds, group = part.array.type, pa.types, source_of(part.array.type).group
    if group in (Group.NESTED, Group.BYTES, Group.OTHER):
        yield from ("…" if valid else None for valid in part.array.is_valid().to_pylist())
        return
    array = plain(part.array)
    if kinds.is_date32(kind) or kinds.is_time32(kind):
        yield from array.view(pa.int32()).to_pylist()
    elif kinds.is_temporal(kind):
        yield from array.view(pa.int64()).to_pylist()
    else:
        yield from array.to_pylist()


def column_names(sources: Iterable[str], taken: Iterable[str]) -> dict[str, str]:
    """A column name for each field. Levels of objects are joined by ``__``; ``taken`` are names of other columns."""
    used = {name.lower() for name in taken}
    names: dict[str, str] = {}
    for source in sources:
        wanted = name = _legal(source)
        number = 2
        while name.lower() in used:
            name = f"{wanted}_{number}"
            number += 1
        used.add(name.lower())
        names[source] = name
    return names


def identifier(text: str) -> str:
    """A text as a name for a table or a column."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode("ascii")
    name = re.sub(r"[^A-Za-z0-9_]+", "_", plain if plain.strip() else "_")[: MAX_NAME - 20]
    return f"_{name}" if name[:1].isdigit() else name


def _legal(source: str) -> str:
    name = "__".join(map(identifier, path_of(source)))[: MAX_NAME - 10]
    if not name.strip("_"):
        name = "field"
    return f"{name}_" if _RESERVED.fullmatch(name) else name


ColumnSettings = TypedDict(
    "ColumnSettings",
    {
        "from": str,
        "key": str,
        "meta": str,
        "unit": Unit,
        "zone": str,
        "far": Far,
        "lossy": bool,
        "format": str,
        "trim": bool,
        "quoted": bool,
        "as_text": bool,
        "thousands": str,
        "decimal": str,
        "true": list[str],
        "false": list[str],
    },
    total=False,
)
"""One entry of ``[columns]``, as it is written."""


@dataclass(frozen=True, slots=True)
class Reading:
    """A column type with its codec, and the settings under ``[columns]`` by which values become it.

    Without ``codec`` it is that of the type; ``arguments`` are the codec's.
    """

    type: str
    unit: Unit = "iso"
    zone: str | None = None
    form: TextForm | None = None
    far: Far | None = None
    lossy: bool = False
    arguments: str | None = None
    codec: str | None = None

    @property
    def declared(self) -> str:
        """The attributes of a column of the schema that say the type."""
        row = coded_row(self.type)
        codec = f' objectCodec="{row.codec if row else ""}" objectCodecArguments="{self.arguments}"'
        return f'dataType="{self.type}"{"" if self.arguments is None else codec}'

    def of_column(self, column: Column) -> Reading:
        """This reading, with the codec of a column."""
        origin = column.type.origin
        return self if origin is None else replace(self, codec=origin.codec, arguments=origin.arguments)

    def spec(self, column: str, source: str) -> ColumnSpec:
        named = None if source == column else source
        return ColumnSpec(column, named, self.unit, self.zone, far=self.far, form=self.form, lossy=self.lossy)

    def target(self, source: str, encoding: str | None = None) -> Target:
        """What decoders take."""
        kind, text = data_type(self.type, self.codec, self.arguments), self.type == "String"
        storage = Storage.SYMBOL if text else Storage.FIXED if kind.coding is None else Storage.BLOB
        column = Column("v", kind, Kind.NORMAL, storage, 0, (encoding or "UTF_8") if text else None)
        return Target(column, source, self.unit, self.zone, None, True, far=self.far, form=self.form, lossy=self.lossy)


@dataclass(frozen=True, slots=True)
class Misfit:
    """A value of a sample that a reading refuses."""

    place: str
    value: str
    reason: str

    def __str__(self) -> str:
        return f"{self.value}: {self.reason} ({self.place})"


def misfit(sample: Sample, source: str, reading: Reading, encoding: str | None = None) -> Misfit | None:
    return next(misfits(sample, source, reading, encoding), None)


def misfits(sample: Sample, source: str, reading: Reading, encoding: str | None = None) -> Iterator[Misfit]:
    """Every row whose value is refused."""
    target = reading.target(source, encoding)
    return _typed(sample, source, target) if sample.form == "parquet" else _plain(sample, source, target)


def plain_outcomes(sample: Sample, source: str, target: Target) -> Iterator[tuple[Any, Value | Refusal]]:
    """The values of a field of JSON or CSV, and what comes of each; each distinct one is looked at once."""
    convert = from_json if sample.form == "json" else from_text
    outcomes: dict[tuple[type, Any], Value | Refusal] = {}
    for value in sample.values(source):
        key = type(value), json_text(value) if isinstance(value, dict | list) else str(value)
        if key not in outcomes:
            outcomes[key] = None if value is None else convert(value, target)
        yield value, outcomes[key]


def _plain(sample: Sample, source: str, target: Target) -> Iterator[Misfit]:
    for row, (value, outcome) in enumerate(plain_outcomes(sample, source, target)):
        if isinstance(outcome, Refusal):
            text = json_text(value) if isinstance(value, dict | list) else value
            yield Misfit(sample.positions[row], shown(text), outcome.explanation)


def _typed(sample: Sample, source: str, target: Target) -> Iterator[Misfit]:
    start = 0
    for part in sample.fields[source]:
        if len(part.array):
            column = SourceColumn(plain(part.array), part.far, part.old)
            try:
                check_type(target, part.array.type, sample.positions[start])
            except SchemaMismatchError as error:
                yield Misfit(sample.positions[start], str(part.array.type), f"no type for {error.expected}")
                return
            doubt = typed_values(column, target)[1]
            for row in [] if doubt is None else np.flatnonzero(doubt).tolist():
                outcome = exact_value(column, row, target, False)
                if isinstance(outcome, Refusal):
                    yield Misfit(sample.positions[start + row], shown(show(column.scalar(row))), outcome.explanation)
        start += len(part.array)
