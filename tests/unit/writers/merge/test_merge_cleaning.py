"""Replaced generations and what else a merge leaves behind: when it is removed, and when it cannot be."""

from __future__ import annotations

import errno
import json
from pathlib import Path

import pytest

from sparkhaven.jobs.monitor.dates import table_status
from sparkhaven.store.errors import LockLostError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout
from sparkhaven.store.merges.merge_records import lock_table, newest
from sparkhaven.store.places import TablePlace
from sparkhaven.writers.merge import date_merges
from sparkhaven.writers.merge.executor import LocalExecutor
from sparkhaven.writers.merge.plan.merge_plan import MergeOptions
from sparkhaven.writers.merge.publish.publish_phase import clean, waiting
from tests.support.commands import run, run_json
from tests.support.disks.contents import hidden
from tests.support.disks.model_fs import Crash, KillingFs, QuickFs
from tests.support.writers.merge_cases import DAY, TABLE, as_table
from tests.support.writers.merge_runs import FS, history_bytes, make, merge

NOW = 1_700_000_000.0
LATER = NOW + 3601
NAME = str(TABLE)


# --- replaced generations ------------------------------------------------------------------------------------------


def test_replaced_locations_wait_for_their_grace_and_then_go(tmp_path: Path) -> None:
    db, _ = make(tmp_path, 60)
    merge(db.layout)
    (db.layout.partitions("Test") / "0" / DAY / "Foreign").mkdir()
    merge(db.layout, rewrite=True)
    now = history_bytes(db.layout)
    found = waiting(db.place, NOW)
    assert [(old.internal, old.due_s) for old in found] == [("0", 3600.0), ("1", 3600.0)]
    assert all(old.size == sum(p.stat().st_size for p in old.path.rglob("*") if p.is_file()) for old in found)
    assert clean(db.place, lambda: NOW + 3599) == ([], waiting(db.place, NOW + 3599))
    assert history_bytes(db.layout) == now
    due, later = clean(db.place, lambda: LATER, dry_run=True)
    assert ([old.internal for old in due], later) == (["0", "1"], [])
    assert history_bytes(db.layout) == now
    assert clean(db.place, lambda: LATER) == (due, [])
    assert not any(old.path.exists() for old in due)
    assert (db.layout.partitions("Test") / "0" / DAY / "Foreign").exists()  # no record of ours names it
    assert history_bytes(db.layout) == {k: v for k, v in now.items() if k.split("/")[0] in ("0.g2", "1.g2")}
    assert clean(db.place, lambda: LATER) == ([], [])


def test_a_merge_of_another_date_cleans_up(tmp_path: Path) -> None:
    db, rows = make(tmp_path, 30)
    merge(db.layout)
    merge(db.layout, rewrite=True)
    db.commit({("a", "2024-03-06"): as_table(rows)})
    options, executor = MergeOptions(), LocalExecutor()
    for clock, left in ((NOW, 2), (LATER, 0)):
        done = list(
            date_merges.merge_dates(
                db.place, ["2024-03-06"], options, executor=executor, clock=lambda clock=clock: clock
            )
        )
        assert done[0].error is None
        assert len(waiting(db.place, NOW)) == left


def test_cleaning_leaves_what_an_unfinished_merge_needs(tmp_path: Path) -> None:
    db, _ = make(tmp_path, 30)
    merge(db.layout)
    for step in ("merge-stage:after", "merge-publish:before", "merge-record:before"):
        with pytest.raises(Crash):
            merge(db.layout, rewrite=True, fs=KillingFs(crash_at=step))
        before = history_bytes(db.layout)
        staged = sorted(str(p) for p in db.layout.system("Test").glob(".stage*"))
        assert clean(db.place, lambda: LATER * 2) == ([], [])
        assert history_bytes(db.layout) == before
        assert sorted(str(p) for p in db.layout.system("Test").glob(".stage*")) == staged
    assert merge(db.layout, rewrite=True)[-1].outcome in ("resumed", "merged")


def test_a_damaged_record_of_another_date_fails_no_merge_and_is_reported(tmp_path: Path) -> None:
    db, rows = make(tmp_path, 30)
    merge(db.layout)
    merge(db.layout, rewrite=True)
    db.commit({("a", "2024-03-06"): as_table(rows)})
    path = db.layout.merges(TABLE) / DAY / "1.json"
    path.write_bytes(path.read_bytes()[:-1])
    said: list[str] = []
    options, executor = MergeOptions(), LocalExecutor()
    where = db.place, ["2024-03-06"], options
    (done,) = date_merges.merge_dates(*where, executor=executor, clock=lambda: LATER, on_progress=said.append)
    assert done.outcome == "merged"
    assert len(said) == 1
    assert "1.json" in said[0]


def test_the_command_clean(tmp_path: Path) -> None:
    db, _ = make(tmp_path, 30)
    merge(db.layout)
    merge(db.layout, rewrite=True)
    db.log.close()
    code, value = run_json(tmp_path, "clean", "--dry-run")
    assert (code, value["table"], len(value["removed"]), value["dry_run"]) == (0, NAME, 2, True)
    lock = lock_table(db.place)
    code, value = run_json(tmp_path, "clean", NAME)
    assert (code, value["error"]["type"]) == (3, LockLostError.__name__)
    lock.release()
    code, value = run_json(tmp_path, "clean", NAME)
    assert (code, len(value["removed"]), value["waiting"]) == (0, 2, [])
    assert "removed 0 replaced locations" in run(tmp_path, "clean").stdout
    assert run_json(tmp_path, "clean", "No.Such")[0] == 2


# --- what cannot be removed ------------------------------------------------------------------------------------------


class Stuck(QuickFs):
    """Nothing that was there before can be removed once the merge of a date is published."""

    def __init__(self, root: Path, date: str = DAY) -> None:
        self.layout, self.date = Layout(root), date

    def remove_tree(self, path: Path) -> None:
        if newest(TablePlace(FS, self.layout, TABLE), self.date) is not None and self.stat(path) is not None:
            raise OSError(errno.EACCES, "Permission denied", str(path))
        super().remove_tree(path)


def test_a_date_that_cannot_be_cleaned_is_published_all_the_same(tmp_path: Path) -> None:
    db, rows = make(tmp_path, 30)
    db.commit({("a", "2024-03-06"): as_table(rows)})
    both, fs = (DAY, "2024-03-06"), Stuck(tmp_path)
    for result in merge(db.layout, *both, fs=fs):
        assert (result.outcome, result.phase, result.rows_out) == ("merged", "record", 30)
        assert isinstance(result.clean_error, OSError) and ".stage-" in str(result.clean_error)
    again = merge(db.layout, *both, fs=fs)  # nothing new to merge, and it is reported again
    assert [(each.outcome, each.clean_error is not None) for each in again] == [("nothing", True)] * 2
    db.commit({("a", DAY): as_table(rows[:3])})
    (more, _) = merge(db.layout, *both, fs=fs, rewrite=True)
    assert (more.outcome, more.rows_out, more.clean_error is not None) == ("merged", 33, True)
    assert [each.clean_error for each in merge(db.layout, *both)] == [None, None]
    assert {found.unfinished for found in table_status(db.place, NOW)} == {None}
    assert hidden(db.layout.system("Test")) == []


def test_replaced_history_that_cannot_be_removed_stops_no_other_date(tmp_path: Path) -> None:
    db, rows = make(tmp_path, 30)
    merge(db.layout)
    merge(db.layout, rewrite=True)
    db.commit({("a", "2024-03-06"): as_table(rows)})
    days, options, executor = (DAY, "2024-03-06"), MergeOptions(), LocalExecutor()
    done = list(
        date_merges.merge_dates(
            TablePlace(Stuck(tmp_path), db.layout, TABLE), days, options, executor=executor, clock=lambda: LATER
        )
    )
    assert [(each.outcome, each.error) for each in done] == [("nothing", None), ("merged", None)]
    assert done[0].clean_error is not None and ".retired-" in str(done[0].clean_error)


def test_the_commands_agree_about_a_date_that_could_not_be_cleaned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    db, _ = make(tmp_path, 30)
    db.log.close()
    words = "merge", NAME, "--date", DAY, "--local", "--workers", "1"
    plain = Fs.remove_tree

    def stuck(fs: Fs, path: Path) -> None:
        if newest(db.place, DAY) is not None and path.exists():
            raise OSError(errno.EACCES, "Permission denied", str(path))
        plain(fs, path)

    with monkeypatch.context() as patched:
        patched.setattr(Fs, "remove_tree", stuck)
        found = run(tmp_path, *words, "--json")
    value = json.loads(found.stdout)
    assert (found.exit_code, value["outcome"], value["phase"], value["rows_out"]) == (0, "merged", "record", 30)
    assert value["clean_error"]["phase"] == "clean"
    assert f"{DAY}: is published, but files of a merge could not be removed (Permission denied" in found.stderr
    assert f"merge {NAME} --dates {DAY}` removes them" in found.stderr
    (status,) = run_json(tmp_path, "merge", NAME, "--status")[1]["unfinished_dates"]
    assert (status["merged_rows"], status["unfinished_after"]) == (30, "record")
    (note,) = [each for each in reported_by_doctor(tmp_path) if "left behind" in each["what"]]
    assert note["next"].endswith(f"merge {NAME} --dates {DAY}")
    assert run_json(tmp_path, *words)[0] == 0
    assert [each for each in reported_by_doctor(tmp_path) if "left behind" in each["what"]] == []


def reported_by_doctor(root: Path) -> list[dict[str, str]]:
    lines = run(root, "doctor", "--json").stdout.splitlines()
    return [each for line in lines for each in json.loads(line).get("findings", [json.loads(line)]) if "what" in each]
