"""Buffers over files: mapped when large, in memory when small or when the process may map no more."""

from __future__ import annotations

import errno
import gc
import mmap
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sparkhaven.store.errors import CorruptFileError
from sparkhaven.store.io.fs import MAP_FROM, Fs
from tests.support.processes import open_below


def write(path: Path, size: int) -> bytes:
    data = bytes(range(256)) * (size // 256 + 1)
    path.write_bytes(data[:size])
    return data[:size]


@pytest.mark.parametrize("size", [0, 1, 5000, MAP_FROM - 1, MAP_FROM, MAP_FROM + 5000])
def test_content_is_the_same_mapped_or_read(tmp_path: Path, size: int) -> None:
    data = write(tmp_path / "x", size + 10)
    assert Fs().map(tmp_path / "x", size).to_pybytes() == data[:size]
    assert Fs().map_range(tmp_path / "x", 7, size).to_pybytes() == data[7 : 7 + size]
    with pytest.raises(CorruptFileError, match="shorter than its committed length"):
        Fs().map(tmp_path / "x", size + 11)


def test_large_files_are_mapped_small_ones_read_and_neither_holds_a_descriptor(tmp_path: Path) -> None:
    write(tmp_path / "small", 4096)
    write(tmp_path / "large", MAP_FROM)
    gc.collect()
    before = pa.total_allocated_bytes()
    kept = [Fs().map(tmp_path / "small", 4096) for _ in range(50)]
    large = Fs().map(tmp_path / "large", MAP_FROM)
    assert open_below(tmp_path) == []
    assert pa.total_allocated_bytes() <= before  # what other tests held may still go
    assert large.address % mmap.PAGESIZE == 0 and len(kept) == 50


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENOMEM])
def test_without_room_for_a_mapping_the_file_is_read(
    tmp_path: Path, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = write(tmp_path / "large", MAP_FROM)

    def refuse(*args: Any, **kwargs: Any) -> mmap.mmap:
        raise OSError(number, "no more")

    monkeypatch.setattr(mmap, "mmap", refuse)
    assert Fs().map_range(tmp_path / "large", 0, MAP_FROM).to_pybytes() == data
    monkeypatch.setattr(pa, "memory_map", refuse)
    assert Fs().map(tmp_path / "large", MAP_FROM).to_pybytes() == data


def test_a_mapping_keeps_no_descriptor_and_outlives_its_file(tmp_path: Path) -> None:
    path = tmp_path / "large"
    data = bytes(range(256)) * 4096
    path.write_bytes(data)
    held = [Fs().map(path, len(data) - 1) for _ in range(50)]
    assert open_below(tmp_path) == []
    path.unlink()
    assert all(buffer.to_pybytes() == data[:-1] for buffer in held[:3])
    path.write_bytes(data)
    with pytest.raises(CorruptFileError) as caught:
        Fs().map(path, len(data) + 1)
    assert (caught.value.expected, caught.value.found) == (f"{len(data) + 1} bytes", f"{len(data)} bytes")
    with pytest.raises(FileNotFoundError):
        Fs().map(tmp_path / "nothing", len(data))
