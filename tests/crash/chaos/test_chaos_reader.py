"""The reader of the chaos campaign sees what it is there to see."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

from sparkhaven.store.epochs.state.log_values import OffsetRange
from tests.crash.chaos.reader import Ledger, column_findings, location_findings
from tests.crash.chaos.topic import BLOCK, DAYS, PARTITIONS, offsets_of

WANTED = np.array([0, 4, 8, 12, 16], np.int64)
BEFORE = WANTED[:3]


@pytest.mark.parametrize(
    ("ids", "kinds"),
    [
        ([0, 4, 8, 12, 16], []),
        ([0, 4, 8, 12], ["torn"]),  # a part of the last epoch
        ([0, 4, 8], ["torn"]),  # of the last epoch nothing, although other locations may have it
        ([0, 4, 8, 12, 16, 20], ["torn"]),  # a row of the next one
        ([0, 4, 8, 16, 12], ["torn"]),
        ([0, 8, 12, 16], ["lost"]),
        ([], ["lost"]),
        ([0, 4, 8, 8, 12, 16], ["doubled"]),
        ([0, 4, 4, 12, 16], ["doubled"]),
    ],
)
def test_a_location_is_whole_epochs(ids: list[int], kinds: list[str]) -> None:
    found = location_findings("here", np.array(ids, np.int64), WANTED, BEFORE)
    assert [kind for kind, _ in found] == kinds


def _rows(ids: list[int], **other: object) -> pa.Table:
    columns = {
        "Id": ids,
        "At": [n // PARTITIONS for n in ids],
        "Sym": [f"s{n % 97}" for n in ids],
        "Text": [f"text {n}" if n % 11 else None for n in ids],
    }
    return pa.table(columns | other)


def test_columns_of_a_row_belong_together() -> None:
    assert column_findings("here", _rows([0, 4, 8])) == []
    assert column_findings("here", _rows([])) == []
    for name, values in {"At": [0, 2, 1], "Sym": ["s0", "s8", "s4"], "Text": [None, None, "text 8"]}.items():
        ((kind, text),) = column_findings("here", _rows([0, 4, 8], **{name: values}))
        assert kind == "torn" and text.endswith(f"in {name}")


def test_epochs_follow_each_other_in_offsets() -> None:
    ledger = Ledger()
    assert ledger.add(1, [OffsetRange("t", 0, 0, 5), OffsetRange("t", 1, 0, 3)]) == []
    assert ledger.add(2, [OffsetRange("t", 1, 3, 3), OffsetRange("t", 0, 5, 9)]) == []
    assert ledger.ends[2] == {0: 9, 1: 3, 2: 0, 3: 0}
    assert [kind for kind, _ in ledger.add(3, [OffsetRange("t", 0, 8, 10)])] == ["doubled"]
    assert [kind for kind, _ in ledger.add(4, [OffsetRange("t", 0, 11, 12)])] == ["lost"]
    assert [kind for kind, _ in ledger.add(6, [])] == ["lost"]
    assert ledger.add(9, [OffsetRange("t", 2, 7, 8)], {0: 0, 1: 0, 2: 7, 3: 0}) == []


def test_every_offset_is_of_one_date() -> None:
    stop = 7 * BLOCK + 3
    parts = [offsets_of(day, stop) for day in DAYS]
    assert sorted(np.concatenate(parts).tolist()) == [*range(stop)]
    assert all((a < b) for part in parts for a, b in pairwise(part.tolist()))
