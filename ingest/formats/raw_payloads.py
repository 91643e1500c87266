"""Payloads taken whole: each column of the part is the payload itself, by the type of the column.

Text is UTF-8, bytes are as they come. A number is what Kafka's own serialisers write, big-endian and of the width of
its type; an Instant is a long in the unit of the column. Any other length is a bad row.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from sparkhaven.ingest.bad_rows import BadRow, Rejects, bad_row, exact_rows
from sparkhaven.ingest.content.lines import LineBlock
from sparkhaven.ingest.spec.stream_spec import Target
from sparkhaven.ingest.values.arrow_columns import Mask
from sparkhaven.ingest.values.coded_values import coded_value
from sparkhaven.ingest.values.exact_values import check_float, check_integer, check_string, declared_value
from sparkhaven.ingest.values.instants import check_instant
from sparkhaven.ingest.values.refusals import Refusal, Value, attempted, not_utf8
from sparkhaven.ingest.values.typed_columns import texts_of
from sparkhaven.ingest.values.typed_rows import TypedRows, merge_rows, no_columns
from sparkhaven.store.conversions.conversion_table import INTEGER_BITS
from sparkhaven.store.errors import SettingsError
from sparkhaven.store.instants import UNIT_NS
from sparkhaven.store.quarantine.rejected_rows import Reason

_NUMBERS = {"byte": "b", "short": "h", "int": "i", "long": "q", "float": "f", "double": "d", "Instant": "q"}


class RawDecoder:
    """Decoder of whole payloads for one stream."""

    def __init__(self, targets: Sequence[Target], *, alias: bool = False) -> None:
        self._targets, self._alias = tuple(targets), alias
        for target in targets:
            name, coding = target.column.type.name, target.column.type.coding
            if coding is not None and pa.types.is_binary(coding.arrow):
                continue
            if name != "String" and (name not in _NUMBERS or (name == "Instant" and target.unit == "iso")):
                raise SettingsError(
                    f"column {target.column.name} cannot take a whole payload",
                    expected="String, bytes, a number, or an Instant with unit s, ms, us or ns",
                    found=name,
                    hint="choose another format in [feed], or another type in the schema",
                )

    def decode(self, block: LineBlock, file: str, rejects: Rejects) -> TypedRows:
        """Typed rows of framed payloads; bad rows go to ``rejects``."""
        count = len(block)
        sound = np.zeros(count, np.bool_)
        columns = no_columns(self._targets)
        if all(t.column.type.name == "String" for t in self._targets):
            sound, columns = self._texts(block)
        fast = np.flatnonzero(sound)
        rejects.read += count
        odd = np.flatnonzero(~sound).tolist()
        outcomes = ((index, self._one(block.line(index), file, int(block.numbers[index]))) for index in odd)
        exact, values = exact_rows(outcomes, rejects)
        return merge_rows(block.numbers, fast, columns, exact, values, self._targets)

    def _texts(self, block: LineBlock) -> tuple[Mask, list[pa.Array]]:
        utf8 = block.utf8()
        sound = np.ones(len(block), np.bool_) if utf8 is None else utf8
        lines = [block.line(i) for i in np.flatnonzero(sound).tolist()]
        texts = pa.array(lines, pa.binary()).view(pa.string())
        doubt = np.zeros(len(texts), np.bool_)
        for target in self._targets:
            odd = texts_of(texts, target)[1]
            if odd is not None:
                doubt |= odd
        sound[np.flatnonzero(sound)[doubt]] = False
        kept = texts.filter(pa.array(~doubt)) if doubt.any() else texts
        return sound, [kept for _ in self._targets]

    def _one(self, payload: bytes, file: str, number: int) -> list[Value] | BadRow:
        values: list[Value] = []
        for target in self._targets:
            value = attempted(self._value, payload, target)
            if isinstance(value, Refusal):
                shown = payload[:1024].decode("utf-8", "backslashreplace")
                return bad_row(file, number, target.column.name, value, shown, payload)
            values.append(value)
        return values

    def _value(self, payload: bytes, target: Target) -> Value | Refusal:
        name = target.column.type.name
        if (coding := target.column.type.coding) is not None:
            return coded_value(payload, coding, self._alias, declared_value)
        if name == "String":
            try:
                return check_string(payload.decode("utf-8"), target)
            except UnicodeDecodeError as error:
                return not_utf8(error)
        shape = struct.Struct(">" + _NUMBERS[name])
        if len(payload) != shape.size:
            expected = f"a big-endian {name} of {shape.size} bytes"
            return Refusal(Reason.OTHER_LENGTH, expected, f"{len(payload)} bytes")
        (value,) = shape.unpack(payload)
        if name in INTEGER_BITS:
            return check_integer(value, name, self._alias)
        if name == "Instant":
            return check_instant(value * UNIT_NS[target.unit], target, self._alias)
        return check_float(value, target, self._alias)
