"""Payloads that hold one record each, in a binary format with a schema: what Avro and Protobuf have in common.

Records are decoded one by one, whole before any column is touched, so a damaged payload is a bad row and no neighbour
knows of it. What a format has to say for itself is in ``Records``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any, Protocol, TypeVar

import numpy as np
import pyarrow as pa

from ingest.bad_rows import BadRow, Rejects, bad_row
from ingest.content.lines import LineBlock
from ingest.spec import Target
from ingest.values.exact import check_float, from_json
from ingest.values.refusals import Refusal, Value
from ingest.values.rows import Rows, merge_rows

Record = TypeVar("Record")
SHOWN_BYTES = 256
_NUMBERS = (int, float, Decimal)


class NotARecordError(ValueError):
    """A payload that its schema does not decode; the text says why."""


class Records(Protocol[Record]):
    """One format: payload to record, record to the value of a target (by its place among them)."""

    format: str

    def read(self, payload: bytes) -> Record:
        """The record of a payload; NotARecordError if it is none, or if anything is left over."""
        ...

    def value(self, record: Record, place: int) -> Value | Refusal:
        """The value of a target, None for null, or why there is none."""
        ...

    def shown(self, record: Record, place: int) -> str:
        """What stands there, for people."""
        ...

    def unknown(self, record: Record) -> Iterable[str]:
        """Dotted names of the fields that no target takes."""
        ...


class RecordRows:
    """Decoder of the payloads of one stream. ``known`` names fields that are not stored and not counted."""

    def __init__(self, targets: Sequence[Target], known: Iterable[str], records: Records[Any]) -> None:
        self._targets, self._known, self._records = tuple(targets), frozenset(known), records

    def decode(self, block: LineBlock, file: str, rejects: Rejects) -> Rows:
        """Typed rows of framed payloads; bad rows go to ``rejects``."""
        rejects.read += len(block)
        good: list[int] = []
        values: list[list[Value]] = []
        for index in range(len(block)):
            found = self._one(block.line(index), file, int(block.numbers[index]), rejects)
            if isinstance(found, BadRow):
                rejects.add_all([found])
            else:
                good.append(index)
                values.append(found)
        none = np.empty(0, np.int64)
        columns = [pa.nulls(0, t.column.type.arrow) for t in self._targets]
        return merge_rows(block.numbers, none, columns, np.array(good, np.int64), values, self._targets)

    def _one(self, payload: bytes, file: str, number: int, rejects: Rejects) -> list[Value] | BadRow:
        records = self._records
        try:
            record = records.read(payload)
        except NotARecordError as error:
            reason, expected = f"not {records.format} ({error})", f"a record of {records.format} by the schema"
            return bad_row(file, number, None, reason, expected, payload[:SHOWN_BYTES].hex(" "), payload)
        values: list[Value] = []
        for place, target in enumerate(self._targets):
            value = records.value(record, place)
            if isinstance(value, Refusal):
                shown = records.shown(record, place)
                return bad_row(file, number, target.column.name, value.reason, value.expected, shown, payload)
            values.append(value)
        for name in records.unknown(record):
            if name not in self._known:
                rejects.ignored[name] += 1
        return values


def from_binary(value: Any, target: Target, alias: bool = False) -> Value | Refusal:
    """A value of a format that has numbers in binary: the rules are those of JSON, and NaN is a number."""
    name = target.column.type.name
    if isinstance(value, bytes | bytearray):
        return Refusal("wrong type (bytes)", f"a value for {name}")
    if name in ("double", "float") and isinstance(value, _NUMBERS) and not isinstance(value, bool):
        return check_float(value, target, alias)
    if isinstance(value, float):
        if value != value or value in (float("inf"), float("-inf")):
            return Refusal("not a finite number", f"a value for {name}")
        value = Decimal(value)
    return from_json(value, target, alias)
