"""What a merge leaves behind: replaced generations and their removal, what is unfinished, which dates are closed."""

from __future__ import annotations

import errno
import json
import random
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from jobs.date_choice import DateChoice, end_of, parse_choice
from store.errors import LockLostError, SettingsError, TableNotFoundError
from store.io.fs import Fs
from store.layout import Layout, LocationKey
from store.merges.records import lock_table, newest
from store.merges.validations import validation_path
from tests.support.commands import run, told
from tests.support.disks.contents import flip
from tests.support.writers.merge_cases import DAY, TABLE, as_table, random_row
from tests.support.writers.merge_runs import FS, Killed, KillingFs, QuickFs, history_bytes, make, merge
from tests.support.writers.removals import empty
from writers.merge import dates
from writers.merge.cleaning import clean, waiting
from writers.merge.executor import LocalExecutor
from writers.merge.plan.plan import MergeOptions
from writers.merge.status import table_status
from writers.removal.proof import prove

NOW, LATER = 1_700_000_000.0, 1_700_000_000.0 + 3601
NAME = str(TABLE)


# --- replaced generations ------------------------------------------------------------------------------------------


def test_replaced_locations_wait_for_their_grace_and_then_go(tmp_path: Path) -> None:
    house, _ = make(tmp_path, 60)
    merge(house.layout)
    (house.layout.partitions("Test") / "0" / DAY / "Foreign").mkdir()
    merge(house.layout, rewrite=True)
    now = history_bytes(house.layout)
    found = waiting(FS, house.layout, TABLE, NOW)
    assert [(old.internal, old.due_s) for old in found] == [("0", 3600.0), ("1", 3600.0)]
    assert all(old.size == sum(p.stat().st_size for p in old.path.iterdir()) for old in found)
    assert clean(FS, house.layout, TABLE, lambda: NOW + 3599) == ([], waiting(FS, house.layout, TABLE, NOW + 3599))
    assert history_bytes(house.layout) == now
    due, later = clean(FS, house.layout, TABLE, lambda: LATER, dry_run=True)
    assert ([old.internal for old in due], later) == (["0", "1"], [])
    assert history_bytes(house.layout) == now
    assert clean(FS, house.layout, TABLE, lambda: LATER) == (due, [])
    assert not any(old.path.exists() for old in due)
    assert (house.layout.partitions("Test") / "0" / DAY / "Foreign").exists()  # no record of ours names it
    assert history_bytes(house.layout) == {k: v for k, v in now.items() if k.split("/")[0] in ("0.g2", "1.g2")}
    assert clean(FS, house.layout, TABLE, lambda: LATER) == ([], [])


def test_a_merge_of_another_date_cleans_up(tmp_path: Path) -> None:
    house, rows = make(tmp_path, 30)
    merge(house.layout)
    merge(house.layout, rewrite=True)
    house.commit({("a", "2024-03-06"): as_table(rows)})
    options, executor = MergeOptions(), LocalExecutor()
    for clock, left in ((NOW, 2), (LATER, 0)):
        done = list(
            dates.merge_dates(
                FS, house.layout, TABLE, ["2024-03-06"], options, executor=executor, clock=lambda clock=clock: clock
            )
        )
        assert done[0].error is None
        assert len(waiting(FS, house.layout, TABLE, NOW)) == left


def test_cleaning_leaves_what_an_unfinished_merge_needs(tmp_path: Path) -> None:
    house, _ = make(tmp_path, 30)
    merge(house.layout)
    for step in ("merge-stage:after", "merge-publish:before", "merge-record:before"):
        with pytest.raises(Killed):
            merge(house.layout, rewrite=True, fs=KillingFs(step=step))
        before = history_bytes(house.layout)
        staged = sorted(str(p) for p in house.layout.system("Test").glob(".stage*"))
        assert clean(FS, house.layout, TABLE, lambda: LATER * 2) == ([], [])
        assert history_bytes(house.layout) == before
        assert sorted(str(p) for p in house.layout.system("Test").glob(".stage*")) == staged
    assert merge(house.layout, rewrite=True)[-1].outcome in ("resumed", "merged")


def test_a_damaged_record_of_another_date_fails_no_merge_and_is_told(tmp_path: Path) -> None:
    house, rows = make(tmp_path, 30)
    merge(house.layout)
    merge(house.layout, rewrite=True)
    house.commit({("a", "2024-03-06"): as_table(rows)})
    path = house.layout.merges(TABLE) / DAY / "1.json"
    path.write_bytes(path.read_bytes()[:-1])
    said: list[str] = []
    options, executor = MergeOptions(), LocalExecutor()
    where = FS, house.layout, TABLE, ["2024-03-06"], options
    (done,) = dates.merge_dates(*where, executor=executor, clock=lambda: LATER, on_progress=said.append)
    assert done.outcome == "merged"
    assert len(said) == 1
    assert "1.json" in said[0]


def test_the_command_clean(tmp_path: Path) -> None:
    house, _ = make(tmp_path, 30)
    merge(house.layout)
    merge(house.layout, rewrite=True)
    house.log.close()
    code, value = told(tmp_path, "clean", "--dry-run")
    assert (code, value["table"], len(value["removed"]), value["dry_run"]) == (0, NAME, 2, True)
    lock = lock_table(FS, house.layout, TABLE)
    code, value = told(tmp_path, "clean", NAME)
    assert (code, value["error"]["type"]) == (3, LockLostError.__name__)
    lock.release()
    code, value = told(tmp_path, "clean", NAME)
    assert (code, len(value["removed"]), value["waiting"]) == (0, 2, [])
    assert "removed 0 replaced locations" in run(tmp_path, "clean").stdout
    assert told(tmp_path, "clean", "No.Such")[0] == 2


# --- what cannot be removed ------------------------------------------------------------------------------------------


class Stuck(QuickFs):
    """Nothing that was there before can be removed once the merge of a date is published."""

    def __init__(self, root: Path, date: str = DAY) -> None:
        self.layout, self.date = Layout(root), date

    def remove_tree(self, path: Path) -> None:
        if newest(FS, self.layout, TABLE, self.date) is not None and self.stat(path) is not None:
            raise OSError(errno.EACCES, "Permission denied", str(path))
        super().remove_tree(path)


def test_a_date_that_cannot_be_cleaned_is_published_all_the_same(tmp_path: Path) -> None:
    house, rows = make(tmp_path, 30)
    house.commit({("a", "2024-03-06"): as_table(rows)})
    both, fs = (DAY, "2024-03-06"), Stuck(tmp_path)
    for result in merge(house.layout, *both, fs=fs):
        assert (result.outcome, result.phase, result.rows_out) == ("merged", "record", 30)
        assert isinstance(result.clean_error, OSError) and ".stage-" in str(result.clean_error)
    again = merge(house.layout, *both, fs=fs)  # nothing new to merge, and it is told again
    assert [(each.outcome, each.clean_error is not None) for each in again] == [("nothing", True)] * 2
    house.commit({("a", DAY): as_table(rows[:3])})
    (more, _) = merge(house.layout, *both, fs=fs, rewrite=True)
    assert (more.outcome, more.rows_out, more.clean_error is not None) == ("merged", 33, True)
    assert [each.clean_error for each in merge(house.layout, *both)] == [None, None]
    assert {found.unfinished for found in table_status(FS, house.layout, TABLE, NOW)} == {None}
    assert not list(house.layout.system("Test").glob(".stage-*"))


def test_replaced_history_that_cannot_be_removed_stops_no_other_date(tmp_path: Path) -> None:
    house, rows = make(tmp_path, 30)
    merge(house.layout)
    merge(house.layout, rewrite=True)
    house.commit({("a", "2024-03-06"): as_table(rows)})
    days, options, executor = (DAY, "2024-03-06"), MergeOptions(), LocalExecutor()
    done = list(
        dates.merge_dates(Stuck(tmp_path), house.layout, TABLE, days, options, executor=executor, clock=lambda: LATER)
    )
    assert [(each.outcome, each.error) for each in done] == [("nothing", None), ("merged", None)]
    assert done[0].clean_error is not None and ".retired-" in str(done[0].clean_error)


def test_the_commands_agree_about_a_date_that_could_not_be_cleaned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    house, _ = make(tmp_path, 30)
    house.log.close()
    words = "merge", NAME, "--date", DAY, "--local", "--workers", "1"
    plain = Fs.remove_tree

    def stuck(fs: Fs, path: Path) -> None:
        if newest(FS, house.layout, TABLE, DAY) is not None and path.exists():
            raise OSError(errno.EACCES, "Permission denied", str(path))
        plain(fs, path)

    with monkeypatch.context() as patched:
        patched.setattr(Fs, "remove_tree", stuck)
        found = run(tmp_path, *words, "--json")
    value = json.loads(found.stdout)
    assert (found.exit_code, value["outcome"], value["phase"], value["rows_out"]) == (0, "merged", "record", 30)
    assert value["clean_error"]["phase"] == "clean"
    assert f"{DAY}: is published, but files of a merge could not be removed: Permission denied" in found.stderr
    assert f"`sparkhaven merge {NAME} --date {DAY}` removes them" in found.stderr
    (status,) = told(tmp_path, "merge", NAME, "--status")[1]["unfinished_dates"]
    assert (status["merged_rows"], status["unfinished_after"]) == (30, "record")
    (note,) = [each for each in told_by_doctor(tmp_path) if "left behind" in each["what"]]
    assert note["next"].endswith(f"merge {NAME} --date {DAY}")
    assert told(tmp_path, *words)[0] == 0
    assert [each for each in told_by_doctor(tmp_path) if "left behind" in each["what"]] == []


def told_by_doctor(root: Path) -> list[dict[str, str]]:
    lines = run(root, "doctor", "--json").stdout.splitlines()
    return [each for line in lines for each in json.loads(line).get("findings", [json.loads(line)]) if "what" in each]


# --- what is unfinished --------------------------------------------------------------------------------------------


def test_the_status_of_a_date_through_its_life(tmp_path: Path) -> None:
    house, _ = make(tmp_path, 60)

    def now() -> tuple[object, ...]:
        (found,) = table_status(FS, house.layout, TABLE, NOW)
        facts = found.unmerged, found.merged, found.validation, found.untruncated, found.unfinished
        return (*facts, len(found.replaced), found.done)

    assert now() == (60, 0, None, 0, None, 0, False)
    with pytest.raises(Killed):
        merge(house.layout, fs=KillingFs(step="merge-publish:before"))
    assert now() == (60, 0, None, 0, "check", 0, False)
    merge(house.layout)
    assert now() == (0, 60, "missing", 60, None, 0, False)
    prove(FS, house.layout, TABLE, DAY)
    assert now() == (0, 60, "passed", 60, None, 0, False)
    house.commit({("b", DAY): as_table([random_row(random.Random(5))])})
    assert now() == (1, 60, "passed", 60, None, 0, False)
    merge(house.layout, rewrite=True)
    assert now() == (0, 61, "missing", 61, None, 2, False)
    empty(house)
    assert now() == (0, 61, "passed", 0, None, 2, False)
    clean(FS, house.layout, TABLE, lambda: LATER)
    assert now() == (0, 61, "passed", 0, None, 0, True)
    path = validation_path(house.layout, TABLE, DAY, 2)
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
    house, _ = make(tmp_path, 30)
    merge(house.layout)
    merge(house.layout, rewrite=True)
    fs = CountingFs()
    (found,) = table_status(fs, house.layout, TABLE, NOW)
    assert (found.generation, len(found.replaced)) == (2, 2)
    assert [fs.asked[name] for name in ("1.json", "2.json", f".Every.merges/{DAY}")] == [1, 1, 1]


def test_the_command_merge_status(tmp_path: Path) -> None:
    house, _ = make(tmp_path, 60)
    house.log.close()
    code, value = told(tmp_path, "merge", "--status")
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
    assert told(tmp_path, "merge", NAME, "--date", DAY, "--local")[0] == 0
    assert told(tmp_path, "validate", NAME, "--date", DAY)[0] == 0
    assert told(tmp_path, "truncate", NAME, "--date", DAY)[0] == 0
    text = run(tmp_path, "merge", NAME, "--status").stdout
    assert "0 unmerged, 0 unvalidated, 0 untruncated, 0 unfinished, 0 replaced" in text
    assert DAY not in text
    assert DAY in run(tmp_path, "merge", NAME, "--status", "-v").stdout
    assert told(tmp_path, "merge")[1]["error"]["what"] == "no table is named"


# --- closed dates --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "end"),
    [
        ("2013-07-04", "2013-07-05T00:00"),
        ("20130704", "2013-07-05T00:00"),
        ("2013-07-04-23", "2013-07-05T00:00"),
        ("2013-07-04T05", "2013-07-04T06:00"),
        ("2013-11-03", "2013-11-04T00:00"),
        ("2013-13-45", None),
        ("fixed", None),
        ("201307041", None),
    ],
)
def test_when_a_date_ends(value: str, end: str | None) -> None:
    zone = ZoneInfo("America/New_York")
    expected = None if end is None else datetime.fromisoformat(end).replace(tzinfo=zone).timestamp()
    assert end_of(value, zone) == expected


def test_a_date_is_closed_when_its_day_is_over_in_its_zone() -> None:
    known = ["2013-07-03", "2013-07-04", "2013-07-05", "zz"]
    midnight = datetime(2013, 7, 5, 0, 0, tzinfo=UTC).timestamp()
    york = DateChoice(closed=True, zone="America/New_York", grace_s=300.0)
    assert york.pick(known, midnight + 300) == ["2013-07-03"]
    assert york.pick(known, midnight + 4 * 3600 + 299) == ["2013-07-03"]
    assert york.pick(known, midnight + 4 * 3600 + 300) == ["2013-07-03", "2013-07-04"]
    assert parse_choice(None, None, True).pick(known, midnight + 300) == ["2013-07-03", "2013-07-04"]
    tokyo = DateChoice(closed=True, zone="Asia/Tokyo")
    assert tokyo.pick(known, midnight - 9 * 3600) == ["2013-07-03", "2013-07-04"]
    with pytest.raises(TableNotFoundError, match="2013-07-01 20:00 in America/New_York"):
        DateChoice(closed=True, zone="America/New_York").pick(known, midnight - 3 * 86400)
    for zone in ("Mars/Base", "../etc/passwd", ""):
        with pytest.raises(SettingsError, match="no time zone"):
            parse_choice(None, None, True, zone=zone)


def test_nothing_closed_is_no_error_where_that_is_allowed(tmp_path: Path) -> None:
    house, rows = make(tmp_path, 30)
    house.commit({("a", "2199-01-01"): as_table(rows)})
    house.log.close()
    later = ["merge", NAME, "--dates", "2190-01-01..2190-12-31", "--local"]
    assert told(tmp_path, *later)[0] == 2
    code, value = told(tmp_path, *later, "--allow-empty")
    assert (code, value["outcome"], value["dates"]) == (0, "nothing", 0)
    assert "no such dates" in value["message"]
    found = run(tmp_path, "merge", NAME, "--closed", "--zone", "UTC", "--local", "--json")
    assert [json.loads(line)["date"] for line in found.stdout.splitlines()] == [DAY]
    for words in (["truncate", NAME, "--date", DAY], ["delete", NAME, "--date", DAY, "--grace", "0"]):
        assert told(tmp_path, *words)[0] == 0
    code, value = told(tmp_path, "merge", NAME, "--closed", "--zone", "UTC", "--allow-empty", "--local")
    assert (code, value["outcome"]) == (0, "nothing")
    assert told(tmp_path, "merge", NAME, "--closed", "--zone", "UTC", "--local")[0] == 2


# --- what is said --------------------------------------------------------------------------------------------------


def test_a_dry_run_names_rows_and_destination(tmp_path: Path) -> None:
    house, _ = make(tmp_path, 30, partitions=0)
    house.log.close()
    found = run(tmp_path, "merge", NAME, "--date", DAY, "--dry-run")
    assert f"{DAY}: would merge 30 rows to 0" in found.stdout
    assert "1 dates, 30 rows to merge (dry run)" in found.stderr
    assert told(tmp_path, "merge", NAME, "--date", DAY, "--dry-run")[1]["destinations"] == {"0": None}
    assert not house.layout.partitions("Test").exists()


def test_a_large_date_tells_how_far_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    house, _ = make(tmp_path, 400)
    monkeypatch.setattr(dates, "PARALLEL_ROWS", 10)
    said: list[str] = []
    options, executor = MergeOptions(memory=1, workers=2), LocalExecutor()
    monkeypatch.setattr("writers.merge.plan.plan.PARALLEL_ROWS", 10)
    where = FS, house.layout, TABLE, [DAY], options
    (done,) = dates.merge_dates(*where, executor=executor, clock=lambda: NOW, on_progress=said.append)
    assert done.outcome == "merged"
    assert said[0].startswith(f"{DAY}: ordering rows, ") or said[0].startswith(f"{DAY}: counting rows, ")
    assert any("reading back columns, 24 of 24 tasks" in line for line in said)


def test_the_old_name_of_rewrite_goes_on_and_names_the_new_one(tmp_path: Path) -> None:
    house, _ = make(tmp_path, 30)
    merge(house.layout)
    house.log.close()
    found = run(tmp_path, "merge", NAME, "--date", DAY, "--local", "--force")
    assert found.exit_code == 0
    assert "--rewrite" in found.stderr
    record = newest(FS, house.layout, TABLE, DAY)
    assert record is not None
    assert record.generation == 2
    assert LocationKey("0.g2", DAY) in {LocationKey(o.internal, DAY) for o in record.outputs}


def test_validate_names_what_failed_first_and_hides_digests(tmp_path: Path) -> None:
    house, _ = make(tmp_path, 30)
    merge(house.layout)
    path = house.layout.history_location(TABLE, LocationKey("0", DAY)) / "L.dat"
    flip(path, 4096)
    house.log.close()
    code, value = told(tmp_path, "validate", NAME, "--date", DAY)
    assert code == 1
    assert [(rule["rule"], rule["column"]) for rule in value["rules"] if not rule["passed"]] == [("DigestEqual", "L")]
    assert value["rules"][0]["column"] == "L"
    text = run(tmp_path, "validate", NAME, "--date", DAY).stdout
    assert "FAILED (1 failed)" in text
    assert value["rules"][0]["measured"] not in text
    assert value["rules"][0]["measured"] in run(tmp_path, "validate", NAME, "--date", DAY, "-v").stdout
    code, value = told(tmp_path, "truncate", NAME, "--date", DAY)
    assert code == 1
