"""Packed bytes: bounded in memory and in time, whatever they hold."""

from __future__ import annotations

import gzip
import lzma
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.content.packing import ENOUGH, PACKINGS, CutPackingError, DamagedPackingError, Packing, unpacked

PACK: dict[str, Callable[[bytes], bytes]] = {
    "gzip": lambda data: gzip.compress(data, 9),
    "zstd": lambda data: zstandard.compress(data, 19),
    "xz": lzma.compress,
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
    assert len(packed) - 8 <= caught.value.at <= len(packed) + 40


@pytest.mark.slow
def test_a_dictionary_that_is_too_large_is_an_error() -> None:
    filters = [{"id": lzma.FILTER_LZMA2, "dict_size": 300 << 20}]
    header = lzma.compress(b"x" * 100, filters=filters)
    with pytest.raises(DamagedPackingError, match="limit"):
        list(unpacked([header], BY_NAME["xz"]))
