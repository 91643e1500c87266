"""What a scraper gets about a table: its merges, symbol tables, files, and what readers in the process hold."""

from __future__ import annotations

import gc
import urllib.request
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families

from sparkhaven.jobs.monitor.metrics.catalogue import OF_TABLES, PREFIX
from sparkhaven.jobs.monitor.metrics.stream_metrics import Metrics, TableMetrics, served
from sparkhaven.jobs.monitor.symbols import SymbolFile, SymbolTables
from sparkhaven.readers.arrow.opening import open_table
from sparkhaven.store.epochs.files.stream_notes import clear_failure, note_failure
from sparkhaven.store.epochs.state.commit_policy import CommitPolicy
from sparkhaven.store.errors import CommitError
from sparkhaven.store.layout import LocationKey
from sparkhaven.store.merges.merge_records import newest, store_record
from sparkhaven.store.merges.merge_run import MergePhase
from sparkhaven.store.places import TablePlace
from sparkhaven.writers.merge.publish.publish_phase import clean
from tests.support.disks.model_fs import QuickFs
from tests.support.tables.intraday_rows import IntradayRows
from tests.support.writers.merge_cases import DAY, TABLE
from tests.support.writers.merge_runs import FS, make, merge

NAMES = {item.name for item in OF_TABLES}


def scraped(url: str) -> dict[tuple[str, str], float]:
    """The metrics of the table by name and further labels, as text over HTTP."""
    with urllib.request.urlopen(url, timeout=60) as answer:
        text = answer.read().decode()
    found = {}
    for family in text_string_to_metric_families(text):
        if family.name.removeprefix(PREFIX) in NAMES:
            for sample in family.samples:
                assert sample.labels.pop("table") == str(TABLE)
                found[sample.name.removeprefix(PREFIX), ",".join(sample.labels.values())] = sample.value
    return found


def used(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())


@pytest.fixture
def db(tmp_path: Path) -> IntradayRows:
    made, _ = make(tmp_path, 60)
    return made


@pytest.mark.slow
def test_merges_symbols_and_disk(db: IntradayRows) -> None:
    now = [100.0]
    metrics = Metrics(lambda: now[0])
    reported = metrics.stream(str(TABLE), db.log)
    reported.on_disk(FS, db.layout, CommitPolicy(), 0.1)
    intraday = db.layout.intraday(TABLE)
    with served(metrics, 0) as url:
        before = scraped(url)
        assert not {"merge_rows", "merge_seconds", "write_amplification"} & {name for name, _ in before}
        assert (before["merge_dates", "merged"], before["merge_dates", "unfinished"]) == (0, 0)
        data = [path for key in "ab" for path in db.layout.intraday_location(TABLE, LocationKey(key, DAY)).iterdir()]
        assert before["disk_bytes", "intraday"] == sum(path.stat().st_size for path in data) > 0
        symbols = sum(path.stat().st_size // 8 for path in intraday.rglob("Sym.sym"))
        assert before["symbol_ids", "Sym"] == symbols > 0
        assert before["symbol_hit_ratio", "Sym"] == 1 - symbols / 60

        merge(db.layout)
        merge(db.layout, rewrite=True)
        assert scraped(url)["merge_dates", "merged"] == 0  # not read again so soon
        now[0] += 10
        after = scraped(url)
        record = newest(db.place, DAY)
        assert record is not None
        size = sum(state.size for output in record.outputs for state in output.files.values())
        assert (after["merge_rows", DAY], after["merge_bytes", ""], after["merge_dates", "merged"]) == (60, size, 1)
        assert (after["merge_seconds", DAY], after["merge_end_seconds", ""]) == (0, 1_700_000_000)
        assert after["write_amplification", DAY] == 2  # the date was written twice
        base = db.layout.partitions("Test")
        for volume in "01":
            old, new = base / volume / DAY / "Every", base / f"{volume}.g2" / DAY / "Every"
            assert after["disk_bytes", volume] == used(old) + used(new)
            assert after["waste_bytes", volume] == used(old) > 0
        assert after["waste_bytes", "intraday"] == 0

        clean(db.place, lambda: 1_700_000_000.0 + 3601)
        store_record(db.place, replace(record, generation=3, phase=MergePhase.STAGE))
        now[0] += 10
        last = scraped(url)
        assert (last["waste_bytes", "0"], last["waste_bytes", "1"]) == (0, 0)
        assert (last["merge_dates", "merged"], last["merge_dates", "unfinished"]) == (0, 1)
        assert (last["merge_rows", DAY], last["merge_phase", f"{DAY},stage"]) == (60, 1)


@pytest.mark.slow
def test_a_merge_of_rows_that_came_later_counts_only_its_own(db: IntradayRows) -> None:
    metrics = Metrics(lambda: 100.0)
    merge(db.layout)
    first = newest(db.place, DAY)
    rows = open_table(db.root, str(TABLE)).to_arrow().drop(["Date"])
    db.commit({("c", DAY): rows.slice(0, 7)})
    merge(db.layout)
    metrics.stream(str(TABLE), db.log).on_disk(FS, db.layout, CommitPolicy(), 0.1)
    with served(metrics, 0) as url:
        found = scraped(url)
    both = newest(db.place, DAY)
    assert first is not None and both is not None
    own = [output for output in both.outputs if output.internal not in {o.internal for o in first.outputs}]
    assert (found["merge_rows", DAY], found["write_amplification", DAY]) == (7, 1)
    assert found["merge_bytes", ""] == sum(state.size for output in own for state in output.files.values())


@pytest.mark.slow
def test_open_files_of_this_process(db: IntradayRows) -> None:
    metrics = Metrics()
    metrics.stream(str(TABLE), db.log).on_disk(FS, db.layout, CommitPolicy(), 0.1)
    with served(metrics, 0) as url:
        opened = scraped(url)["open_files", ""]
        assert opened >= 1  # the lock of the stream
        with (db.layout.intraday(TABLE) / "file").open("wb"):
            assert scraped(url)["open_files", ""] == opened + 1
        db.log.close()
        assert scraped(url)["open_files", ""] == 0


@pytest.mark.slow
def test_pins_of_this_process(db: IntradayRows) -> None:
    now = [100.0]
    metrics = Metrics(lambda: now[0])
    metrics.stream(str(TABLE), db.log).on_disk(FS, db.layout, CommitPolicy(), 0.1)
    with served(metrics, 0) as url:
        gc.collect()
        found = scraped(url)
        assert (found["pins", ""], found["oldest_pin_seconds", ""]) == (0, 0)
        opened = open_table(db.root, str(TABLE))
        assert (scraped(url)["pins", ""], len(opened.epochs)) == (1, 1)
        now[0] += 7
        assert scraped(url)["oldest_pin_seconds", ""] == 7
        del opened
        gc.collect()
        found = scraped(url)
        assert (found["pins", ""], found["oldest_pin_seconds", ""]) == (0, 0)


def test_texts_that_a_symbol_table_repeats(tmp_path: Path) -> None:
    def table(name: str, *texts: bytes) -> SymbolFile:
        path = tmp_path / f"{name}.sym"
        path.write_bytes(np.cumsum([len(text) for text in texts]).astype("<i8").tobytes() + b"a tail")
        path.with_name(f"{name}.sym.bytes").write_bytes(b"".join(texts) + b"a tail")
        return SymbolFile(path, 8 * len(texts), sum(map(len, texts)))

    symbols = SymbolTables(FS)
    files = [table("A", b"x", b"", b"y", b"x", b"x"), table("B", b"x", b"y"), table("Empty")]
    assert symbols.duplicates(files) == {("A",): 2, ("B",): 0, ("Empty",): 0}
    (tmp_path / "A.sym").unlink()  # known: not read again
    assert symbols.duplicates(files)["A",] == 2
    assert symbols.duplicates(files[1:]) == {("B",): 0, ("Empty",): 0}
    assert SymbolTables(FS, most_bytes=1).duplicates([table("C", b"z", b"z"), table("D", b"z", b"z")]) == {("C",): 1}


@pytest.mark.slow
def test_what_cannot_be_read_stays_and_grows_old(db: IntradayRows) -> None:
    now = [100.0]
    metrics = Metrics(lambda: now[0])
    merge(db.layout)
    metrics.stream(str(TABLE), db.log).on_disk(FS, db.layout, CommitPolicy(), 0.1)
    with served(metrics, 0) as url:
        good = scraped(url)
        assert good["table_figures_age_seconds", ""] == 0
        record = db.layout.merges(TABLE) / DAY / "1.json"
        record.write_bytes(record.read_bytes()[:-3])
        now[0] += 60
        found = scraped(url)
    assert found.pop(("table_figures_age_seconds", "")) == 60
    now_read = ("table_figures_age_seconds", "disk_free_bytes")
    seen, before = ({name: of[name] for name in of if name[0] not in now_read} for of in (found, good))
    assert seen == before


@pytest.mark.slow
def test_failures_of_all_streams_of_the_table_and_free_space_by_volume(db: IntradayRows) -> None:
    """Whoever ran them; a damaged note tells nothing."""
    metrics = Metrics(lambda: 100.0)
    metrics.stream(str(TABLE), db.log).on_disk(FS, db.layout, CommitPolicy(), 0.1)
    other, broken = db.place.of_stream("other"), db.place.of_stream("broken")
    db.layout.schema(TABLE).parent.mkdir(exist_ok=True)
    db.layout.schema(TABLE).touch()
    note_failure(other, CommitError("no executor"), 1_795_255_200_500)
    broken.stream_failure.write_bytes(b"{}")
    with served(metrics, 0) as url:
        found = scraped(url)
        assert found["disk_free_bytes", "intraday"] > 0
        failed = {labels: value for (name, labels), value in found.items() if name == "stream_failed_seconds"}
        assert failed == {"CommitError,other": 1_795_255_200.5}
        clear_failure(other)
        assert "stream_failed_seconds" not in {name for name, _ in scraped(url)}


def test_reading_again_takes_a_twentieth_of_the_time(db: IntradayRows) -> None:
    now = [100.0]

    class SlowFs(QuickFs):
        def names(self, path: Path) -> list[str]:
            now[0] += 2
            return super().names(path)

    def age() -> float:
        return figures.values()["table_figures_age_seconds"][()]

    figures = TableMetrics(TablePlace(SlowFs(), db.layout, TABLE), lambda: now[0])
    figures.values()
    took = now[0] - 100
    assert took > 10
    now[0] += 15 * took
    assert age() > 15 * took
    now[0] += 6 * took
    assert age() < 2 * took
