"""A staged grouping that is not that of the rows is not published."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sparkhaven.store.errors import ValidationFailedError
from sparkhaven.store.format.index.grouping import GroupRanges
from sparkhaven.store.merges.merge_records import newest
from sparkhaven.writers.merge.write import finish
from tests.support.writers.merge_cases import DAY
from tests.support.writers.merge_runs import make, merge


def _other_key(ranges: GroupRanges) -> GroupRanges:
    return replace(ranges, keys=(*ranges.keys[:-1], "not in the data"))


def _other_start(ranges: GroupRanges) -> GroupRanges:
    moved = ranges.starts + np.eye(1, len(ranges), 1, dtype=np.int64)[0]
    return replace(ranges, starts=moved, stops=np.append(moved[1:], ranges.stops[-1]))


@pytest.mark.parametrize(
    ("change", "says"), [(_other_key, "other keys"), (_other_start, "not the runs of the data"), (lambda _: None, None)]
)
def test_another_grouping_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[GroupRanges], Any], says: str | None
) -> None:
    real = finish.group_ranges_of
    monkeypatch.setattr(finish, "group_ranges_of", lambda *given: change(real(*given)))  # type: ignore[arg-type]
    db, _ = make(tmp_path, 60, partitions=1)
    if says is None:
        assert merge(db.layout)[0].outcome == "merged"  # a column that is not grouped has none to check
        return
    with pytest.raises(ValidationFailedError, match=says):
        merge(db.layout)
    assert newest(db.place, DAY) is None
