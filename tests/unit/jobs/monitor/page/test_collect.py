"""The facts of a page, collected from real roots: what they say, what is read for them, and what happens to damage."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from shutil import rmtree
from typing import Any

import pytest

from sparkhaven.jobs.monitor import dates
from sparkhaven.jobs.monitor.dates import Cell
from sparkhaven.jobs.monitor.doctor.finding import CheckContext, DoctorFinding
from sparkhaven.jobs.monitor.page import collect
from sparkhaven.jobs.monitor.page.collect import FactCollector, PageLimits, PageScope, page_table
from sparkhaven.jobs.monitor.page.document import page
from sparkhaven.jobs.monitor.page.pictures import Drawings
from sparkhaven.jobs.monitor.page.summary import PageFacts, PageTable
from sparkhaven.jobs.monitor.storage import DiskUse
from sparkhaven.store.epochs.state.log_values import Batch, OffsetRange
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout
from sparkhaven.store.merges.history import DateHistory, load_history
from sparkhaven.store.merges.merge_records import newest
from sparkhaven.store.merges.validations import RuleResult, Validation, binding, store_validation
from sparkhaven.store.places import TablePlace
from sparkhaven.store.quarantine.ledger import Ledger, write_ledger
from tests.support.disks.model_fs import QuickFs
from tests.support.tables.small_tables import SCHEMA, SmallTable
from tests.support.writers.quarantine_tables import FIRST, added, row, version

NOW = 1_800_086_400.0


class Watched(QuickFs):
    """Remembers which files were opened or read."""

    def __init__(self) -> None:
        self.opened: set[str] = set()
        self.listed = 0

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if name in ("read", "open", "read_range", "map", "map_range"):
            return lambda path, *rest: (self.opened.add(Path(path).name), found(path, *rest))[1]
        if name == "names":
            self.listed += 1
        return found


def collector(
    root: Path, fs: Fs | None = None, *, now: float = NOW, asked: PageScope | None = None, **limits: int
) -> FactCollector:
    environ: Mapping[str, str] = {"JAVA_HOME": "/no/such/jdk", "HOME": os.environ.get("HOME", "/")}
    return FactCollector(
        fs or Fs(), Layout(root), asked or PageScope(), lambda: now, "here", environ, PageLimits(**limits)
    )


def one(found: PageFacts) -> PageTable:
    (table,) = found.tables
    return table


def test_the_facts_of_a_table(small: SmallTable) -> None:
    found = one(collector(small.root).collect())
    (stream,) = found.streams
    assert (stream.stream, stream.epoch, stream.durability) == ("s", 6, "fsync")
    assert [(epoch.epoch, epoch.rows, epoch.seconds, epoch.lag) for epoch in stream.history[:3]] == [
        (1, 1, None, 0.0),
        (2, 1, 60.0, 0.0),
        (3, 2, 60.0, 0.0),
    ]
    merged = [Cell("2026-01-01", source, 1, "merged") for source in ("a", "b")]
    later = [Cell(date, source, 2, "intraday") for date in ("2026-01-02", "2026-01-03") for source in ("a", "b")]
    assert list(found.cells) == [*merged, *later]
    (symbols,) = found.symbols
    assert symbols.column == "Sym" and {date: rows for date, _, rows in symbols.dates}["2026-01-02"] == 4
    used = {name: use.bytes for name, use in found.volumes.items()}
    assert set(used) == {"intraday", "0", "1"} and min(used.values()) > 0
    assert found.errors == ()


def test_tiers_of_a_date_on_its_way(small: SmallTable) -> None:
    def tiers() -> dict[tuple[str, str], tuple[int, str]]:
        found = page_table(CheckContext(small.fs, small.layout, NOW, "here", {}), small.table, PageLimits())
        assert found.errors == ()
        return {(cell.date, cell.source): (cell.rows, cell.tier) for cell in found.cells}

    day = "2026-01-01"
    assert tiers()[day, "a"] == (1, "merged")
    record = newest(small.place, day)
    assert record is not None
    rule = RuleResult("assertSize", None, 1, 0, 9, True)
    passed = Validation(str(small.table), day, 1, 2, (rule,), binding=binding(record, small.schema.rules), time_ms=5)
    store_validation(small.place, passed)
    assert tiers()[day, "b"] == (1, "validated")
    late = small.append("b", day, {"Size": [3]})
    small.commit(late)
    assert tiers()[day, "b"] == (2, "intraday") and tiers()[day, "a"] == (1, "validated")


def test_a_failed_validation_is_an_error_with_its_rule(small: SmallTable) -> None:
    day = "2026-01-01"
    record = newest(small.place, day)
    assert record is not None
    results = RuleResult("assertSize", None, 1, 5, 9, False, "1 row"), RuleResult("assertNotNull", "Px", 2, 0, 0, True)
    failed = Validation(str(small.table), day, 1, 2, results, binding=binding(record, small.schema.rules), time_ms=7)
    store_validation(small.place, failed)
    (error,) = one(collector(small.root).collect()).errors
    assert (error.time_ms, error.where) == (7, "NS.T 2026-01-01")
    assert error.what == "validation: assertSize failed: 1 row"


def test_gaps_and_rejected_rows_of_epochs(tmp_path: Path) -> None:
    small = SmallTable(tmp_path / "db")
    first = small.append("a", "d", {"Size": [1]})
    small.commit(first, ranges=(OffsetRange("t", 0, 0, 2),))
    gap = OffsetRange("t", 0, 2, 5)
    batch = Batch(
        "q", 2, (), (small.append("a", "d", {"Size": [1]}),), 1, 1, ranges=(OffsetRange("t", 0, 5, 6),), gaps=(gap,)
    )
    small.log().commit(replace(batch, counts={"rejected": 3, "rejected.late": 3, "ignored.x": 9}))
    found = page_table(CheckContext(small.fs, small.layout, NOW, "here", {}), small.table, PageLimits())
    epoch = found.streams[0].history[1]
    assert (epoch.lag, dict(epoch.rejected)) == (None, {"late": 3})
    (error,) = found.errors
    assert "missing offsets" in error.what and "t/0" in error.what and error.where == "NS.T s, epoch 2"


def quarantined(small: SmallTable) -> Path:
    place = small.root / "Quarantine" / "s"
    place.mkdir(parents=True)
    owner = {"Namespace": "NS", "TableName": "T", "Stream": "s"}
    secret = {"Value": "hunter2", "Payload": b"hunter2", "Key": b"hunter2", "Detail": "hunter2"}
    rows = [row("/feed/1.json", n, 1, **owner, **secret, Column="Size", Expected="a number") for n in range(3)]
    version(place, 0, *FIRST, added(place, "rows", [*rows, row("/feed/2.json", 1, 2, **owner, Reason="late")]))
    write_ledger(small.place.of_stream("s"), Ledger(str(place), "", 6))
    return place


@pytest.mark.slow
def test_pending_rows_by_reason_without_what_they_say(small: SmallTable) -> None:
    quarantined(small)
    collected = collector(small.root).collect()
    found = one(collected)
    assert found.rejected["s"].pending == {"late": 1, "overflow": 3}
    assert "NS.T s: /feed/1.json at 2" in {error.where for error in found.errors}
    at = round(datetime(2026, 11, 21, 12, 0, 0, 250_000, UTC).timestamp() * 1000)
    assert {error.time_ms for error in found.errors} == {at}
    assert "row rejected: overflow in column Size, expected a number" in {error.what for error in found.errors}
    assert b"hunter2" not in page(collected, Drawings())


def test_a_large_quarantine_is_not_read(small: SmallTable) -> None:
    quarantined(small)
    found = one(collector(small.root, quarantine_bytes=10).collect())
    assert found.rejected["s"].unread and not found.errors


def test_no_column_is_opened_and_what_has_not_changed_is_not_read_again(small: SmallTable) -> None:
    fs = Watched()
    again = collector(small.root, fs)
    first = again.collect()
    assert not [name for name in fs.opened if name.endswith((".dat", ".sym", ".bytes", ".parquet", ".tbl", ".ovr"))]
    fs.opened.clear()
    unchanged = again.collect()
    assert one(unchanged) is one(first) and unchanged.findings == first.findings
    assert not [name for name in fs.opened if name.endswith((".log", ".checkpoint", ".head", ".json"))]
    small.add("c", "2026-01-04", {"Size": [1]})
    second = one(again.collect())
    assert second is not one(first) and second.cells[-1] == Cell("2026-01-04", "c", 1, "intraday")
    small.merge_by_hand("2026-01-02", 1)
    third = one(again.collect())
    assert third is not second and third.cells[2].tier == "merged"
    assert one(again.collect()) is third


def test_facts_and_findings_share_one_look_at_the_dates(small: SmallTable, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []

    def counted(place: TablePlace, value: str) -> DateHistory:
        looked.append(value)
        return load_history(place, value)

    monkeypatch.setattr(dates, "load_history", counted)
    again = collector(small.root)
    again.collect()
    assert looked == ["2026-01-01", "2026-01-02", "2026-01-03"]
    small.merge_by_hand("2026-01-02", 1)
    assert one(again.collect()).cells[2].tier == "merged", "each page looks anew"


def test_only_so_many_directories_are_looked_at(small: SmallTable) -> None:
    stray = small.location("b", "2026-01-03") / "left.dat"
    stray.write_bytes(b"x" * 1000)
    whole = one(collector(small.root).collect())
    assert whole.volumes["intraday"].waste == 1000 and whole.unlisted == 0
    some = one(collector(small.root, directories=1).collect())
    assert some.unlisted == 7  # of six intraday and two historical
    assert 0 < sum(use.bytes for use in some.volumes.values()) < sum(use.bytes for use in whole.volumes.values())


def test_damage_is_an_error_and_the_rest_is_there(small: SmallTable) -> None:
    record = small.layout.merges(small.table) / "2026-01-01" / "1.json"
    record.write_bytes(record.read_bytes()[:-3])
    found = collector(small.root).collect()
    assert one(found).streams[0].epoch == 6 and one(found).cells == ()
    assert {error.where for error in one(found).errors} == {"NS.T: dates", "NS.T: disk use"}
    assert str(record) in one(found).errors[0].what
    assert [each.check for each in found.findings if each.state == "wrong" and "merge record" in each.what] == ["dates"]
    for path in small.layout.streams(small.table).iterdir():
        path.write_bytes(b"\0" * 64)
    assert one(collector(small.root).collect()).errors


def test_a_table_that_may_not_be_read_leaves_the_page_as_it_is(small: SmallTable) -> None:
    class Refusing(Fs):
        def names(self, path: Path) -> list[str]:
            if path.name == ".streams":
                raise PermissionError(13, "Permission denied", str(path))
            return super().names(path)

    found = collector(small.root, Refusing()).collect()
    assert one(found).streams == () and "Permission denied" in one(found).errors[0].what
    assert "wrong" in {each.state for each in found.findings}


def test_files_that_are_not_there_as_committed_are_an_error(small: SmallTable) -> None:
    place = small.location("b", "2026-01-03")
    (place / "Size.dat").unlink()
    found = one(collector(small.root).collect())
    (error,) = found.errors
    assert error.where == str(place) and "verify NS.T" in error.what
    rmtree(place)
    (error,) = one(collector(small.root).collect()).errors
    assert error.where == str(place)


def test_a_removal_that_is_under_way_is_no_error(small: SmallTable, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = iter([DiskUse({}, short=frozenset({small.root})), DiskUse({})])
    monkeypatch.setattr(collect, "disk_use", lambda *_, most: next(looks))
    assert one(collector(small.root).collect()).errors == ()


def test_a_table_whose_schema_is_lost_is_shown_with_the_error(small: SmallTable) -> None:
    small.layout.schema(small.table).unlink()
    found = collector(small.root).collect()
    assert one(found).name == "NS.T" and any("NS.T.schema" in error.what for error in one(found).errors)
    assert "wrong" in {each.state for each in found.findings if each.check == "dates"}


def test_an_empty_root_and_one_with_many_tables(tmp_path: Path) -> None:
    (tmp_path / "db").mkdir()
    found = collector(tmp_path / "db").collect()
    assert found.tables == () and "no stream has run" in next(f for f in found.findings if f.check == "streams").what
    made = [SmallTable(tmp_path / "db", SCHEMA.replace('"T"', f'"T{number}"')) for number in range(4)]
    for number, table in enumerate(made):
        table.add("a", "2026-01-01", {"Size": [1]})
        log = table.layout.stream_log(table.table, "s")
        os.utime(log, (1_700_000_000 + number, 1_700_000_000 + number))
    found = collector(tmp_path / "db", tables=2).collect()
    assert [table.name for table in found.tables] == ["NS.T2", "NS.T3"] and found.others == ("NS.T0", "NS.T1")
    named = collector(tmp_path / "db", asked=PageScope([table.table for table in made]), tables=2).collect()
    assert len(named.tables) == 4 and named.others == ()


@pytest.mark.slow
def test_the_same_root_at_the_same_time_gives_the_same_bytes(small: SmallTable) -> None:
    for log in small.logs.values():
        log.close()
    first, second = (page(collector(small.root).collect(), Drawings()) for _ in range(2))
    assert first == second
    assert page(collector(small.root, now=NOW + 1).collect(), Drawings()) != first


def test_findings_are_those_of_doctor(small: SmallTable) -> None:
    found = collector(small.root).collect()
    assert DoctorFinding("root", "ok", f"{small.root} has 1 table") in found.findings
    next_ = [each.next or "" for each in found.findings if each.check == "dates"]
    merges = [command for command in next_ if f"sparkhaven --root {small.root} merge NS.T --dates " in command]
    assert any("2026-01-02" in command for command in merges)


@pytest.mark.slow
def test_a_page_that_is_asked_while_rows_come_has_no_error(tmp_path: Path) -> None:
    """One collector, as of a served page: each look sees at least the epochs of the one before, and nothing wrong."""
    table, stop = SmallTable(tmp_path), threading.Event()
    table.add("a", "2026-01-01", {"Size": [1]})

    def ingest() -> None:
        number = 0
        while not stop.wait(0.002):
            number += 1
            table.add(f"s{number % 7}", f"2026-01-{number % 20 + 1:02}", {"Size": [number] * (number % 5 + 1)})

    writer = threading.Thread(target=ingest)
    writer.start()
    looks = collector(tmp_path)
    try:
        seen = [one(looks.collect())]
        while seen[-1].streams[0].epoch < 20 and len(seen) < 10_000:
            seen.append(one(looks.collect()))
    finally:
        stop.set()
        writer.join()
    table.log().close()
    assert [each.errors for each in seen if each.errors] == []
    epochs = [each.streams[0].epoch for each in seen]
    assert epochs == sorted(epochs) and epochs[-1] >= 20 > epochs[0]
