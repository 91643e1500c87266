"""A reading: how the values of a field become values of a column type; and whether all of a sample do.

Nothing is believed that the decoder would not take: each value goes through the exact rules that ingest itself goes by.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, TypedDict

import numpy as np

from sparkhaven.ingest.formats.parquet.typed_values import SourceColumn, check_type, exact_value, show, typed_values
from sparkhaven.ingest.sample_rows import Sample, shown
from sparkhaven.ingest.spec.stream_spec import ColumnSpec, Far, Target, TextForm, Unit
from sparkhaven.ingest.values.exact_values import from_json, from_text
from sparkhaven.ingest.values.json_text import json_text
from sparkhaven.ingest.values.refusals import Refusal, Value
from sparkhaven.store.conversions.number_arrays import plain
from sparkhaven.store.errors import SchemaMismatchError
from sparkhaven.store.types.datatypes import coded_row, data_type
from sparkhaven.store.types.model import Column, Kind, Storage

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
