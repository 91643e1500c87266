"""Packed bytes: bounded in memory and in time, whatever they hold."""

from __future__ import annotations

import bz2
import gzip
import lzma
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from sparkhaven.ingest.content.packing import (
    ENOUGH,
    MAGIC_BYTES,
    PACKINGS,
    CutPackingError,
    DamagedPackingError,
    LongWindowError,
    Packing,
    packing_of,
    unpacked,
    unread_packing,
)
from sparkhaven.ingest.content.raw_file import PlannedFile
from sparkhaven.store.epochs.state.log_values import FileId
from sparkhaven.store.errors import FeedError
from sparkhaven.store.io.fs import Fs

PACK: dict[str, Callable[[bytes], bytes]] = {
    "gzip": lambda data: gzip.compress(data, 9),
    "zstd": lambda data: zstandard.compress(data, 19),
    "xz": lzma.compress,
    "bzip2": bz2.compress,
}
BY_NAME = {packing.name: packing for packing in PACKINGS}


class Counting:
    """A decoder that counts the bytes it is given."""

    fed = 0

    def __init__(self, packing: Packing) -> None:
        self._decoder = packing.start()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._decoder, name)

    def decompress(self, some: bytes, *most: int) -> bytes:
        """Bytes made of some."""
        Counting.fed += len(some)
        made: bytes = self._decoder.decompress(some, *most)
        return made


def pieces(data: bytes, size: int) -> Iterator[bytes]:
    """The data in pieces."""
    return (data[at : at + size] for at in range(0, len(data), size))


@pytest.mark.slow
@pytest.mark.parametrize("name", PACK)
@settings(max_examples=30, deadline=None)
@given(members=st.lists(st.binary(max_size=3000)), size=st.integers(1, 5000), pad=st.integers(0, 3))
def test_members_of_any_size(name: str, members: list[bytes], size: int, pad: int) -> None:
    packing = BY_NAME[name]
    packed = b"".join(PACK[name](member) + packing.padding * 4 * pad for member in members)
    assert b"".join(unpacked(pieces(packed, size), packing)) == b"".join(members)


@pytest.mark.parametrize("name", PACK)
@pytest.mark.parametrize("content", [b"", b"x"])
def test_many_small_members_are_looked_at_in_one_pass(
    monkeypatch: pytest.MonkeyPatch, name: str, content: bytes
) -> None:
    monkeypatch.setattr(Counting, "fed", 0)
    packing = replace(BY_NAME[name], start=lambda: Counting(BY_NAME[name]))
    one = PACK[name](content)
    packed = one * 3000
    assert b"".join(unpacked(pieces(packed, 1 << 18), packing)) == content * 3000
    assert Counting.fed <= 3000 * (1024 + len(one))  # not 3000 times the piece


@pytest.mark.slow
@pytest.mark.parametrize("name", PACK)
def test_what_is_made_at_a_time_is_bounded(name: str) -> None:
    packed = PACK[name](b"\0" * (60 << 20))
    assert len(packed) < 1 << 18
    sizes = [len(made) for made in unpacked(pieces(packed, 1 << 18), BY_NAME[name])]
    assert sum(sizes) == 60 << 20
    assert max(sizes) <= (ENOUGH if name != "zstd" else 32 * ENOUGH)


@pytest.mark.parametrize("name", PACK)
def test_every_cut_is_noticed(name: str) -> None:
    packed = PACK[name](b"some text, " * 20)
    for size in range(1, len(packed)):
        with pytest.raises(CutPackingError):
            list(unpacked(pieces(packed[:size], 7), BY_NAME[name]))
    with pytest.raises(DamagedPackingError) as caught:
        list(unpacked(pieces(packed + b"more" * 10, 7), BY_NAME[name]))
    assert len(packed) - 8 <= caught.value.offset <= len(packed) + 40


@pytest.mark.slow
def test_a_dictionary_that_is_too_large_is_an_error() -> None:
    filters = [{"id": lzma.FILTER_LZMA2, "dict_size": 300 << 20}]
    header = lzma.compress(b"x" * 100, filters=filters)
    with pytest.raises(LongWindowError, match="limit"):
        list(unpacked([header], BY_NAME["xz"]))


SKIPPED = b"\x53\x2a\x4d\x18" + (5).to_bytes(4, "little") + b"hello"  # a frame of zstd that a reader skips


def put(path: Path, data: bytes) -> FileId:
    path.write_bytes(data)
    stat = path.stat()
    return FileId(str(path), stat.st_size, stat.st_mtime_ns)


@pytest.mark.parametrize("size", [1, 7, 1 << 18])
def test_frames_that_are_skipped_come_anywhere(size: int) -> None:
    packed = zstandard.compress(b"some ") + SKIPPED + zstandard.compress(b"text") + SKIPPED
    assert b"".join(unpacked(pieces(SKIPPED + packed, size), BY_NAME["zstd"])) == b"some text"
    assert packing_of((SKIPPED + packed)[:MAGIC_BYTES]) is BY_NAME["zstd"]


@pytest.mark.parametrize("name", ["a.json", "a"])
def test_the_first_bytes_tell_the_packing(tmp_path: Path, name: str) -> None:
    for pack in (*PACK.values(), lambda data: SKIPPED + zstandard.compress(data)):
        assert b"".join(PlannedFile(Fs(), put(tmp_path / name, pack(b"{}\n"))).chunks()) == b"{}\n"
    assert (
        b"".join(PlannedFile(Fs(), put(tmp_path / "a.zst", SKIPPED + zstandard.compress(b"{}\n"))).chunks()) == b"{}\n"
    )


def long_frame(window_log: int) -> bytes:
    """A frame of unknown size that needs a window of so many bits."""
    parameters = zstandard.ZstdCompressionParameters(window_log=window_log, enable_ldm=True)
    packer = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    return packer.compress(b"some text") + packer.flush()


def test_long_windows_are_named_as_such(tmp_path: Path) -> None:
    assert b"".join(PlannedFile(Fs(), put(tmp_path / "27.zst", long_frame(27))).chunks()) == b"some text"
    for window_log in (28, 31):
        with pytest.raises(FeedError, match="window of a feed file is larger") as caught:
            list(PlannedFile(Fs(), put(tmp_path / f"{window_log}.zst", SKIPPED + long_frame(window_log))).chunks())
        assert "--long=27" in str(caught.value.expected)


UNREAD = {
    "a.json.zip": (b"PK\x03\x04\x14\0\0\0\x08\0", "zip"),
    "a.json": (b"PK\x03\x04\x14\0\0\0\x08\0", "zip"),
    "b.json": (b"\x04\x22\x4d\x18\x64\x40\xa7", "lz4"),
    "a.lz4": (SKIPPED, "lz4"),
    "c.json": (b"\xff\x06\0\0sNaPpY", "snappy"),
    "a.json.snappy": (b'\x0a\x04{"a":1}', "snappy"),
    "a.json.br": (b"\x8b\x02\x80{}", "brotli"),
    "a.7z": (b"7z\xbc\xaf\x27\x1c\0\x04", "7z"),
    "a.json.Z": (b"\x1f\x9d\x90", "compress"),
    "a.tar": (b"one.json\0\0", "tar"),
    "a.tar.gz": (gzip.compress(b"one.json"), "tar"),
    "a.tgz": (gzip.compress(b"one.json"), "tar"),
}


@pytest.mark.parametrize("name", UNREAD)
def test_other_packings_are_refused_by_name(tmp_path: Path, name: str) -> None:
    data, kind = UNREAD[name]
    with pytest.raises(FeedError, match="unknown packing") as caught:
        list(PlannedFile(Fs(), put(tmp_path / name, data)).chunks())
    assert caught.value.found == kind and "unpack it, or pack it with one of these" in str(caught.value.hint)


@pytest.mark.parametrize("name", ["a.zip", "a.lz4", "a.br", "a.snappy", "BZh", "PK"])
def test_plain_text_is_read_whatever_its_name(tmp_path: Path, name: str) -> None:
    for text in (b'{"a":1}\n', b"BZh91,x\n", b"PK,x\n", b"LZIP,x\n", b"7z,Rar!\n"):
        assert unread_packing(name, text[:MAGIC_BYTES]) is None
        assert b"".join(PlannedFile(Fs(), put(tmp_path / name, text)).chunks()) == text
