"""Maps of texts to numbers, Booleans or texts, by ``StringDoubleMapCodec`` and its like.

A value is the number of entries in four bytes, then of each the length of its key in four bytes, the key in UTF-8, and
the value: a number or Boolean in its own width, null as the null value of its type; a text as a key is written.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from sparkhaven.store.types.codings.coding import (
    BlobCoding,
    Mask,
    Unfit,
    UnfitError,
    list_elements,
    of_values,
    plain_numbers,
)

_VALUES: dict[str, tuple[pa.DataType, str, Any]] = {
    "Boolean": (pa.bool_(), ">b", -1),
    "Double": (pa.float64(), ">d", -1.7976931348623157e308),
    "Float": (pa.float32(), ">f", -3.4028234663852886e38),
    "Int": (pa.int32(), ">i", -(2**31)),
    "Long": (pa.int64(), ">q", -(2**63)),
    "String": (pa.string(), "", None),
}
CODECS = tuple(f"String{kind}MapCodec" for kind in _VALUES)


def coding(codec: str, arguments: str, width: int | None) -> StringMaps:
    """By the codec's simple name and arguments; ValueError says what is expected instead."""
    if codec not in CODECS or arguments:
        raise ValueError(f"{', '.join(CODECS[:-1])} or {CODECS[-1]}, without arguments")
    return StringMaps(codec.removeprefix("String").removesuffix("MapCodec"))


@dataclass(frozen=True, slots=True)
class StringMaps(BlobCoding):
    """Maps of texts to one kind of values."""

    kind: str

    sources = {"nested": "checked"}
    json = "object"

    @property
    def arrow(self) -> pa.DataType:
        """A map."""
        return pa.map_(pa.string(), _VALUES[self.kind][0])

    @property
    def domain(self) -> str:
        """What a value is."""
        values = "texts, none of them null" if self.kind == "String" else self.kind
        return f"a map of different texts to {values}"

    @property
    def null(self) -> Any:
        """What a null value is stored as; None of texts, which have none."""
        return _VALUES[self.kind][2]

    def parse(self, text: str) -> Any:
        """No text writes a map."""
        raise UnfitError(Unfit.NO_VALUE, self.domain)

    @property
    def elements(self) -> str | None:
        """The type of the values; texts have no null, and any character."""
        return {"Boolean": "Boolean", "String": None}.get(self.kind, self.kind.lower())

    def from_json(self, value: Any) -> Any:
        """Of texts to texts; other values follow the rules of their own type."""
        if self.kind != "String" or not isinstance(value, dict):
            raise UnfitError(Unfit.NO_VALUE, self.domain)
        if not all(isinstance(entry, str) for entry in value.values()):
            raise UnfitError(Unfit.NO_VALUE, self.domain)
        return [*value.items()]

    def unstorable(self, array: pa.Array) -> Mask | None:
        """Maps with a key that comes twice, or a value equal to the null value of its kind; of texts, with null."""
        starts, entries = list_elements(array)
        keys, values = entries.flatten()
        bad = np.zeros(len(array), np.bool_)
        rows = np.repeat(np.arange(len(array)), np.diff(starts))
        coded = keys.dictionary_encode(null_encoding="encode")
        kinds = max(len(coded.dictionary), 1)
        pairs = np.sort(rows * kinds + coded.indices.to_numpy())
        bad[pairs[1:][pairs[1:] == pairs[:-1]] // kinds] = True
        bad[rows[self._aliases(values)]] = True
        return of_values(bad, array)

    def _aliases(self, values: pa.Array) -> Mask:
        """Which values are as null is stored; of texts, null."""
        if self.kind == "String":
            return np.asarray(values.is_null())
        if self.null == -1:
            return np.zeros(len(values), np.bool_)
        plain = plain_numbers(values, values.type.to_pandas_dtype())
        alias: Mask = plain == plain.dtype.type(self.null)
        return alias & ~np.asarray(values.is_null()) if values.null_count else alias

    def encode_one(self, value: list[tuple[str, Any]]) -> bytes:
        """Of keys with their values."""
        _, form, null = _VALUES[self.kind]
        out = bytearray(struct.pack(">i", len(value)))
        for key, item in value:
            out += _sized(key)
            out += struct.pack(form, null if item is None else item) if form else _sized(item or "")
        return bytes(out)

    def decode_one(self, data: bytes) -> list[tuple[str, Any]]:
        """Keys with their values; bytes that end early, or go on behind the last entry, are bad."""
        _, form, null = _VALUES[self.kind]
        (count,), position = struct.unpack_from(">i", data), 4
        if not 0 <= count <= len(data):
            raise ValueError("more entries than bytes")
        entries = []
        for _ in range(count):
            key, position = _text_at(data, position)
            if form:
                (value,), position = struct.unpack_from(form, data, position), position + struct.calcsize(form)
                value = None if value == null else bool(value) if self.kind == "Boolean" else value
            else:
                value, position = _text_at(data, position)
            entries.append((key, value))
        if position != len(data):
            raise ValueError("bytes after the last entry")
        return entries


def _sized(text: str) -> bytes:
    data = text.encode()
    return struct.pack(">i", len(data)) + data


def _text_at(data: bytes, position: int) -> tuple[str, int]:
    (length,), start = struct.unpack_from(">i", data, position), position + 4
    if not 0 <= length <= len(data) - start:
        raise ValueError("text beyond the value")
    return data[start : start + length].decode(), start + length
