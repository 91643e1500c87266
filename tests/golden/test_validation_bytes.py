"""Bytes of version 1 of a validation result; files written by it open for ever."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from sparkhaven.store.errors import CorruptFileError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, TableName
from sparkhaven.store.merges.merge_records import MergeRecord
from sparkhaven.store.merges.merge_run import MergePhase
from sparkhaven.store.merges.validations import (
    RuleResult,
    Validation,
    decode_validation,
    encode_validation,
    load_validation,
    store_validation,
)
from sparkhaven.store.places import TablePlace

GOLDEN = Path(__file__).with_name("validation-v1.validation")
RESULTS = (
    RuleResult("RowCount", None, 7, 7, 7, True, "rows of history and of intraday are equal"),
    RuleResult("assertAvg", "Px", 1.25, 0, 2.5, True, "mean of 7 values", "SIMPLE_TABLE"),
    RuleResult("assertFracNull", "Sÿm", 0.5, 0, 0.25, False, "3 of 6 rows are null", "FULL_INTRADAY"),
    RuleResult("assertPercentile", "Px", None, None, None, None, "not evaluated: percentile 95 is not from 0 to 1"),
)
FOUND = Validation("NS.T", "2026-11-20", 3, 7, RESULTS, {"s": 9, "t": 4}, "ab" * 32, True, 1_357_000_000_000)


def test_a_file_of_version_1_opens_and_is_written_the_same() -> None:
    data = GOLDEN.read_bytes()
    assert decode_validation(data, "x") == FOUND
    assert encode_validation(FOUND) == data


def test_modes_stand_in_the_file_only_where_rules_of_others_are_missing() -> None:
    limited = replace(FOUND, modes=("FULL_DATABASE", "SIMPLE_TABLE"))
    assert decode_validation(encode_validation(limited), "x") == limited
    assert b'"modes"' in encode_validation(limited) and b'"modes"' not in encode_validation(FOUND)


def test_numbers_that_json_has_no_form_for_are_texts() -> None:
    odd = replace(FOUND, results=(replace(RESULTS[1], measured=math.nan), replace(RESULTS[1], measured=-math.inf)))
    found = decode_validation(encode_validation(odd), "x")
    assert [r.measured for r in found.results] == ["nan", "-inf"]


def test_every_flipped_bit_and_every_cut_is_noticed() -> None:
    data = GOLDEN.read_bytes()
    for place in range(len(data)):
        other = bytearray(data)
        other[place] ^= 1 << place % 8
        with pytest.raises(Exception, match=r"validation result|other bytes|header") as caught:
            decode_validation(bytes(other), "x")
        assert type(caught.value).__name__ in ("CorruptFileError", "UnsupportedVersionError")
        with pytest.raises(CorruptFileError):
            decode_validation(data[:place], "x")


def test_a_file_in_a_foreign_place_is_refused(tmp_path: Path) -> None:
    place = TablePlace(Fs(), Layout(tmp_path), TableName("NS", "T"))
    record = MergeRecord("NS.T", "2026-11-20", 3, MergePhase.CLEAN, (), ())
    assert load_validation(place, record) is None
    (place.merges / "2026-11-20").mkdir(parents=True)
    store_validation(place, FOUND)
    assert load_validation(place, record) == FOUND
    path = place.merges / "2026-11-20" / "3.validation"
    path.rename(path.with_name("4.validation"))
    with pytest.raises(CorruptFileError, match="in a wrong directory"):
        load_validation(place, replace(record, generation=4))
