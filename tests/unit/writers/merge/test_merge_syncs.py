"""When a merge syncs its files, and how many columns it works on at once."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from sparkhaven.store.io.fs import Fs
from sparkhaven.store.io.sync import SYNC_MODES, EarlySync
from sparkhaven.store.layout import Layout
from sparkhaven.store.merges.merge_records import newest
from sparkhaven.writers.merge.executor import LocalExecutor
from tests.support.disks.model_fs import QuickFs
from tests.support.writers.merge_cases import DAY
from tests.support.writers.merge_runs import history_bytes, make, merge


class WatchedFs(Fs):
    """The real file system; notes which files were synced, by which thread, and what had been published by then."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str]] = []
        self.threads: dict[str, set[int]] = {}

    def _sync_file(self, path: Path) -> None:
        self.events.append(("sync", path.name))
        self.threads.setdefault(path.name, set()).add(threading.get_ident())
        super()._sync_file(path)

    def write_at(self, path: Path, offset: int, data: Any) -> None:
        super().write_at(path, offset, data)
        self.events.append(("write", path.name))

    def rename(self, source: Path, target: Path) -> None:
        if target.name == DAY or target.name == "Every":
            self.events.append(("publish", target.name))
        super().rename(source, target)


@pytest.mark.parametrize("mode", SYNC_MODES)
@pytest.mark.parametrize("format_", ["deephaven", "both"])
def test_each_mode_writes_the_same_and_syncs_all_before_it_publishes(tmp_path: Path, mode: Any, format_: Any) -> None:
    plain, _ = make(tmp_path / "plain", 60, partitions=1)
    merge(plain.layout, format=format_)
    db, _ = make(tmp_path / "db", 60, partitions=1)
    fs = WatchedFs()
    merge(db.layout, fs=fs, sync_mode=mode, format=format_)
    assert history_bytes(db.layout) == history_bytes(plain.layout)
    record = newest(db.place, DAY)
    assert record is not None
    (output,) = record.outputs
    published = next(index for index, (kind, _) in enumerate(fs.events) if kind == "publish")
    last = {name: index for index, (kind, name) in enumerate(fs.events) if kind == "write"}
    for name in output.files:
        synced = [index for index, event in enumerate(fs.events) if event == ("sync", name)]
        assert any(last.get(name, -1) < index < published for index in synced), name
    early = [name for name in ("I.dat", "Note.bytes") if fs.events.count(("sync", name)) > 1]
    assert early == ([] if mode == "final" else ["I.dat", "Note.bytes"])


def test_immediate_is_the_writing_thread_and_concurrent_is_another(tmp_path: Path) -> None:
    for mode, own in (("immediate", True), ("concurrent", False)):
        fs = WatchedFs()
        path = tmp_path / f"{mode}.dat"
        fs.write_new(path, b"x")
        with EarlySync(fs, mode) as syncs:  # type: ignore[arg-type]
            syncs.written(path, 1)
        assert fs.threads == {path.name: fs.threads[path.name]}
        assert (threading.get_ident() in fs.threads[path.name]) is own


class FailingFs(QuickFs):
    """Cannot sync one file."""

    def sync(self, paths: Any) -> None:
        for path in paths:
            if path.name == "I.dat":
                raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))


@pytest.mark.parametrize("mode", SYNC_MODES)
def test_a_sync_that_fails_fails_the_date(tmp_path: Path, mode: Any) -> None:
    db, _ = make(tmp_path, 30, partitions=1)
    with pytest.raises(OSError, match="Input/output error"):
        merge(db.layout, fs=FailingFs(), sync_mode=mode)
    assert newest(db.place, DAY) is None
    assert not list(db.layout.partitions("Test").glob(f"*/{DAY}"))


def test_the_body_fails_before_its_syncs(tmp_path: Path) -> None:
    with pytest.raises(KeyError), EarlySync(FailingFs(), "concurrent") as syncs:
        syncs.written(tmp_path / "I.dat", 1)
        raise KeyError


@pytest.mark.parametrize(
    ("rows", "work", "all_work", "all_tasks"),
    [(100, "write_column", "write_column", 12), (1000, "column", "column", 12)],
    ids=["whole columns", "one task of the date"],
)
def test_so_many_columns_are_given_out_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: int, work: str, all_work: str, all_tasks: int
) -> None:
    given: dict[int | None, list[tuple[str, int]]] = {None: [], 2: []}
    run = LocalExecutor.run

    def noted(self: LocalExecutor, fn: Callable[[Any], Any], tasks: Sequence[Any]) -> Iterator[Any]:
        given[columns].append((getattr(getattr(fn, "func", fn), "__name__", ""), len(tasks)))
        return run(self, fn, tasks)

    monkeypatch.setattr(LocalExecutor, "run", noted)
    for columns in (None, 2):
        db, _ = make(tmp_path / str(columns), 300, partitions=1)
        merge(db.layout, workers=3, parallel_rows=rows, max_columns=columns)
    by_column = {work, "read_part"}
    assert [number for name, number in given[None] if name in {all_work, "read_part"}] == [all_tasks, 12 + 2]
    assert [number for name, number in given[2] if name in by_column] == [2] * 13
    assert [number for name, number in given[2] if name == "step"] == ([] if work == "write_column" else [1])
    assert history_bytes(Layout(tmp_path / "2")) == history_bytes(Layout(tmp_path / "None"))
