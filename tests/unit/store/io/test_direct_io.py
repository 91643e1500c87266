"""Direct writes leave the bytes that plain writes leave, and pages that are released have left the cache."""

from __future__ import annotations

import ctypes
import mmap
import os
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from sparkhaven.readers import open_table
from sparkhaven.store.io.direct_io import BLOCK, BUFFER, LEAST, DirectFs
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout
from sparkhaven.writers.transfer.restore import restore
from sparkhaven.writers.transfer.snapshots import take_snapshot
from tests.support.examples import share_of
from tests.support.places import REPOSITORY
from tests.support.writers.merge_runs import history_bytes, make, merge

LIBC = ctypes.CDLL(None, use_errno=True)


@pytest.fixture
def disk() -> Iterator[Path]:
    """A directory on a disk: files of tests may lie in memory, which takes no direct writes."""
    directory = REPOSITORY / "build" / f"direct-io-{os.getpid()}"
    directory.mkdir(parents=True, exist_ok=True)
    yield directory
    shutil.rmtree(directory)


def cached_pages(path: Path) -> int:
    """The pages of a file that are in the page cache."""
    size = path.stat().st_size
    pages = -(-size // mmap.PAGESIZE)
    with path.open("r+b") as file, mmap.mmap(file.fileno(), size) as mapped:
        view, seen = np.frombuffer(mapped, np.uint8), np.zeros(pages, np.uint8)
        assert (
            LIBC.mincore(ctypes.c_void_p(view.ctypes.data), ctypes.c_size_t(size), ctypes.c_void_p(seen.ctypes.data))
            == 0
        )
        del view
        return int((seen & 1).sum())


@pytest.mark.parametrize("seed", range(4))
def test_the_same_bytes_at_any_offset_and_length(disk: Path, seed: int) -> None:
    rng = random.Random(seed)
    size = 3 * BUFFER
    for fs, name in ((Fs(), "plain"), (DirectFs(), "direct")):
        rng.seed(seed)
        for _ in range(share_of(20)):
            offset = rng.choice([rng.randrange(size), BLOCK * rng.randrange(size // BLOCK)])
            length = rng.choice([rng.randrange(1, 2 * BUFFER), LEAST, LEAST - 1, BLOCK, rng.randrange(3) * BUFFER])
            data = memoryview(rng.randbytes(length + 64))[rng.randrange(64) :][:length]
            fs.write_at(disk / name, offset, data)
    assert (disk / "direct").read_bytes() == (disk / "plain").read_bytes()


@pytest.mark.parametrize("format_", ["deephaven", "both"])
def test_a_merge_writes_the_same_bytes(disk: Path, tmp_path: Path, format_: str) -> None:
    plain, _ = make(tmp_path / "plain", 3000, partitions=1)
    merge(plain.layout, format=format_)
    direct, _ = make(disk / "db", 3000, partitions=1)
    fs = DirectFs(least=1)
    merge(direct.layout, fs=fs, format=format_)
    large = [
        path
        for path in direct.layout.partitions("Test").rglob("*")
        if path.is_file() and path.stat().st_size > 4 * BLOCK
    ]
    assert large
    assert {path.name: cached_pages(path) for path in large if cached_pages(path) > 2} == {}
    assert history_bytes(direct.layout) == history_bytes(plain.layout)


def test_copies_have_the_same_bytes(disk: Path) -> None:
    source, _ = make(disk / "db", 3000, partitions=1)
    merge(source.layout, fs=Fs())
    fs = DirectFs(least=1)
    take_snapshot(fs, source.layout, [source.table], disk / "copy", time_ms=0)
    restore(fs, disk / "copy", Layout(disk / "restored"))
    restored = Layout(disk / "restored")
    assert history_bytes(restored) == history_bytes(source.layout)
    table = str(source.table)
    rows = [str(open_table(layout.root, table).to_arrow().to_pylist()) for layout in (restored, source.layout)]
    assert rows[0] == rows[1]


def test_large_writes_pass_the_cache_and_released_files_leave_it(disk: Path) -> None:
    fs, path, data = DirectFs(), disk / "file", os.urandom(2 * BUFFER)
    fs.write_at(path, 100, data)
    fs.sync([path])
    pages = path.stat().st_size // BLOCK
    written = cached_pages(path)
    assert fs.read(path)[100:] == data
    assert cached_pages(path) >= pages
    fs.release([path])
    assert max(written, cached_pages(path)) <= 4, "the two ends alone"


def test_a_file_system_without_direct_writes_is_written_through_the_cache(tmp_path: Path) -> None:
    memory = Path("/dev/shm")
    directory = memory if memory.is_dir() else tmp_path
    path = directory / f"direct-io-{os.getpid()}"
    try:
        DirectFs().write_at(path, 5, b"x" * LEAST)
        assert path.read_bytes() == b"\0" * 5 + b"x" * LEAST
    finally:
        path.unlink(missing_ok=True)
