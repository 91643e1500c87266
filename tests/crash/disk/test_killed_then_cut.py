"""A process dies between making a name and syncing it; the next one goes on; then the power goes.

What the second process acknowledges must stand, so it may not believe that a name it meets is durable.
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from sparkhaven.readers.arrow.opening import open_table
from sparkhaven.readers.checks.verify import verify
from sparkhaven.store.epochs.reading.stream_state import load_stream
from sparkhaven.store.epochs.state.log_values import Batch, FileId
from sparkhaven.store.errors import SparkhavenError
from sparkhaven.store.format.table.tbl import decode_tbl
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, LocationKey
from sparkhaven.store.places import StreamPlace, TablePlace
from sparkhaven.store.schema.deployed.deploy import deploy, load_deployed
from sparkhaven.store.types.datatypes import data_type
from sparkhaven.store.types.model import Column, Kind, Storage
from sparkhaven.writers.batch.task import TaskResult
from tests.support.disks.model_fs import Crash
from tests.support.disks.power_cut_fs import PowerCutFs
from tests.support.examples import some_of
from tests.support.streams.stream_kit import SCHEMA as EVENTS_SCHEMA
from tests.support.streams.stream_kit import STREAM, ingest, numbers, open_log, put_file, record, run_alone, target_of
from tests.support.streams.stream_kit import TABLE as EVENTS
from tests.support.writers.merge_cases import SCHEMA, TABLE
from tests.support.writers.merge_runs import make, merge


def revive(fs: PowerCutFs) -> None:
    """A new process on the same running machine: what the disk would forget is still the same."""
    fs.dead, fs.crash_after, fs.crash_at = False, None, None


class MarkingFs(PowerCutFs):
    """Remembers how many changes came before each step."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.at: dict[str, int] = {}

    def step(self, name: str) -> None:
        super().step(name)
        self.at.setdefault(name, self.changes)


@pytest.mark.slow
def test_a_stream_whose_directories_were_made_by_a_process_that_died(tmp_path: Path) -> None:
    file = put_file(tmp_path / "feed", "1", [record(1), record(2)], 1)
    for change in range(12):
        root = tmp_path / f"db{change}"
        root.mkdir()
        fs = PowerCutFs(root, crash_after=change)
        with pytest.raises(Crash):
            open_log(fs, root)
        revive(fs)
        log = open_log(fs, root)
        ingest(fs, root, log, [[file]])
        fs.cut(0)
        state = load_stream(StreamPlace(Fs(), Layout(root), EVENTS, STREAM))
        assert numbers(root, state) == [1, 2], f"change {change}"


def test_a_schema_that_was_deployed_by_a_process_that_died(tmp_path: Path) -> None:
    for change in range(1, 8):
        root = tmp_path / f"db{change}"
        root.mkdir()
        fs = PowerCutFs(root, crash_after=change)
        with pytest.raises(Crash):
            deploy(fs, Layout(root), SCHEMA)
        revive(fs)
        deployed = deploy(fs, Layout(root), SCHEMA)
        fs.cut(0)
        assert load_deployed(TablePlace(Fs(), Layout(root), TABLE)) == deployed, f"change {change}"


@pytest.mark.slow
def test_a_merge_that_was_published_by_a_process_that_died(tmp_path: Path) -> None:
    db, _ = make(tmp_path / "made", 9, partitions=1)
    db.log.close()
    shutil.copytree(tmp_path / "made", tmp_path / "plain", symlinks=True)
    plain = MarkingFs(tmp_path / "plain")
    merge(Layout(plain.root), fs=plain)
    for change in range(plain.at["merge-publish:before"], plain.at["merge-index:after"]):
        root = tmp_path / f"db{change}"
        shutil.copytree(tmp_path / "made", root, symlinks=True)
        fs = PowerCutFs(root, crash_after=change)
        with pytest.raises(Crash):
            merge(Layout(root), fs=fs)
        revive(fs)
        try:
            merge(Layout(root), fs=fs)
        except SparkhavenError as error:
            raise AssertionError(f"change {change}") from error
        fs.cut(0)
        assert open_table(root, str(TABLE)).to_arrow(tier="history").num_rows == 9, f"change {change}"


@pytest.mark.slow
@pytest.mark.parametrize("format_", ["parquet", "both"])
def test_a_merge_into_parquet_is_durable_when_it_has_ended(tmp_path: Path, format_: str) -> None:
    db, _ = make(tmp_path, 40, partitions=2)
    db.log.close()
    fs = PowerCutFs(tmp_path)
    merge(Layout(tmp_path), fs=fs, format=format_)
    fs.cut(0)
    assert open_table(tmp_path, str(TABLE)).to_arrow(tier="history").num_rows == 40
    assert [found.text() for found in verify(Fs(), Layout(tmp_path), TABLE, deep=True).findings] == []


@pytest.mark.slow
def test_the_definition_of_a_committed_location_is_whole_whenever_the_power_goes(tmp_path: Path) -> None:
    """A new version of the schema replaces ``table.tbl`` beside rows that are acknowledged."""
    wider = replace(
        EVENTS_SCHEMA,
        version=2,
        columns=(*EVENTS_SCHEMA.columns, Column("More", data_type("int"), Kind.NORMAL, Storage.FIXED, 9)),
    )
    one = put_file(tmp_path / "feed", "1", [record(1)], 1)
    two = put_file(tmp_path / "feed", "2", [record(2)], 2)
    (tmp_path / "made").mkdir()
    with open_log(Fs(), tmp_path / "made") as log:
        ingest(Fs(), tmp_path / "made", log, [[one]])
    replaced = set()
    for seed in some_of(range(80)):
        root = tmp_path / f"db{seed}"
        shutil.copytree(tmp_path / "made", root)
        fs = PowerCutFs(root, crash_after=7 + seed // 5)
        try:
            log = open_log(fs, root, schema=wider)
            target = replace(target_of(root, log), schema=wider)
            log.commit(batch_of(run_alone(fs, target, "2-0", [two]), two))
        except Crash:
            pass
        fs.cut(seed)
        path = Layout(root).intraday_location(EVENTS, LocationKey("a", "2026-11-20")) / "table.tbl"
        columns = len(decode_tbl(path.read_bytes(), path).columns)
        assert columns in (len(EVENTS_SCHEMA.columns), len(wider.columns)), f"seed {seed}"
        replaced.add(columns)
    assert len(replaced) == 2


def batch_of(result: TaskResult, file: FileId) -> Batch:
    assert result.error is None, result.error
    reports = tuple(part.report for part in result.appended)
    return Batch("query", 1, (file,), reports, 2, sum(r.rows - r.base_rows for r in reports))
