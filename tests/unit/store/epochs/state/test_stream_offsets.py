"""Rules of resuming a source with offsets: every case of the table, and what a batch must hold to be committed."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparkhaven.store.epochs.state.log_values import LastMessage, OffsetRange
from sparkhaven.store.epochs.state.offsets import OffsetEnd, Offsets, decode_offsets, encode_offsets
from sparkhaven.store.errors import PositionGapError

END = OffsetEnd(100, "id-1", 60, "aa")
LAST = LastMessage(119, 3, 1_795_255_200_000, 0xFF)


def kept() -> Offsets:
    return Offsets({("trades", 0): END})


def ranged(start: int, stop: int, partition: int = 0, topic_id: str = "id-1", digest: str = "") -> OffsetRange:
    return OffsetRange("trades", partition, start, stop, topic_id, digest)


def test_r1_a_range_that_goes_on_is_fresh_also_in_pieces_and_in_any_order() -> None:
    pieces = [ranged(140, 150), ranged(100, 120), ranged(120, 140)]
    resolution = kept().classify(pieces)
    assert (resolution.fresh, resolution.taken, resolution.cut, resolution.instead) == (tuple(pieces), (), (), {})


@pytest.mark.parametrize("digest", ["aa", ""])
def test_r2_the_last_range_again_is_a_no_op(digest: str) -> None:
    again = ranged(60, 100, digest=digest)
    resolution = kept().classify([again])
    assert (resolution.fresh, resolution.taken, resolution.instead) == ((), (again,), {again: None})


def test_r3_the_last_range_with_other_content_is_loud() -> None:
    with pytest.raises(PositionGapError, match="not repeatable") as caught:
        kept().classify([ranged(60, 100, digest="bb")])
    assert (caught.value.expected, caught.value.found) == ("digest aa", "digest bb")


def test_r4_an_overlap_is_cut_to_what_is_not_committed() -> None:
    proposed, further = ranged(60, 130, digest="cc"), ranged(130, 140)
    resolution = kept().classify([proposed, further])
    rest = ranged(100, 130)  # the digest was of all of it
    assert (resolution.fresh, resolution.cut) == ((rest, further), ((proposed, rest),))
    assert resolution.instead == {proposed: rest}


def test_r5_a_range_wholly_below_is_a_no_op_beside_fresh_ones() -> None:
    below, other = ranged(10, 90, digest="zz"), ranged(7, 9, partition=1)
    resolution = kept().classify([below, other])
    assert (resolution.fresh, resolution.taken) == ((other,), (below,))


def test_r6_a_gap_is_refused_unless_exactly_it_is_permitted() -> None:
    ahead, gap = ranged(130, 140), ranged(100, 130)
    with pytest.raises(PositionGapError, match="does not continue") as caught:
        kept().classify([ahead])
    assert (caught.value.where, caught.value.expected, caught.value.found) == (
        "trades/0 [130, 140)",
        "offset 100",
        "offset 130",
    )
    assert kept().classify([ahead], [gap]).fresh == (ahead,)
    for other in (ranged(100, 129), ranged(99, 130), ranged(100, 130, partition=1), ranged(100, 130, topic_id="id-2")):
        with pytest.raises(PositionGapError):
            kept().classify([ahead], [other])
    with pytest.raises(PositionGapError, match="gap does not match a range"):
        kept().classify([ranged(100, 110)], [gap])


def test_r6_holds_inside_a_batch_too() -> None:
    pieces = [ranged(100, 110), ranged(111, 120)]
    with pytest.raises(PositionGapError, match="does not continue"):
        kept().classify(pieces)
    assert kept().classify(pieces, kept().jumps(pieces)).fresh == tuple(pieces)


def test_r9_an_unseen_partition_is_taken_from_where_it_starts() -> None:
    first = ranged(70, 80, partition=3)
    assert kept().classify([first]).fresh == (first,)
    with pytest.raises(PositionGapError, match="does not continue"):
        kept().classify([first, ranged(90, 95, partition=3)])


def test_a_recreated_topic_is_reported_as_that_whatever_its_offsets() -> None:
    for start, stop in ((0, 5), (60, 100), (100, 110), (500, 510)):
        with pytest.raises(PositionGapError, match="topic recreated") as caught:
            kept().classify([ranged(start, stop, topic_id="id-2")])
        assert "id-1" in str(caught.value.expected)
        assert caught.value.found == "topic id id-2"
    assert kept().classify([ranged(100, 110, topic_id="")]).fresh  # a source that knows no ids


def test_a_topic_made_again_is_gone_on_with_by_permission() -> None:
    new, offsets = ranged(0, 40, topic_id="id-2"), kept()
    gaps = offsets.jumps([new])
    assert gaps == (ranged(100, 0, topic_id="id-2"),)
    assert offsets.classify([new], gaps).fresh == (new,)
    offsets.take([new])
    assert offsets["trades", 0] == OffsetEnd(40, "id-2", 0, "")
    assert offsets.classify([new]).taken == (new,)


def test_offsets_named_twice_in_a_batch_are_refused() -> None:
    for pieces in ([ranged(100, 120), ranged(110, 130)], [ranged(10, 30), ranged(20, 40)], [ranged(100, 110)] * 2):
        with pytest.raises(PositionGapError, match="twice"):
            kept().classify(pieces)
    for wrong in (ranged(120, 110), ranged(-1, 110)):
        with pytest.raises(PositionGapError, match="invalid range"):
            kept().classify([wrong])


def test_a_range_without_messages_writes_down_where_a_partition_begins() -> None:
    offsets, empty = kept(), ranged(500, 500, partition=1)
    assert offsets.classify([empty]).fresh == (empty,)
    offsets.take([empty])
    assert offsets.classify([empty]).taken == (empty,)
    with pytest.raises(PositionGapError):
        offsets.classify([ranged(501, 501, partition=1)])


def test_jumps_are_those_that_a_batch_needs() -> None:
    offsets = kept()
    assert offsets.jumps([ranged(0, 50), ranged(50, 100), ranged(100, 150)]) == ()
    assert offsets.jumps([ranged(0, 50), ranged(130, 150)]) == (ranged(100, 130),)
    assert offsets.jumps([ranged(300, 310, partition=9)]) == ()
    pieces = [ranged(130, 150, digest="dd"), ranged(160, 170)]
    assert offsets.jumps(pieces) == (ranged(100, 130), ranged(150, 160))


def test_taking_keeps_the_topic_id_and_the_last_range() -> None:
    offsets = kept()
    offsets.take([ranged(120, 130, digest="bb"), ranged(100, 120, topic_id="")])
    assert offsets["trades", 0] == OffsetEnd(130, "id-1", 120, "bb")
    assert offsets.positions() == {"trades/0": 130}


def test_offsets_survive_their_bytes() -> None:
    offsets = kept()
    offsets.take([OffsetRange("\u00fc", 2, 0, 7), replace(ranged(0, 4, 1), last=LAST)])
    assert decode_offsets(encode_offsets(offsets)) == offsets
    assert encode_offsets(offsets) == [
        ["trades", 0, 100, "id-1", 60, "aa"],
        ["trades", 1, 4, "id-1", 0, "", 119, 3, 1_795_255_200_000, 0xFF],
        ["\u00fc", 2, 7, "", 0, ""],
    ]


def test_the_last_message_stays_known_until_there_is_a_later_one() -> None:
    """A range of nothing but holes has none; a topic that was made again has not that one."""
    offsets = kept()
    offsets.take([replace(ranged(100, 120), last=LAST)])
    offsets.take([ranged(120, 130)])
    assert offsets["trades", 0].last == LAST
    (cut,) = offsets.classify([ranged(110, 140)]).cut
    assert cut[1] is not None and cut[1].after == LAST
    (gap,) = offsets.jumps([replace(ranged(200, 210), last=replace(LAST, offset=205))])
    assert gap.last is None
    offsets.take([ranged(0, 5, topic_id="id-2")])
    assert offsets["trades", 0].last is None


def test_what_makes_two_messages_the_same() -> None:
    message = LastMessage.of(7, 3, 1000, b"k", b"v")
    assert message.same(LastMessage.of(7, 3, 1000, b"k", b"v")) and message.same(replace(message, epoch=-1))
    others = [
        *(replace(message, **{name: 9}) for name in ("offset", "epoch", "time_ms")),
        *(LastMessage.of(7, 3, 1000, *parts) for parts in [(b"kv", b""), (b"", b"kv"), (None, b"kv"), (b"v", b"k")]),
    ]
    assert not any(message.same(other) for other in others) and len({other.crc for other in others}) == 5
    assert str(message) == f"offset 7 with checksum {message.crc:08x}, time 1000 ms, leader epoch 3"
    assert str(replace(message, epoch=-1)) == f"offset 7 with checksum {message.crc:08x}, time 1000 ms"


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(st.data())
def test_whatever_is_proposed_each_offset_is_written_once_and_in_order(data: st.DataObject) -> None:
    """Against a model that holds every offset: what is fresh goes on from the end without gap or overlap."""
    offsets, written = Offsets(), {partition: list[int]() for partition in range(2)}
    for _ in range(data.draw(st.integers(1, 8))):
        bounds = st.lists(st.integers(0, 30), min_size=2, max_size=4, unique=True).map(sorted)
        cuts = {partition: data.draw(bounds) for partition in data.draw(st.sets(st.integers(0, 1), min_size=1))}
        proposed = [ranged(a, b, p) for p, cut in cuts.items() for a, b in pairwise(cut)]
        try:
            resolution = offsets.classify(data.draw(st.permutations(proposed)))
        except PositionGapError:
            assert any(written[p] and cut[0] > written[p][-1] + 1 for p, cut in cuts.items())
            continue
        assert {replace(r, start=0) for r in resolution.instead} <= {replace(r, start=0) for r in proposed}
        fresh = sorted(part for part in resolution.fresh if isinstance(part, OffsetRange))
        for part in fresh:
            written[part.partition].extend(range(part.start, part.stop))
        offsets.take(fresh)
        for partition, held in written.items():
            assert held == list(range(held[0], held[-1] + 1)) if held else (("trades", partition) not in offsets)
            assert not held or offsets["trades", partition].stop == held[-1] + 1
        for partition, cut in cuts.items():
            assert not written[partition] or cut[-1] <= written[partition][-1] + 1
