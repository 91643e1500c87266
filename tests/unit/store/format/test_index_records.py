"""Groupings in ``.ovr`` files and location indexes (``.tlmi``): round trips, and what decoding them refuses."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from sparkhaven.store.errors import CorruptFileError
from sparkhaven.store.format.index.grouping import decode_ovr, encode_ovr, read_map
from sparkhaven.store.format.index.tlmi import PARQUET, UNKNOWN_ROWS, IndexEntry, decode_tlmi, encode_tlmi
from sparkhaven.store.format.java.java_values import JMap, JNumbers
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


def test_grouping_of_no_rows() -> None:
    assert len(group_ranges([], [], BY_NAME["int"]).check(0, "x")) == 0


def test_grouping_keys_are_equal_as_in_java() -> None:
    double = BY_NAME["double"]
    for keys in ([math.nan, -math.nan], [1.0, 1.0]):
        with pytest.raises(CorruptFileError, match="comes twice"):
            group_ranges(keys, [1, 1], double).check(2, "x")


def test_grouping_with_int_ranges_is_read() -> None:
    found = read_map(JMap([("a", JNumbers("[I", np.array([0, 1], np.int32)))]), BY_NAME["String"], "x")
    assert found.check(1, "x").stops.tolist() == [1]


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
