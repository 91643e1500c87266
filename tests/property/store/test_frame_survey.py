"""A survey of frames reads a long one in pieces, and finds what a scan of all bytes does."""

from __future__ import annotations

import zlib
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparkhaven.store.framing import FRAME, HEADER, PIECE, frame, header, scan, survey
from sparkhaven.store.framing import LOG_MAGIC as MAGIC
from sparkhaven.store.native.checked_columns import FAST_FROM, crc32

SIZES = st.sampled_from([0, 1, 2, 9, PIECE - FRAME.size, PIECE - 1, PIECE, PIECE + 1, 2 * PIECE, 2 * PIECE + 7])


class Source:
    """Bytes in memory; ``longest`` is how many were read at once."""

    def __init__(self, data: bytes) -> None:
        self._data, self.size, self.longest = data, len(data), 0

    def read(self, offset: int, length: int) -> bytes:
        self.longest = max(self.longest, length)
        return self._data[offset : offset + length]


def _frames(sizes: list[int]) -> bytes:
    return header(MAGIC, 0) + b"".join(frame((b'{"' + bytes(size))[:size]) for size in sizes)


@pytest.mark.parametrize("crc32", [zlib.crc32, crc32], ids=["zlib", "core"])
@settings(max_examples=60)
@given(sizes=st.lists(SIZES, max_size=4), damaged=st.floats(0, 1, allow_nan=False), cut=st.booleans())
def test_a_survey_finds_what_a_scan_of_all_bytes_finds(
    crc32: Callable[[bytes | memoryview, int], int], sizes: list[int], damaged: float, cut: bool
) -> None:
    whole = _frames(sizes)
    offset = HEADER.size + int(damaged * (len(whole) - HEADER.size))
    changed = whole[offset : offset + 1] and bytes([whole[offset] ^ 1])
    for data in (whole, whole[:offset] if cut else whole[:offset] + changed + whole[offset + 1 :]):
        found, expected = survey(Source(data), crc32=crc32), scan(data)
        assert (found.end, found.rest) == (expected.end, expected.rest)
        assert [(part.offset, part.end) for part in found.beyond] == [(p.offset, p.end) for p in expected.beyond]
        last = expected.frames[-1].offset if expected.frames else None
        mark = (HEADER.size, b"") if last is None else (last, data[last : last + FRAME.size])
        assert found.last == mark


def test_a_survey_holds_a_piece_of_a_long_frame() -> None:
    source = Source(_frames([3 * PIECE + 5, 9]))
    assert survey(source).rest == 0
    assert source.longest == PIECE


@given(st.integers(0, 3 * FAST_FROM), st.integers(0, 3 * FAST_FROM))
def test_a_running_checksum_is_that_of_zlib(size: int, before: int) -> None:
    data = bytes(range(256)) * (size // 256 + 1)
    first = zlib.crc32(data[:before])
    assert crc32(memoryview(data)[:size], first) == zlib.crc32(data[:size], first)
    assert crc32(data[:size], first) == zlib.crc32(data[:size], first)
