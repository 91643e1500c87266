"""Grouping ranges of a column in one location: which rows hold which value.

Each distinct value has one half-open row range; the ranges follow each other and cover exactly the rows. On disk
they are a ``LinkedHashMap`` from key to ``long[2]``, inside the prefix of a ``.dat`` or alone in an ``.ovr``.
Keys in memory: text, ``bool``, ``int`` (a char is its code unit, an Instant its nanoseconds), ``float``, None.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sparkhaven.store.errors import CorruptFileError
from sparkhaven.store.format.java.java_values import JByte, JChar, JDouble, JFloat, JInt, JLong, JMap, JNumbers, JShort
from sparkhaven.store.format.java.object_reader import loads
from sparkhaven.store.format.java.object_writer import BOX_CLASSES, Writer, dumps
from sparkhaven.store.types.datatypes import DataType

Positions = npt.NDArray[np.int64]
_BOXES: dict[str, type] = {
    "String": str,
    "Boolean": bool,
    "byte": JByte,
    "char": JChar,
    "short": JShort,
    "int": JInt,
    "long": JLong,
    "float": JFloat,
    "double": JDouble,
    "Instant": JLong,
}
_PLAIN: dict[type, Callable[[Any], Any]] = {
    str: str,
    bool: bool,
    **dict.fromkeys((JByte, JChar, JShort, JInt, JLong), int),
    **dict.fromkeys((JFloat, JDouble), float),
}


def box_of(data_type: DataType) -> str:
    """The Java class of the keys of a column that is not of texts."""
    return BOX_CLASSES[_BOXES[data_type.name]]


def key_identity(key: Any) -> Hashable:
    """Equality as by Java's ``equals``: one NaN, two zeros."""
    if isinstance(key, float):
        return "NaN" if math.isnan(key) else (key, math.copysign(1.0, key))
    return (key,)


@dataclass(frozen=True, slots=True)
class GroupRanges:
    """Key ``keys[i]`` is in rows ``[starts[i], stops[i])``; ``type`` is the column's type."""

    keys: Sequence[Any]
    starts: Positions
    stops: Positions
    type: DataType

    def __len__(self) -> int:
        return len(self.keys)

    def check(self, rows: int, where: object) -> GroupRanges:
        """Itself, if the ranges cover ``rows`` rows in order, once each; else a CorruptFileError."""
        starts, stops = self.starts, self.stops
        expected = np.concatenate((np.zeros(1, np.int64), stops[:-1])) if len(stops) else starts
        bad = np.flatnonzero((stops <= starts) | (starts != expected))
        if len(bad):
            entry = int(bad[0])
            raise CorruptFileError(
                "grouping range is empty, out of order, overlaps or leaves a gap",
                where=f"{where}, entry {entry}",
                expected=f"start {expected[entry]}, end above it",
                found=f"[{starts[entry]}, {stops[entry]})",
            )
        covered = int(stops[-1]) if len(stops) else 0
        if covered != rows:
            raise CorruptFileError(
                "grouping ranges do not cover the location",
                where=f"{where}, entry {len(stops)}",
                expected=f"{rows} rows",
                found=f"{covered} rows",
            )
        seen: set[Hashable] = set()
        for entry, key in enumerate(self.keys):
            if key_identity(key) in seen:
                raise CorruptFileError(
                    "a grouping key comes twice",
                    where=f"{where}, entry {entry}",
                    expected="each key once",
                    found=repr(key),
                )
            seen.add(key_identity(key))
        return self


def write_map(writer: Writer, ranges: GroupRanges) -> None:
    box = _BOXES[ranges.type.name]
    writer.map_head(len(ranges))
    for key, start, stop in zip(ranges.keys, ranges.starts.tolist(), ranges.stops.tolist(), strict=True):
        writer.value(None if key is None else box(key))
        writer.long_pair(start, stop)
    writer.map_end()


def read_map(java_map: JMap, data_type: DataType, where: object) -> GroupRanges:
    """Ranges from a map of a stream; mixed or wrong key or range types are a CorruptFileError. Check them next."""
    box = _BOXES.get(data_type.name)
    kinds = {type(key) for key, _ in java_map.entries if key is not None}
    shapes = {value.class_name if type(value) is JNumbers else type(value).__name__ for _, value in java_map.entries}
    if box is None or not kinds <= {box} or len(shapes) > 1 or not shapes <= {"[J", "[I"}:
        raise CorruptFileError(
            "grouping map has keys or ranges of mixed or wrong types",
            where=where,
            expected=f"{data_type.name} keys, all ranges long[2] or all int[2]",
            found=f"keys {sorted(k.__name__ for k in kinds)}, ranges {sorted(shapes)}",
        )
    pairs = [value.values for _, value in java_map.entries]
    if any(len(pair) != 2 for pair in pairs):
        entry = next(index for index, pair in enumerate(pairs) if len(pair) != 2)
        raise CorruptFileError(
            "grouping range does not have two ends",
            where=f"{where}, entry {entry}",
            expected="2 numbers",
            found=len(pairs[entry]),
        )
    table = np.array(pairs, np.int64).reshape(-1, 2)
    keys = tuple(None if key is None else _PLAIN[type(key)](key) for key, _ in java_map.entries)
    return GroupRanges(keys, table[:, 0].copy(), table[:, 1].copy(), data_type)


def encode_ovr(ranges: GroupRanges) -> bytes:
    writer = Writer()
    write_map(writer, ranges)
    return bytes(writer.out)


def decode_ovr(data: bytes, data_type: DataType, where: object) -> GroupRanges:
    """Ranges of an ``.ovr`` file; anything else than one map is a CorruptFileError."""
    decoded = loads(data, where)
    if type(decoded) is not JMap:
        raise CorruptFileError(
            "overflow file does not contain a map",
            where=where,
            expected="a LinkedHashMap",
            found=type(decoded).__name__,
        )
    ranges = read_map(decoded, data_type, where)
    if dumps(decoded) != data:
        raise CorruptFileError(
            "overflow file is damaged. Its bytes differ from the canonical encoding of its content",
            where=where,
            expected=f"{len(dumps(decoded))} bytes of this map",
            found=f"{len(data)} other bytes",
        )
    return ranges
