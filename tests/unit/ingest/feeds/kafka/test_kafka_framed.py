"""Messages that a reader has fetched are decoded as those made of their parts, whichever of them are wanted."""

from __future__ import annotations

from dataclasses import astuple, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparkhaven.ingest.bad_rows import Rejects
from sparkhaven.ingest.feeds.kafka.blocks import MS, FramedMessages, far_times
from sparkhaven.ingest.feeds.kafka.messages import MessageDecoder
from sparkhaven.ingest.feeds.kafka.options import KafkaOptions
from sparkhaven.ingest.spec import (
    BadRowBudget,
    ColumnSpec,
    InternalRule,
    PartitionSpec,
    StreamSpec,
    ValueRule,
)
from sparkhaven.ingest.targets import resolve_targets
from tests.support.ingest.ingest_cases import schema
from tests.support.ingest.messages import PLACE, Fake, block_of
from tests.support.kafka.laid_out import framed

LAST_MS = (2**63 - 1) // MS
VALUES = st.none() | st.sampled_from(
    [b"", b"\n", b'{"v": 1}', b'{"v":\n2}', b'{"v": "x"}', b"7,\xc3\xa9", b"7", b'"a\nb"', b"\xe9"]
)
KEYS = st.none() | st.sampled_from([b"", b"k", b"\xff", b'{"id": 5}', b"two\nlines"])
TIMES = st.sampled_from([-1, 0, 1, 1_795_255_200_000])
BATCHES = st.lists(st.tuples(VALUES, KEYS, TIMES), max_size=12)

COLUMNS = {
    "json": (schema(v="int", k="String", t="Instant", o="long"), (ColumnSpec("k", meta="key"),)),
    "csv": (schema(v="String", k="long", t="Instant", o="long"), (ColumnSpec("k", of="key", source="id"),)),
    "raw": (schema(v="String", k="String", t="Instant", o="long"), (ColumnSpec("k", meta="key"),)),
}


def decoded(block: FramedMessages, format: str, **options: Any) -> tuple[object, ...]:
    table, specs = COLUMNS[format]
    feed = KafkaOptions("h", ("ticks",), format=format, key_format="json", **options)  # type: ignore[arg-type]
    all_specs = (*specs, ColumnSpec("t", meta="timestamp"), ColumnSpec("o", meta="offset"))
    part = PartitionSpec(InternalRule("meta", "partition"), ValueRule(fixed="2026-11-21"))
    spec = StreamSpec("s", "Test.Rows", feed, part, all_specs, bad_rows=BadRowBudget(1000, 1.0))
    if format == "csv":
        spec = replace(spec, feed=replace(feed, csv=replace(feed.csv, header=False, names=("v",))))
    handed: list[Any] = []
    rejects = Rejects(spec.bad_rows, sink=handed.extend)
    rows = MessageDecoder(resolve_targets(spec, table), spec).decode(block, PLACE, 77, rejects)
    rejects.flush()
    return (
        rows.numbers.tolist(),
        [column.to_pylist() for column in rows.columns],
        list(map(astuple, handed)),
        rejects.read,
        dict(rejects.others),
        dict(rejects.ignored),
    )


@pytest.mark.parametrize("tombstones", ["row", "ignore"])
@pytest.mark.parametrize("format", list(COLUMNS))
@settings(deadline=None)
@given(parts=BATCHES, encoding=st.sampled_from(["utf-8", "latin-1"]))
def test_both_ways_decode_the_same(
    parts: list[tuple[bytes | None, bytes | None, int]], encoding: str, format: str, tombstones: str
) -> None:
    messages = [Fake(5 * n, value, key, at, kind=n % 3) for n, (value, key, at) in enumerate(parts)]
    options = {"tombstones": tombstones, "encoding": encoding}
    one, other = block_of(messages), framed(messages)
    assert decoded(one, format, **options) == decoded(other, format, **options)


@settings(deadline=None)
@given(BATCHES, st.lists(st.integers(0, 2**12 - 1), max_size=3))
def test_some_of_them_are_the_same_messages(
    parts: list[tuple[bytes | None, bytes | None, int]], choices: list[int]
) -> None:
    named = [[("h", key), ("h", value)] if n % 2 else [("i", key)] for n, (value, key, _) in enumerate(parts)]
    messages = [
        Fake(5 * n, value, key, at, kind=n % 3, named=headers)
        for n, ((value, key, at), headers) in enumerate(zip(parts, named, strict=True))
    ]
    one, other = block_of(messages, ["h", "none"]), framed(messages, ["h", "none"])
    for bits in choices:
        wanted = np.array([bits >> n & 1 for n in range(len(one.offsets))], np.bool_)
        one, other = one.where(wanted), other.where(wanted)
    assert one.offsets.tolist() == other.offsets.tolist()
    assert one.valued().tolist() == other.valued().tolist()
    assert [max(at, -1) for at in one.times.tolist()] == [max(at, -1) for at in other.times.tolist()]
    for offset in one.offsets.tolist():
        a, b = one.at(offset), other.at(offset)
        assert (replace(a, time_ms=0), a.time_ns) == (replace(b, time_ms=0), b.time_ns)
        assert (a.value or b"") == one.value_at(offset) == other.value_at(offset)
    for of in ("value", "key", "header:h", "header:none"):
        for encoding in ("utf-8", "latin-1", "utf-16le"):
            a_found, b_found = one.payloads(of, encoding), other.payloads(of, encoding)  # type: ignore[arg-type]
            a_block, b_block = a_found.block, b_found.block
            assert (a_found.there is None) == (b_found.there is None)
            assert a_found.there is None or a_found.there.tolist() == b_found.there.tolist()  # type: ignore[union-attr]
            assert (a_block.data, a_block.ends.tolist(), a_block.numbers.tolist(), a_block.framed) == (
                b_block.data,
                b_block.ends.tolist(),
                b_block.numbers.tolist(),
                b_block.framed,
            )


def test_a_time_beyond_what_an_instant_holds_is_known_both_ways() -> None:
    messages = [Fake(0, b"a", None, 2**62), Fake(1, b"a", None, LAST_MS), Fake(2, b"a", None, LAST_MS + 1)]
    for block in (block_of(messages), framed(messages)):
        assert far_times(block.times).tolist() == [0, 2]
        assert [block.at(n).time_ns for n in range(3)] == [2**63 - 1, LAST_MS * 10**6, 2**63 - 1]
