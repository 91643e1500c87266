"""Merges of given rows killed at every phase and change of the disk: old or new, run again, and nothing is left."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sparkhaven.readers import open_table
from sparkhaven.readers.checks.verify import verify
from sparkhaven.store.layout import Layout
from sparkhaven.store.places import TablePlace
from sparkhaven.writers.merge.publish.publish_phase import clean
from sparkhaven.writers.merge.publish.staged_locations import taken_rows
from tests.support.disks.contents import hidden
from tests.support.disks.model_fs import Crash, KillingFs
from tests.support.examples import some_of
from tests.support.writers.frame_cases import NOW_S, take
from tests.support.writers.import_cases import empty
from tests.support.writers.merge_cases import DAY, SCHEMA, TABLE, as_table, random_row
from tests.support.writers.merge_runs import FS, PHASE_STEPS, merge

pytestmark = pytest.mark.slow
STEPS = ["frame-stage:before", "frame-stage:after", "import-convert:after", *PHASE_STEPS]
ROWS = [random_row(random.Random(seed)) | {"L": seed} for seed in range(90)]
NEW = [row | {"I": 7} for row in ROWS[:20]]
NEXT = "2024-03-06"


def frame(rows: list[dict[str, Any]]) -> pa.Table:
    dates = [DAY if index % 3 else NEXT for index in range(len(rows))]
    return as_table(rows).append_column("Date", pa.array(dates))


def keys(layout: Layout) -> list[tuple[int, int | None]]:
    table = open_table(layout.root, str(TABLE)).to_arrow(["L", "I"])
    return sorted(zip(table["L"].to_pylist(), table["I"].to_pylist(), strict=True), key=lambda pair: pair[0])


def killed_and_run_again(root: Path, fs: KillingFs, old: bool, **options: Any) -> bool:
    """Whether it was killed. ``old``: history has the dates."""
    layout = empty(root, SCHEMA)
    place = TablePlace(FS, layout, TABLE)
    before: list[tuple[int, int | None]] = []
    if old:
        take(layout, frame(ROWS))
        before = keys(layout)
    given = frame(NEW if old else ROWS)
    killed = False
    try:
        take(layout, given, fs=fs, task_memory=1 << 14, **options)
    except Crash:
        killed = True
    seen = keys(layout)
    done = take(layout, given, **options)
    after = keys(layout)
    by_date = {True: [index for index in range(90) if index % 3], False: [*range(0, 90, 3)]}
    for own in by_date.values():  # each date is old or new, never between
        part = [pair for pair in seen if pair[0] in own]
        assert part in ([p for p in before if p[0] in own], [p for p in after if p[0] in own])
    assert {each.outcome for each in done} <= {"upserted" if options else "imported", "unchanged"}
    assert [f for f in verify(FS, layout, TABLE, deep=True).findings if f.severity == "error"] == []
    assert FS.stat(taken_rows(place)) is None
    assert hidden(layout.system("Test")) == []
    return killed


@pytest.mark.campaign
@pytest.mark.parametrize("step", STEPS)
def test_killed_at_a_phase(tmp_path: Path, step: str) -> None:
    assert killed_and_run_again(tmp_path / "new", KillingFs(crash_at=step), old=False)
    assert killed_and_run_again(tmp_path / "joined", KillingFs(crash_at=step), old=True, upsert="L")


def test_killed_at_any_change_of_the_disk(tmp_path: Path) -> None:
    counting = KillingFs()
    killed_and_run_again(tmp_path / "count", counting, old=True, upsert="L")
    assert set(STEPS) <= set(counting.steps)
    for call in some_of(sorted(random.Random(5).sample(range(1, counting.changes + 1), 12))):
        assert killed_and_run_again(tmp_path / str(call), KillingFs(crash_after=call - 1), old=True, upsert="L"), call


@pytest.mark.parametrize("end", ["clean", "merge"])
def test_what_a_killed_one_left_goes_with_other_commands(tmp_path: Path, end: str) -> None:
    layout = empty(tmp_path / "db", SCHEMA)
    place = TablePlace(FS, layout, TABLE)
    with pytest.raises(Crash):
        take(layout, frame(ROWS), fs=KillingFs(crash_at="merge-stage:after"))
    assert FS.stat(taken_rows(place)) is not None
    if end == "clean":
        clean(place, lambda: NOW_S)
    else:
        merge(layout, "2024-03-01", allow_empty=True)
    assert FS.stat(taken_rows(place)) is None
    assert keys(layout) == []
