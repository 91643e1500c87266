"""Record batches by the compiled core and byte by byte: the same records of sound ones, the same refusal of others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import astuple
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatchBuilder

from sparkhaven.store.native.abi import BATCH_END_CUT, BATCH_END_DAMAGED, BATCH_END_MAGIC, BATCH_FIRST, BATCH_LAST
from sparkhaven.store.native.record_batches import (
    DamagedBatchError,
    Longs,
    Octets,
    Records,
    find_batches,
    find_headers,
    find_records,
    framed,
    sound_batches,
)
from tests.oracles.kafka import plain_find_batches, plain_find_headers, plain_find_records, plain_sound_batches
from tests.support.guard_pages import guarded
from tests.support.kafka.record_batches import BY_BROKER, Rec, batch, crc_castagnoli

PAYLOADS = st.none() | st.sampled_from([b"", b"\n", b"x" * 200]) | st.binary(max_size=20)
TIMES = st.sampled_from([0, -1, 1, -(2**63), 2**63 - 1, 70, 1_795_255_200_000])
HEADERS = st.sampled_from([(), (("a", b"1"),), (("b", None), ("", b"")), (("a", b"1"), ("aa", b"2"), ("a", b"33"))])
RECORDS = st.lists(st.tuples(st.integers(1, 9), PAYLOADS, PAYLOADS, TIMES, HEADERS), max_size=12)
BATCHES = st.lists(
    st.tuples(RECORDS, st.sampled_from([0, BY_BROKER]), st.integers(0, 3), TIMES, st.integers(0, 200)), max_size=5
)


Part = tuple[
    list[tuple[int, bytes | None, bytes | None, int, tuple[tuple[str, bytes | None], ...]]], int, int, int, int
]
Row = tuple[int, int, bytes | None, bytes | None]


def encoded(parts: list[Part]) -> tuple[bytes, list[Row]]:
    """The bytes of batches, and what their records are."""
    octets, first = b"", 7
    rows: list[Row] = []
    for records, attributes, left_out, time_ms, hole in parts:
        first += hole
        recs, behind = [], -1
        for step, value, key, later, headers in records:
            behind += step
            recs.append(Rec(behind, value, key, later, headers))
            total = (time_ms + later + 2**63) % 2**64 - 2**63
            rows.append((first + behind, max(-1, 99 if attributes else total), value, key))
        last = first + max(behind, 0) + left_out
        octets += batch(first, recs, attributes=attributes, last=last, time_ms=time_ms, max_time_ms=99)
        first = last + 1
    return octets, rows


def listed(octets: Octets, records: Records) -> list[Row]:
    def payloads(starts: Longs, lengths: Longs) -> Iterator[bytes | None]:
        for start, length in zip(starts.tolist(), lengths.tolist(), strict=True):
            yield None if length < 0 else octets[start : start + length].tobytes()

    values, keys = payloads(records.value_starts, records.values), payloads(records.key_starts, records.keys)
    return list(zip(records.offsets.tolist(), records.times.tolist(), values, keys, strict=True))


@contextmanager
def before_a_page(octets: bytes) -> Iterator[Octets]:
    with guarded(np.frombuffer(octets, np.uint8)) as held:
        yield held


@settings(deadline=None)
@given(BATCHES, st.integers(0, 200), st.binary(max_size=70))
def test_records_are_those_that_were_written(parts: list[Part], start: int, cut: bytes) -> None:
    octets, rows = encoded(parts)
    with before_a_page(octets + batch(10**6, [Rec(0, b"cut short")])[: len(cut)]) as data:
        batches, end = find_batches(data)
        assert end == BATCH_END_CUT and len(batches) == len(parts)
        assert sound_batches(data, batches) == plain_sound_batches(data, batches) == len(parts)
        records = find_records(data, batches, start)
        assert listed(data, records) == [row for row in rows if row[0] >= start]
        plain = plain_find_records(data, batches, start)
        assert [one.tolist() for one in astuple(records)] == [one.tolist() for one in astuple(plain)]
        for values in (True, False):
            starts, lengths = (records.value_starts, records.values) if values else (records.key_starts, records.keys)
            middle = len(lengths) // 2
            cuts = [(data, starts[:middle], lengths[:middle]), (data, starts[middle:], lengths[middle:])]
            payloads = [row[2] if values else row[3] for row in rows if row[0] >= start]
            there = [payload for payload in payloads if payload is not None]
            text, ends = framed(cuts)
            assert text == b"".join(payload + b"\n" for payload in there)
            assert ends.tolist() == np.cumsum([0, *(len(payload) + 1 for payload in there)]).tolist()
        given = [headers for part in parts for *_, headers in part[0]][len(rows) - len(records) :]
        for name in (b"a", b"b", b"", b"c"):
            places, lengths = find_headers(data, records, name)
            plain_places, plain_lengths = plain_find_headers(data, header_starts(records), name)
            assert (places.tolist(), lengths.tolist()) == (plain_places.tolist(), plain_lengths.tolist())
            last = [dict(headers).get(name.decode()) for headers in given]
            assert last == [
                None if length < 0 else data[start : start + length].tobytes()
                for start, length in zip(places.tolist(), lengths.tolist(), strict=True)
            ]


def header_starts(records: Records) -> Longs:
    return records.value_starts + np.maximum(records.values, 0)


def outcome(find: Callable[[Octets], object], data: Octets) -> object:
    try:
        return find(data)
    except DamagedBatchError as error:
        return error.batch


@settings(deadline=None, max_examples=400)
@given(BATCHES, st.integers(0, 2**32))
def test_damaged_bytes_are_refused_alike_and_nothing_beside_them_is_read(parts: list[Part], seed: int) -> None:
    chance, octets = Random(seed), bytearray(encoded(parts)[0])
    for _ in range(chance.randrange(4)):
        if octets:
            octets[chance.randrange(len(octets))] = chance.choice([0, 1, 2, 0x7F, 0x80, 0xFF, chance.randrange(256)])
    if chance.random() < 0.2:
        del octets[chance.randrange(len(octets) + 1) :]
    with before_a_page(bytes(octets)) as data:
        one, other = find_batches(data), plain_find_batches(data)
        assert one[0].tolist() == other[0].tolist() and one[1] == other[1]
        batches = one[0]
        assert sound_batches(data, batches) == plain_sound_batches(data, batches)

        def found(find: Callable[..., Records]) -> object:
            records = outcome(lambda held: find(held, batches, 9), data)
            return [one.tolist() for one in astuple(records)] if isinstance(records, Records) else records

        assert found(find_records) == found(plain_find_records)
        starts = np.sort(np.array([chance.randrange(len(data) + 1) for _ in range(5)], np.int64))
        nothing = np.zeros(5, np.int64)
        anywhere = Records(nothing, nothing, starts, nothing, nothing, nothing)
        one_way = outcome(lambda held: [each.tolist() for each in find_headers(held, anywhere, b"a")], data)
        assert one_way == outcome(lambda held: [each.tolist() for each in plain_find_headers(held, starts, b"a")], data)


def test_what_is_behind_the_last_batch() -> None:
    def end(octets: bytes) -> tuple[int, int]:
        data = np.frombuffer(octets, np.uint8)
        batches, stopped = find_batches(data)
        assert (len(batches), stopped) == (len(plain_find_batches(data)[0]), plain_find_batches(data)[1])
        return len(batches), stopped

    one, two = batch(5, [Rec(0, b"a")]), batch(6, [Rec(0, b"b")])
    assert end(b"") == (0, BATCH_END_CUT) and end(one) == (1, BATCH_END_CUT) and end(one + two) == (2, BATCH_END_CUT)
    assert end(one + two[:-1]) == end(one + two[:16]) == (1, BATCH_END_CUT)
    assert end(two + one) == (1, BATCH_END_DAMAGED), "offsets have to rise"
    old = bytearray(two)
    old[16] = 1
    assert end(one + bytes(old)) == end(one + bytes(old)[:17]) == (1, BATCH_END_MAGIC)
    small = bytearray(two)
    small[8:12] = (48).to_bytes(4, "big")
    assert end(bytes(small)) == (0, BATCH_END_DAMAGED)
    many = b"".join(batch(n, [Rec(0, None)]) for n in range(3000))
    assert end(many) == (3000, BATCH_END_CUT)
    found = find_batches(np.frombuffer(many, np.uint8))[0]
    assert found[:, BATCH_FIRST].tolist() == found[:, BATCH_LAST].tolist() == list(range(3000))


@pytest.mark.parametrize(
    "records",
    [
        [Rec(1, b"a"), Rec(1, b"b")],
        [Rec(2, b"a"), Rec(1, b"b")],
        [Rec(-1, b"a")],
        [Rec(7, b"a")],
    ],
)
def test_offsets_that_cannot_be(records: list[Rec]) -> None:
    data = np.frombuffer(batch(5, [Rec(0, b"good")]) + batch(6, records, last=10), np.uint8)
    batches, _ = find_batches(data)
    assert len(batches) == 2
    for find in (find_records, plain_find_records):
        with pytest.raises(DamagedBatchError) as caught:
            find(data, batches, 0)
        assert caught.value.batch == 1


def test_counts_that_are_not_those_of_the_records() -> None:
    for count in (1, 3):
        data = np.frombuffer(batch(5, [Rec(0, b"a" * 20), Rec(1, b"b")], last=9, count=count), np.uint8)
        batches, _ = find_batches(data)
        for find in (find_records, plain_find_records):
            with pytest.raises(DamagedBatchError):
                find(data, batches, 0)
    data = np.frombuffer(batch(5, [Rec(0, b"a")], last=9, count=2**31 - 1), np.uint8)
    assert find_batches(data)[1] == plain_find_batches(data)[1] == BATCH_END_DAMAGED


def test_a_checksum_that_does_not_hold() -> None:
    octets = bytearray(batch(5, [Rec(0, b"a")]) + batch(6, [Rec(0, b"x" * 500)]))
    octets[-1] ^= 1
    data = np.frombuffer(bytes(octets), np.uint8)
    batches, _ = find_batches(data)
    assert sound_batches(data, batches) == plain_sound_batches(data, batches) == 1


def test_checksums_of_any_length() -> None:
    """By lanes of the processor, and by tables."""
    for size in [*range(300), 1000, 4095, 65_537]:
        data = np.frombuffer(batch(5, [Rec(0, Random(size).randbytes(size))]), np.uint8)
        assert sound_batches(data, find_batches(data)[0]) == 1, size
    assert crc_castagnoli(b"123456789") == 0xE3069283


def test_batches_of_another_client() -> None:
    builder = DefaultRecordBatchBuilder(
        magic=2, compression_type=0, is_transactional=0, producer_id=-1, producer_epoch=-1, base_sequence=-1,
        batch_size=1 << 20,
    )  # fmt: skip
    rows = [(n, 1_795_255_200_000 + 3 * n, None if n % 5 == 0 else b"v" * (n * 7), b"k%d" % n) for n in range(100)]
    for offset, time_ms, value, key in rows:
        assert builder.append(offset, timestamp=time_ms, key=key, value=value, headers=[("h", b"x")]) is not None
    data = np.frombuffer(bytes(builder.build()), np.uint8)
    batches, end = find_batches(data)
    assert end == BATCH_END_CUT and sound_batches(data, batches) == 1
    assert listed(data, find_records(data, batches, 0)) == rows
