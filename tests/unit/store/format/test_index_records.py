"""Groupings in ``.ovr`` files and location indexes (``.tlmi``): round trips, and what decoding them refuses."""

from __future__ import annotations

import math
import struct
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from sparkhaven.store.errors import CorruptFileError, SparkhavenError, UnsupportedVersionError
from sparkhaven.store.format.index.grouping import GroupRanges, decode_ovr, encode_ovr, read_map
from sparkhaven.store.format.index.tlmi import MAGIC, PARQUET, UNKNOWN_ROWS, IndexEntry, decode_tlmi, encode_tlmi
from sparkhaven.store.format.java.java_values import JInt, JMap, JNumbers
from sparkhaven.store.layout import LocationKey
from sparkhaven.store.types.datatypes import BY_NAME
from tests.support.tables.column_files import group_ranges

KEYS: dict[str, list[Any]] = {
    "String": [None, "", "AAPL", "\U0001f600"],
    "Boolean": [None, False, True],
    "byte": [None, -127, 5],
    "char": [None, 0, 0xFFFE],
    "short": [-5, 5],
    "int": [None, 1, 2**31 - 1],
    "long": [None, 1, 2**63 - 1],
    "float": [None, -math.inf, -0.0, 0.0, math.nan],
    "double": [-0.0, 0.0, 1e300, math.nan],
    "Instant": [None, 1_501_853_400_000_000_001],
}


# --- grouping ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", list(KEYS))
def test_grouping_of_each_type(name: str) -> None:
    keys = KEYS[name]
    ranges = group_ranges(keys, range(1, len(keys) + 1), BY_NAME[name])
    rows = len(keys) * (len(keys) + 1) // 2
    found = decode_ovr(encode_ovr(ranges), BY_NAME[name], "C.ovr").check(rows, "C.ovr")
    assert repr(found.keys) == repr(tuple(keys))
    assert found.starts.tolist() == ranges.starts.tolist()
    assert found.stops.tolist() == ranges.stops.tolist()


@pytest.mark.parametrize(
    ("starts", "stops", "words"),
    [
        ([0, 2], [2, 2], "empty, out of order, overlaps or leaves a gap"),
        ([0, 3], [2, 6], "empty, out of order, overlaps or leaves a gap"),
        ([0, 1], [2, 6], "empty, out of order, overlaps or leaves a gap"),
        ([2, 0], [6, 2], "empty, out of order, overlaps or leaves a gap"),
        ([-1, 2], [2, 6], "empty, out of order, overlaps or leaves a gap"),
        ([0, 2], [2, 5], "do not cover the location"),
        ([0, 2], [2, 7], "do not cover the location"),
        ([], [], "do not cover the location"),
    ],
)
def test_grouping_that_does_not_fit(starts: list[int], stops: list[int], words: str) -> None:
    keys = ["a", "b"][: len(starts)]
    ranges = GroupRanges(keys, np.array(starts, np.int64), np.array(stops, np.int64), BY_NAME["String"])
    with pytest.raises(CorruptFileError, match=words):
        ranges.check(6, "x")
    assert group_ranges(["a", "b"], [2, 4], BY_NAME["String"]).check(6, "x").keys == ("a", "b")


def test_grouping_of_no_rows() -> None:
    assert len(group_ranges([], [], BY_NAME["int"]).check(0, "x")) == 0


def test_grouping_keys_are_equal_as_in_java() -> None:
    double = BY_NAME["double"]
    for keys in ([math.nan, -math.nan], [1.0, 1.0]):
        with pytest.raises(CorruptFileError, match="comes twice"):
            group_ranges(keys, [1, 1], double).check(2, "x")


@pytest.mark.parametrize(
    "entries",
    [
        [("a", JNumbers("[J", np.array([0, 1]))), (JInt(1), JNumbers("[J", np.array([1, 2])))],
        [("a", JNumbers("[J", np.array([0, 1]))), ("b", JNumbers("[I", np.array([1, 2])))],
        [(JInt(1), JNumbers("[J", np.array([0, 1])))],
        [("a", "b")],
        [("a", None)],
        [("a", JNumbers("[D", np.array([0.0, 1.0])))],
        [("a", JNumbers("[J", np.array([0, 1, 2])))],
    ],
)
def test_grouping_of_wrong_types(entries: list[tuple[Any, Any]]) -> None:
    with pytest.raises(CorruptFileError, match="grouping"):
        read_map(JMap(entries), BY_NAME["String"], "x")


def test_grouping_with_int_ranges_is_read() -> None:
    found = read_map(JMap([("a", JNumbers("[I", np.array([0, 1], np.int32)))]), BY_NAME["String"], "x")
    assert found.check(1, "x").stops.tolist() == [1]


def test_overflow_file_without_a_map() -> None:
    with pytest.raises(CorruptFileError, match="overflow file does not contain a map"):
        decode_ovr(b"\xac\xed\x00\x05\x70", BY_NAME["int"], "C.ovr")


# --- .tlmi -------------------------------------------------------------------------------------------------

ENTRY = IndexEntry(LocationKey("0", "2017-08-04"), 11132, 5)


def test_tlmi_is_sorted_and_drops_empty_locations() -> None:
    entries = [
        IndexEntry(LocationKey("1", "2017-08-05"), 3, 5, PARQUET),
        IndexEntry(LocationKey("0", "2017-08-05"), 0, 5),
        IndexEntry(LocationKey("9", "2017-08-04"), UNKNOWN_ROWS, 5),
        ENTRY,
    ]
    data = encode_tlmi(entries)
    assert data == encode_tlmi(reversed(entries))
    assert decode_tlmi(data, "x") == [ENTRY, entries[0]]
    assert decode_tlmi(data, "x", keep_empty=True) == [ENTRY, entries[2], entries[1], entries[0]]
    assert decode_tlmi(encode_tlmi([]), "x") == []


GOOD = encode_tlmi([ENTRY])


@pytest.mark.parametrize(
    ("data", "error", "words"),
    [
        (b"", CorruptFileError, "location index is cut short"),
        (GOOD[:-1], CorruptFileError, "location index is cut short"),
        (GOOD + b"\0", CorruptFileError, "bytes after the last entry"),
        (b"\0" + GOOD[1:], CorruptFileError, "file is not a location index"),
        (struct.pack(">Iii", MAGIC, 3, 0), UnsupportedVersionError, "location index has an unknown version"),
        (struct.pack(">Iii", MAGIC, 0, 0), UnsupportedVersionError, "location index has an unknown version"),
        (struct.pack(">Iii", MAGIC, 2, -1), CorruptFileError, "invalid entry count"),
        (struct.pack(">Iii", MAGIC, 2, 2) + GOOD[12:], CorruptFileError, "invalid entry count"),
        (
            struct.pack(">Iii", MAGIC, 2, 2) + GOOD[12:] * 2,
            CorruptFileError,
            "duplicate location in the location index",
        ),
        (struct.pack(">Iii", MAGIC, 1, 1) + GOOD[12:-1], CorruptFileError, "bytes after the last entry"),
        (encode_tlmi([replace(ENTRY, rows=-1)]), CorruptFileError, "negative row count"),
        (encode_tlmi([replace(ENTRY, format="ORC")]), UnsupportedVersionError, "unknown format in the location index"),
        (
            encode_tlmi([replace(ENTRY, key=LocationKey("..", "x"))]),
            CorruptFileError,
            "name in the location index is not a valid directory name",
        ),
    ],
)
def test_tlmi_that_is_wrong(data: bytes, error: type[SparkhavenError], words: str) -> None:
    with pytest.raises(error) as caught:
        decode_tlmi(data, "T.tlmi")
    assert caught.value.what == words
    assert str(caught.value.where).startswith("T.tlmi")
