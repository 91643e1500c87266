"""Merge records: the bytes of each form, written before and read for ever."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sparkhaven.store.merges.merge_records import MergeInput, MergeOutput, MergeRecord, decode_record, encode_record
from sparkhaven.store.merges.merge_run import ColumnDrop, MergePhase, MergeRun, Proof
from sparkhaven.store.types.committed_columns import FileState, RangeStats
from tests.support.places import GOLDEN

DIGEST = "0123456789abcdef0123456789abcdef"
PLAIN = MergeRecord(
    table="Ns.Tab",
    value="2026-11-20",
    generation=2,
    phase=MergePhase.RECORD,
    inputs=(MergeInput("s", "EWR", 1, 7, 3),),
    outputs=(
        MergeOutput(
            "0.g2",
            3,
            {"A": DIGEST},
            {"A.dat": FileState(24, 99)},
            {"A": (RangeStats(0, 3, nulls=1, low=5, high=9),)},
            row_digest=DIGEST,
            named_by=4,  # that of the record, which is not written
        ),
    ),
    proof=Proof(3, 3, {"A": DIGEST}, {"A": DIGEST}),
    schema_version=4,
    time_ms=1_700_000_000_000,
    replaces=("0",),
    run=MergeRun(sort=("A",), format="deephaven"),
)
FORMS = {
    "merge-v3.json": PLAIN,
    "merge-v3-drops.json": replace(PLAIN, column_drops=(ColumnDrop(3, "B", 2, DIGEST[::-1]),)),
}


@pytest.mark.parametrize("name", FORMS)
def test_a_record_is_read_and_written_as_it_was(name: str) -> None:
    data = (GOLDEN / name).read_bytes()
    assert decode_record(data, name) == FORMS[name]
    assert encode_record(FORMS[name]) == data
