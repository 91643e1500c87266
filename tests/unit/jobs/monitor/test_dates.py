"""What is reported of a merge: the status of dates, a dry run, progress, what failed a validation."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest

from sparkhaven.jobs.monitor.dates import table_status
from sparkhaven.store.layout import LocationKey
from sparkhaven.store.merges.validations import validation_path
from sparkhaven.store.places import TablePlace
from sparkhaven.writers.merge import date_merges
from sparkhaven.writers.merge.executor import LocalExecutor
from sparkhaven.writers.merge.plan.merge_plan import MergeOptions
from sparkhaven.writers.merge.publish.publish_phase import clean
from sparkhaven.writers.removal.removal_proof import prove
from tests.support.commands import run, run_json
from tests.support.disks.contents import flip
from tests.support.disks.model_fs import Crash, KillingFs, QuickFs
from tests.support.writers.merge_cases import DAY, TABLE, as_table, random_row
from tests.support.writers.merge_runs import make, merge
from tests.support.writers.removals import empty

NOW = 1_700_000_000.0
LATER = NOW + 3601
NAME = str(TABLE)


# --- status of dates -------------------------------------------------------------------------------------------------


def test_the_status_of_a_date_through_its_life(tmp_path: Path) -> None:
    db, _ = make(tmp_path, 60)

    def now() -> tuple[object, ...]:
        (found,) = table_status(db.place, NOW)
        facts = found.unmerged, found.merged, found.validation, found.untruncated, found.unfinished
        return (*facts, len(found.replaced), found.done)

    assert now() == (60, 0, None, 0, None, 0, False)
    with pytest.raises(Crash):
        merge(db.layout, fs=KillingFs(crash_at="merge-publish:before"))
    assert now() == (60, 0, None, 0, "check", 0, False)
    merge(db.layout)
    assert now() == (0, 60, "missing", 60, None, 0, False)
    prove(db.place, DAY)
    assert now() == (0, 60, "passed", 60, None, 0, False)
    db.commit({("b", DAY): as_table([random_row(random.Random(5))])})
    assert now() == (1, 60, "passed", 60, None, 0, False)
    merge(db.layout, rewrite=True)
    assert now() == (0, 61, "missing", 61, None, 2, False)
    empty(db)
    assert now() == (0, 61, "passed", 0, None, 2, False)
    clean(db.place, lambda: LATER)
    assert now() == (0, 61, "passed", 0, None, 0, True)
    path = validation_path(db.place, DAY, 2)
    path.write_bytes(path.read_bytes()[:-1])
    assert now()[2] == "damaged"


class CountingFs(QuickFs):
    """Counts what is read and listed below the merge records."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()

    def read(self, path: Path) -> bytes:
        self.asked[path.name] += 1
        return super().read(path)

    def names(self, path: Path) -> list[str]:
        self.asked[f"{path.parent.name}/{path.name}"] += 1
        return super().names(path)


def test_status_reads_a_merge_record_and_lists_generations_once(tmp_path: Path) -> None:
    db, _ = make(tmp_path, 30)
    merge(db.layout)
    merge(db.layout, rewrite=True)
    fs = CountingFs()
    (found,) = table_status(TablePlace(fs, db.layout, TABLE), NOW)
    assert (found.generation, len(found.replaced)) == (2, 2)
    assert [fs.asked[name] for name in ("1.json", "2.json", f".Every.merges/{DAY}")] == [1, 1, 1]


def test_the_command_merge_status(tmp_path: Path) -> None:
    db, _ = make(tmp_path, 60)
    db.log.close()
    code, value = run_json(tmp_path, "merge", "--status")
    assert (code, value["table"], value["dates"], value["unmerged"], value["untruncated"]) == (0, NAME, 1, 1, 0)
    assert value["unfinished_dates"][0] == {
        "date": DAY,
        "unmerged_rows": 60,
        "merged_rows": 0,
        "generation": 0,
        "validation": None,
        "untruncated_rows": 0,
        "unfinished_after": None,
        "replaced": [],
    }
    assert run_json(tmp_path, "merge", NAME, "--date", DAY, "--local")[0] == 0
    assert run_json(tmp_path, "validate", NAME, "--date", DAY)[0] == 0
    assert run_json(tmp_path, "truncate", NAME, "--date", DAY)[0] == 0
    text = run(tmp_path, "merge", NAME, "--status").stdout
    assert "0 unmerged, 0 unvalidated, 0 untruncated, 0 unfinished, 0 replaced" in text
    assert DAY not in text
    assert DAY in run(tmp_path, "merge", NAME, "--status", "-v").stdout
    assert run_json(tmp_path, "merge")[1]["error"]["what"] == "no table is named"


# --- what commands report --------------------------------------------------------------------------------------------


def test_a_dry_run_names_rows_and_destination(tmp_path: Path) -> None:
    db, _ = make(tmp_path, 30, partitions=0)
    db.log.close()
    found = run(tmp_path, "merge", NAME, "--date", DAY, "--dry-run")
    assert f"{DAY}: would merge 30 rows into partition 0" in found.stdout
    assert "1 date, 30 rows to merge (dry run)" in found.stderr
    assert run_json(tmp_path, "merge", NAME, "--date", DAY, "--dry-run")[1]["destinations"] == {"0": None}
    assert not db.layout.partitions("Test").exists()


def test_a_large_date_tells_how_far_it_is(tmp_path: Path) -> None:
    db, _ = make(tmp_path, 400)
    said: list[str] = []
    options, executor = MergeOptions(memory=1, workers=2, parallel_rows=10), LocalExecutor()
    where = db.place, [DAY], options
    (done,) = date_merges.merge_dates(*where, executor=executor, clock=lambda: NOW, on_progress=said.append)
    assert done.outcome == "merged"
    assert said[0].startswith((f"{DAY}: ordering rows", f"{DAY}: counting rows, "))
    assert any("reading back columns and rows, 28 of 28 tasks" in line for line in said)


def test_validate_names_what_failed_first_and_hides_digests(tmp_path: Path) -> None:
    db, _ = make(tmp_path, 30)
    merge(db.layout)
    path = db.layout.history_location(TABLE, LocationKey("0", DAY)) / "L.dat"
    flip(path, 4096)
    db.log.close()
    code, value = run_json(tmp_path, "validate", NAME, "--date", DAY)
    assert code == 1
    assert [(rule["rule"], rule["column"]) for rule in value["rules"] if not rule["passed"]] == [("DigestEqual", "L")]
    assert value["rules"][0]["column"] == "L"
    text = run(tmp_path, "validate", NAME, "--date", DAY).stdout
    assert "FAILED (1 failed)" in text
    assert value["rules"][0]["measured"] not in text
    assert value["rules"][0]["measured"] in run(tmp_path, "validate", NAME, "--date", DAY, "-v").stdout
    code, value = run_json(tmp_path, "truncate", NAME, "--date", DAY)
    assert code == 1
