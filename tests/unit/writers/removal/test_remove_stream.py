"""The removal of a stream, killed at each of its calls to the disk: nothing is damaged, and a repeat finishes it."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import pytest

from sparkhaven.jobs.monitor.streams import table_streams
from sparkhaven.readers import open_table
from sparkhaven.readers.checks.verify import verify
from sparkhaven.store.epochs.reading.stream_state import list_streams
from sparkhaven.store.epochs.recovery.removed_stream import files_of_stream
from sparkhaven.store.errors import PositionGapError, SnapshotMovedError, TableNotFoundError
from sparkhaven.store.layout import Layout
from sparkhaven.store.places import StreamPlace, TablePlace
from sparkhaven.writers.removal.table_removal import remove_stream
from tests.support.disks.model_fs import Crash, KillingFs
from tests.support.examples import some_of
from tests.support.streams.stream_logs import open_stream_log
from tests.support.tables.intraday_rows import IntradayRows
from tests.support.writers.merge_cases import DAY, SCHEMA, TABLE, as_table, random_row
from tests.support.writers.merge_runs import FS, make, merge
from tests.support.writers.removals import NOW, empty, unlink

RNG = random.Random(7)


def caches(root: Path, end: str) -> list[Path]:
    """Spark's checkpoint of one batch up to ``end``, and a scratch file, as a killed run leaves them."""
    layout = Layout(root)
    checkpoint, scratch = layout.spark_checkpoint(TABLE, "rows"), layout.scratch(TABLE, "rows")
    files = {
        checkpoint / "offsets" / "0": f"v1\n{{}}\n{end}",
        checkpoint / "commits" / "0": 'v1\n{"nextBatchWatermarkMs":0}',
        scratch / "1-0-q" / "planned.json": "{}",
    }
    for path, text in files.items():
        path.parent.mkdir(parents=True)
        path.write_text(text)
    return [checkpoint, scratch, *files]


def never_committed(root: Path) -> None:
    IntradayRows(root, SCHEMA, fs=FS).log.close()
    caches(root, '{"n": 0}')  # Spark runs a batch of an empty feed, too


def merged_and_deleted(root: Path) -> None:
    db, _ = make(root, 12)
    merge(db.layout)
    empty(db)
    unlink(db)
    db.log.close()
    with open_stream_log(db.place, None, keep_epochs=1) as log:
        assert log.compact_if_due(now=True)
        log.write_head()
    caches(root, '{"n": 12}')


def remove(layout: Layout, fs: KillingFs) -> None:
    remove_stream(StreamPlace(fs, layout, TABLE, "rows"), clock=lambda: NOW)


def sound(layout: Layout, rows: int) -> None:
    found = open_table(layout.root, str(TABLE), fs=FS).to_arrow().num_rows
    assert found == rows
    findings = [one for one in verify(FS, layout, TABLE, deep=True).findings if one.severity != "note"]
    assert findings == []


@pytest.mark.slow
@pytest.mark.parametrize(("case", "rows"), [(never_committed, 0), (merged_and_deleted, 12)])
def test_a_removal_killed_at_any_call_damages_nothing_and_is_repeated(tmp_path: Path, case: Any, rows: int) -> None:
    original = tmp_path / "original"
    case(original)
    counting = KillingFs()
    shutil.copytree(original, tmp_path / "whole", symlinks=True)
    whole = Layout(tmp_path / "whole")
    taken = files_of_stream(StreamPlace(FS, whole, TABLE, "rows"))
    beside = [whole.spark_checkpoint(TABLE, "rows"), whole.scratch(TABLE, "rows")]
    tops = {path.relative_to(whole.root).parts[0] for path in beside}
    named = {part for path in taken for part in path.relative_to(whole.root).parts}
    assert {*tops, "commits", "offsets", "planned.json", "rows.log"} <= named
    assert rows == 0 or {"rows.head", "rows.checkpoint"} <= named
    remove(whole, counting)
    assert [path for path in taken if path.exists()] == []
    assert not tops & {path.name for path in whole.root.iterdir()}
    left_by_one = names(tmp_path / "whole")
    assert counting.changes > 12
    for call in some_of(range(counting.changes)):
        for repeat in (True, False):
            root = tmp_path / f"{call}-{repeat}"
            shutil.copytree(original, root, symlinks=True)
            layout = Layout(root)
            with pytest.raises(Crash):
                remove(layout, KillingFs(crash_after=call))
            sound(layout, rows)
            if repeat:
                is_listed = bool(table_streams(TablePlace(FS, layout, TABLE)))
                try:
                    remove(layout, KillingFs())
                except TableNotFoundError:
                    assert not is_listed
                assert table_streams(TablePlace(FS, layout, TABLE)) == []
                assert names(root) == left_by_one, call
                sound(layout, rows)
            begin_again(root, rows)
            shutil.rmtree(root)


def test_a_reader_of_before_says_that_its_rows_have_moved(tmp_path: Path) -> None:
    """It has read the removals of the stream, and another stream of the name has begun others."""
    db, _ = make(tmp_path, 12)
    opened = open_table(tmp_path, str(TABLE), fs=FS)
    merge(db.layout)
    empty(db)
    unlink(db)
    assert opened.to_arrow().num_rows == 12
    db.log.close()
    remove(db.layout, KillingFs())
    IntradayRows(tmp_path, SCHEMA, fs=FS).log.close()
    with pytest.raises(SnapshotMovedError):
        opened.to_arrow()
    sound(db.layout, 12)


@pytest.mark.parametrize("dry_run", [True, False])
def test_a_stream_whose_log_lacks_the_batches_of_spark_is_not_removed(tmp_path: Path, dry_run: bool) -> None:
    IntradayRows(tmp_path, SCHEMA, fs=FS).log.close()
    caches(tmp_path, '{"n": 3}')
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(PositionGapError) as caught:
        remove_stream(StreamPlace(FS, Layout(tmp_path), TABLE, "rows"), clock=lambda: NOW, dry_run=dry_run)
    assert caught.value.what == "the commit log is empty, but Spark has run batches of this stream"
    assert caught.value.hint and "restore the log" in caught.value.hint
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def begin_again(root: Path, rows: int) -> None:
    """A stream of the same name takes rows, and merges them, beside what was merged before."""
    db = IntradayRows(root, SCHEMA, fs=FS)
    assert dict(db.log.state.locations) == {}
    db.commit({("a", DAY): as_table([random_row(RNG) for _ in range(5)])})
    sound(db.layout, rows + 5)
    db.log.close()
    assert not db.layout.stream_removed(TABLE, "rows").exists()
    assert list_streams(db.place) == ["rows"]


def names(root: Path) -> list[str]:
    """Files of intraday and caches; a removal has written nothing else."""
    files = (path for path in root.rglob("*") if path.is_file() and "Systems" not in path.parts)
    return sorted(str(path.relative_to(root)) for path in files)
