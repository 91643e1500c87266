"""What a scraper of a stream's metrics gets: every metric with a sentence, and the figures of what was committed."""

from __future__ import annotations

import io
import re
import socket
import urllib.request
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from rich.console import Console

from sparkhaven.jobs.cli.reading.stats import _show_stats
from sparkhaven.jobs.monitor.metrics.catalogue import CATALOGUE, OF_TABLES, PREFIX
from sparkhaven.jobs.monitor.metrics.stream_metrics import Metrics, served
from sparkhaven.jobs.monitor.streams import read_stream
from sparkhaven.jobs.monitor.waiting import SourceWatch
from sparkhaven.jobs.streams.progress import PartitionProgress, Progress, taken, total_lag
from sparkhaven.store.epochs.state.commit_policy import CommitPolicy
from sparkhaven.store.epochs.state.log_values import OffsetRange
from sparkhaven.store.errors import CorruptFileError, LockLostError, PositionGapError, RetryableFeedError, SettingsError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, TableName
from sparkhaven.store.places import StreamPlace
from sparkhaven.writers.batch.commit import BatchOutcome
from sparkhaven.writers.batch.stream_batches import BatchProgress
from tests.support.streams.stream_kit import TABLE, ingest, open_log, put_file, record

FS = Fs()


def scrape(url: str) -> dict[tuple[str, str], float]:
    """Every sample by name and its further labels, of the stream of these tests."""
    with urllib.request.urlopen(url, timeout=60) as answer:
        text = answer.read().decode()
    found = {}
    for family in text_string_to_metric_families(text):
        assert family.documentation.endswith(".")
        for sample in family.samples:
            assert (sample.labels.pop("table"), sample.labels.pop("stream", "feed")) == (str(TABLE), "feed")
            further = ",".join(f"{name}={value}" for name, value in sorted(sample.labels.items()))
            found[sample.name.removeprefix(PREFIX), further] = sample.value
    return found


def test_the_catalogue_has_a_sentence_for_each() -> None:
    every = (*CATALOGUE, *OF_TABLES)
    assert len({item.name for item in every}) == len(every)
    for item in every:
        assert re.fullmatch(r"[A-Z0-9].*\.", item.help) and item.labels[:1] == ("table",)
        assert (item.labels[1:2] == ("stream",)) is (item in CATALOGUE or item.name == "stream_failed_seconds")
        assert item.name.endswith("_total") == (item.kind == "counter")


@pytest.mark.slow
def test_figures_of_batches(tmp_path: Path) -> None:
    now = [100.0]
    metrics = Metrics(lambda: now[0])
    files = [put_file(tmp_path / "in", str(n), [record(2 * n), record(2 * n + 1)], n + 1) for n in range(3)]
    with open_log(FS, tmp_path) as log, served(metrics, 0) as url:
        assert url.startswith("http://127.0.0.1:")
        broker = {"ticks/0": 10, "ticks/1": 5}
        watch = SourceWatch(lambda: dict(broker), lambda: now[0], lambda seen: None)
        figures = metrics.stream(str(TABLE), log, watch)
        figures.on_disk(FS, Layout(tmp_path), CommitPolicy("periodic", 2.5), 0.75)
        before = scrape(url)
        assert before["rows_total", ""] == before["epoch_current", ""] == 0 and before["stream_up", ""] == 1
        now[0] = 105.0
        figures.batch(BatchProgress(ingest(FS, tmp_path, log, [files[:2]]), 1, 0.5))
        now[0] = 112.0
        figures.batch(BatchProgress(ingest(FS, tmp_path, log, [files[:2]], 1), 1, 0.5))  # replayed: nothing to do
        messages = [[OffsetRange("ticks", 0, 0, 4, "id")], [OffsetRange("ticks", 1, 2, 5, "id")]]
        figures.batch(BatchProgress(ingest(FS, tmp_path, log, messages, 2), 2, 0.5))
        more = [[OffsetRange("ticks", 0, 4, 6, "id")]]
        figures.batch(BatchProgress(ingest(FS, tmp_path, log, more, 3), 3, 0.5))
        outcome = BatchOutcome(3, 3, 1, 5, passed=7, counts={"rejected": 5, "rejected.late": 2, "rejected.overflow": 3})
        outcome.counts["rejected.null-partition-value"] = outcome.counts["rejected.instant-out-of-bounds"] = 4
        outcome.counts["rejected.decoder-failed"], outcome.counts["failed_blocks"] = 3, 1
        outcome.counts["rejected.key-decoder-failed"], outcome.counts["rejected.header-decoder-failed"] = 2, 1
        figures.batch(BatchProgress(outcome, 3, 0.1))
        figures.reported({"waiting_files": 4})
        scrape(url)
        now[0] = 115.0
        found = scrape(url)
        written = sum(state.size for at in log.state.locations.values() for state in at.files.values())
        figures.ended()
        broker["ticks/0"], now[0] = 17, 116.0
        after = scrape(url)
    expected = {
        ("rows_total", ""): 4 + 7 + 2 + 1,
        ("bytes_total", ""): files[0].size + files[1].size,
        ("batches_total", ""): 4,
        ("replay_noop_total", ""): 2,
        ("offset_gap_total", ""): 7,
        ("quarantine_total", "reason=late"): 2,
        ("quarantine_total", "reason=overflow"): 3,
        ("quarantine_total", "reason=not-json"): 0,
        ("late_rows_total", "reason=late"): 2,
        ("out_of_bounds_total", "reason=null-partition-value"): 4,
        ("out_of_bounds_total", "reason=instant-out-of-bounds"): 4,
        ("decoder_errors_total", ""): 7,
        ("source_end", "source=ticks/0"): 10,
        ("source_records_total", "source=ticks/0"): 2,
        ("source_records_total", "source=ticks/1"): 0,
        ("recovery_bytes_cut", ""): 0,
        ("epoch_current", ""): 3,
        ("epoch_floor", ""): 0,
        ("epoch_age_seconds", ""): 3,
        ("source_position", "source=ticks/0"): 6,
        ("source_position", "source=ticks/1"): 5,
        ("source_lag_records", "source=ticks/0"): 4,
        ("source_lag_records", "source=ticks/1"): 0,
        ("source_lag_files", ""): 4,
        ("commit_seconds_count", "mode=fsync"): 4,
        ("fsync_seconds_count", "mode=fsync"): 4,
        ("sync_batch_bytes_count", "mode=fsync"): 4,
        ("sync_batch_bytes_sum", "mode=fsync"): written,
        ("stream_up", ""): 1,
        ("source_reachable", ""): 1,
        ("source_end_age_seconds", ""): 0,
        ("source_lag_seconds", "source=ticks/0"): 15,  # since the first scrape
        ("source_lag_seconds", "source=ticks/1"): 0,
        ("batch_seconds_count", ""): 4,
        ("loss_window_seconds", "mode=fsync"): 2.5,
        ("recovery_seconds", ""): 0.75,
        ("open_dates", ""): 1,
        ("restarts_total", ""): 0,
    }
    assert {name: found.get(name) for name in expected} == expected
    assert 0 < found["commit_seconds_sum", "mode=fsync"] < 5 and found["fsync_seconds_sum", "mode=fsync"] > 0
    assert after["stream_up", ""] == 0 and found["disk_free_bytes", "volume=intraday"] > 0
    # what the broker has at the time of the scrape, also once the stream has ended
    assert (after["source_end", "source=ticks/0"], after["source_lag_records", "source=ticks/0"]) == (17, 11)
    assert {name for name, _ in found} >= {item.name for item in CATALOGUE if item.kind != "histogram"} - {
        "failures_total"
    }


@pytest.mark.slow
def test_a_broker_that_is_away_shows_in_the_next_scrape(tmp_path: Path) -> None:
    now, away = [100.0], [False]

    def ask() -> dict[str, int]:
        if away[0]:
            raise RetryableFeedError("the broker cannot be read", found="refused")
        return {"ticks/0": 10}

    metrics = Metrics(lambda: now[0])
    with open_log(FS, tmp_path) as log, served(metrics, 0) as url:
        ingest(FS, tmp_path, log, [[OffsetRange("ticks", 0, 0, 4, "id")]])
        metrics.stream(str(TABLE), log, SourceWatch(ask, lambda: now[0], lambda seen: None))
        assert scrape(url)["source_reachable", ""] == 1
        away[0], now[0] = True, 150.0
        found = scrape(url)
    assert (found["source_reachable", ""], found["source_end_age_seconds", ""]) == (0, 50)
    assert (found["source_lag_records", "source=ticks/0"], found["source_lag_seconds", "source=ticks/0"]) == (6, 50)
    assert found["stream_up", ""] == 1


@pytest.mark.slow
def test_failures_and_restarts_are_counted(tmp_path: Path) -> None:
    metrics = Metrics()
    with open_log(FS, tmp_path) as log, served(metrics, 0) as url:
        metrics.stream(str(TABLE), log)
        errors = [
            PositionGapError("gap"),
            LockLostError("lost"),
            CorruptFileError("cut"),
            OSError("disk"),
            OSError("2"),
        ]
        for error in errors:
            metrics.failed(str(TABLE), "feed", error)
        metrics.restarted(str(TABLE), "feed")
        found = scrape(url)
    assert ("source_reachable", "") not in found  # a feed of files has no broker
    names = ("replay_mismatch_total", "lease_lost_total", "checksum_errors_total", "restarts_total", "stream_up")
    assert [found[name, ""] for name in names] == [1, 1, 1, 1, 0]
    assert found["failures_total", "error=OSError"] == 2 and found["failures_total", "error=PositionGapError"] == 1


@pytest.mark.slow
def test_what_recovery_cut_is_reported(tmp_path: Path) -> None:
    file = put_file(tmp_path / "in", "0", [record(0)], 1)
    with open_log(FS, tmp_path) as log:
        ingest(FS, tmp_path, log, [[file]])
        key = next(iter(log.state.locations))
    path = next((tmp_path / "Intraday").rglob(f"{key.value}/*/N.dat"))
    path.write_bytes(path.read_bytes() + bytes(24))
    metrics = Metrics()
    with open_log(FS, tmp_path) as log, served(metrics, 0) as url:
        metrics.stream(str(TABLE), log)
        assert scrape(url)["recovery_bytes_cut", ""] == 24


def test_only_the_loopback_address_and_a_port_in_use(tmp_path: Path) -> None:
    with served(Metrics(), 0) as url:
        port = int(url.rpartition(":")[2].partition("/")[0])
        with socket.socket() as other, pytest.raises(OSError):
            other.connect((socket.gethostbyname(socket.gethostname()), port))
            if other.getpeername()[0].startswith("127.0.0.1"):
                raise OSError("this machine has no other address")
        with pytest.raises(SettingsError, match="cannot be served") as caught, served(Metrics(), port):
            pass
        assert caught.value.where == f"127.0.0.1:{port}" and "--metrics-port" in str(caught.value.hint)


def test_stats_list_the_position_of_each_partition(capsys: pytest.CaptureFixture[str]) -> None:
    stream = {"stream": "feed", "epoch": 3, "positions": {"ticks/0": 17, "ticks/1": 18}}
    found = {"table": "Test.Event", "rows": 1, "bytes": 2, "waste": 0, "tiers": {}, "streams": [stream]}
    _show_stats({**found, "extended": None, "sources": [], "dates": []}, verbose=False)
    reported = capsys.readouterr().out
    lines = [line.split() for line in reported.partition("positions")[2].splitlines() if line]
    assert lines == [["stream", "topic", "partition", "position"], ["feed", "ticks/0", "17"], ["feed", "ticks/1", "18"]]
    assert reported.count("ticks/0") == 1
    stream |= {"rates": {"ticks/0": 2.5}, "lag": {"ticks/0": 3}, "ends": {"ticks/0": 20, "ticks/2": 4}}
    _show_stats({**found, "extended": None, "sources": [], "dates": []}, verbose=False)
    reported = capsys.readouterr().out
    lines = [line.split() for line in reported.partition("positions")[2].splitlines() if line]
    assert lines[0] == ["stream", "topic", "partition", "position", "per", "second", "end", "lag"]
    assert lines[1] == ["feed", "ticks/0", "17", "2.5", "20", "3"]
    assert lines[3] == ["feed", "ticks/2", "-", "-", "4", "-"]


def test_lines_of_progress_tell_of_partitions() -> None:
    places = PartitionProgress({"ticks/0": 10, "ticks/1": 5, "version": 3})
    assert places.line({"version": 4, "file": 0}, {}, 1.0) == ""
    places = PartitionProgress({"ticks/0": 10, "ticks/1": 5})
    assert places.line({"ticks/0": 12, "ticks/1": 5}, {}, 0.5) == "ticks/0 at 12, 4/s; ticks/1 at 5, 0/s"
    ends = {"ticks/0": 20, "ticks/1": 1005}
    now = {"ticks/0": 20, "ticks/1": 6}
    assert places.line(now, ends, 2.0, shown=1) == "ticks/1 at 6 of 1,005, lag 999, 0/s, and 1 more"
    assert (
        places.line(now, ends, 2.0, shown=None)
        == "ticks/1 at 6 of 1,005, lag 999, 0/s; ticks/0 at 20 of 20, lag 0, 0/s"
    )
    assert places.line(now, ends | {"ticks/0": 19}, 2.0).endswith("; ticks/0 at 20, 0/s")  # it was reported before
    assert total_lag(now, ends) == 999 and total_lag(now, ends | {"ticks/0": 19}) is None and total_lag({}, {}) is None
    empty = BatchOutcome(0, 1, splits=5)  # where five partitions begin is committed before their first message
    assert taken(empty, "messages") == 0 and taken(empty, "files") == 5
    out = io.StringIO()
    progress = Progress(console=Console(file=out, width=200))
    progress.batch(
        "s", BatchProgress(BatchOutcome(0, 1, rows=10), 1, 0.5), "ticks/0 at 12, 4/s", table=TableName("Ns", "Tab")
    )
    assert out.getvalue().endswith("rows/s: ticks/0 at 12, 4/s\n")


def test_stats_tell_rates_of_partitions(tmp_path: Path) -> None:
    now = [1000.0]
    with open_log(FS, tmp_path, clock=lambda: now[0]) as log:
        for number in range(4):
            now[0] += 2.0
            ingest(FS, tmp_path, log, [[OffsetRange("ticks", 0, 10 * number, 10 * number + 10, "id")]], number)
        rollback = log.rollback(3)
    assert rollback == 5
    stream = read_stream(StreamPlace(FS, Layout(tmp_path), TABLE, "feed"))
    assert (stream.positions, stream.rates) == ({"ticks/0": 30}, {"ticks/0": 5.0})
