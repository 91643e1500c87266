"""Compressed batches: each codec gives back what was packed, in any order of batches, and nobody's size is believed."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from contextlib import suppress
from random import Random

import numpy as np
import pyarrow as pa
import pytest
from kafka.errors import CorruptRecordError

from sparkhaven.ingest.feeds.kafka.broker.batches import (
    UNPACKED,
    CompressionError,
    Piece,
    pieces,
    unpacked,
    whole_batches,
)
from tests.support.kafka.record_batches import Rec, batch, xerial


def packer(name: str) -> Callable[[bytes], bytes]:
    return lambda octets: pa.compress(octets, name, asbytes=True)


PACKERS: dict[str, tuple[int, Callable[[bytes], bytes]]] = {
    "none": (0, bytes),
    "gzip": (1, gzip.compress),
    "snappy": (2, packer("snappy")),
    "xerial": (2, lambda octets: xerial(octets, packer("snappy"))),
    "lz4": (3, packer("lz4")),
    "zstd": (4, packer("zstd")),
}
PACKED = [name for name in PACKERS if name != "none"]
MEGABYTE = 1 << 20


@pytest.mark.parametrize("name", PACKED)
@pytest.mark.parametrize("octets", [b"", b"x", b"abc" * 50_000, Random(1).randbytes(3 * MEGABYTE)])
def test_what_was_packed_comes_back(name: str, octets: bytes) -> None:
    codec, pack = PACKERS[name]
    assert unpacked(codec, memoryview(pack(octets))) == octets
    assert unpacked(codec, memoryview(pack(octets)), len(octets)) == octets


@pytest.mark.parametrize("name", PACKED)
def test_more_than_is_allowed_is_not_unpacked(name: str) -> None:
    codec, pack = PACKERS[name]
    with pytest.raises(CompressionError, match=r"more than 1,000 bytes|more than \d+ bytes"):
        unpacked(codec, memoryview(pack(bytes(1001))), 1000)
    with pytest.raises(CompressionError):
        unpacked(codec, memoryview(pack(bytes(64 * MEGABYTE))), 1000)


@pytest.mark.parametrize("name", PACKED)
def test_damaged_bytes_are_refused_or_give_something_but_nothing_else_happens(name: str) -> None:
    codec, pack = PACKERS[name]
    text = b"some text, and again some text" * 20
    chance, whole = Random(name), pack(text)
    for cut in range(1, len(whole)):
        try:
            part = unpacked(codec, memoryview(whole[:cut]), MEGABYTE)
        except CompressionError:
            continue
        assert name == "xerial" and part == text[: len(part)], "a block less, which the records show"
    for _ in range(2000):
        octets = bytearray(whole)
        for _ in range(chance.randrange(1, 4)):
            octets[chance.randrange(len(octets))] = chance.randrange(256)
        with suppress(CompressionError):
            assert len(unpacked(codec, memoryview(bytes(octets)), MEGABYTE)) <= MEGABYTE


def test_a_codec_of_later_clients() -> None:
    with pytest.raises(CompressionError, match="compression 5"):
        unpacked(5, memoryview(b""))


def read(octets: bytes, start: int = 0, at_once: int = UNPACKED) -> tuple[list[Piece], list[tuple[int, bytes]]]:
    """The pieces of an answer, and its messages."""
    data = np.frombuffer(octets, np.uint8)
    batches = whole_batches(data, checked=True)
    found = list(pieces(data, batches, start, 1000, at_once=at_once))
    rows = []
    for piece in found:
        records = piece.records
        for offset, begin, length in zip(records.offsets, records.value_starts, records.values, strict=True):
            rows.append((int(offset), piece.octets[begin : begin + length].tobytes()))
    return found, rows


def packed(first: int, name: str, count: int = 5, **more: object) -> bytes:
    codec, pack = PACKERS[name]
    records = [Rec(n, b"%d" % (first + n)) for n in range(count)]
    return batch(first, records, attributes=codec, packed=pack, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("most", [1, UNPACKED])
def test_batches_of_all_codecs_in_one_answer(most: int) -> None:
    names = ["none", "none", *PACKERS, "zstd", "lz4", "none", "gzip"]
    octets = b"".join(packed(10 * n, name) for n, name in enumerate(names))
    found, rows = read(octets, start=3, at_once=most)
    assert rows == [(10 * n + k, b"%d" % (10 * n + k)) for n in range(len(names)) for k in range(5)][3:]
    assert [piece.stop for piece in found] == sorted({piece.stop for piece in found}) and found[-1].stop == 1000
    assert len(found) == (10 if most == 1 else 4)
    assert all(len(piece.records) == 0 or piece.records.offsets[-1] < piece.stop for piece in found)


def test_batches_that_are_damaged_come_behind_those_that_are_not() -> None:
    good = packed(0, "zstd")
    for bad, words in (
        (batch(10, [Rec(0, b"x")], attributes=4, packed=lambda octets: b"not zstd"), "cannot be unpacked"),
        (batch(10, [Rec(0, b"x")], attributes=4, count=90, packed=PACKERS["zstd"][1]), "90 records in"),
        (batch(10, [Rec(0, b"x")], attributes=4, count=0, packed=PACKERS["zstd"][1]), "not as their batch says"),
        (batch(10, [Rec(1, b"x"), Rec(0, b"y")], attributes=4, packed=PACKERS["zstd"][1]), "not as their batch says"),
        (batch(10, [Rec(1, b"x"), Rec(0, b"y")]), "not as their batch says"),
    ):
        data = np.frombuffer(good + bad, np.uint8)
        reading = pieces(data, whole_batches(data, checked=True), 0, 1000)
        first = next(reading)
        assert first.records.offsets.tolist()[:5] == [0, 1, 2, 3, 4]
        with pytest.raises(CorruptRecordError, match=words):
            list(reading)
