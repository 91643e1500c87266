"""Kinds of positions, as the commit log spells them."""

from __future__ import annotations

import pytest

from sparkhaven.store.epochs.state.log_values import (
    REBUILT,
    REQUEUED,
    VERSIONS,
    OffsetRange,
    PositionKind,
    PositionSource,
    packed,
    source_of,
)
from sparkhaven.store.epochs.state.offsets import Offsets

SPELLED = {
    "trades": PositionSource(PositionKind.OFFSETS, "trades"),
    "@other": PositionSource(PositionKind.OFFSETS, "@other"),
    "@delta": VERSIONS,
    "@quarantine": REQUEUED,
    "@rebuilt": REBUILT,
    "@query 7f": PositionSource(PositionKind.BATCHES, "7f"),
    "@write 2026-11-20": PositionSource(PositionKind.LABEL, "2026-11-20"),
}


@pytest.mark.parametrize("topic", SPELLED)
def test_a_source_is_spelled_in_the_log_as_ever(topic: str) -> None:
    assert source_of(topic) == SPELLED[topic]
    assert SPELLED[topic].topic == topic
    assert OffsetRange(topic, 0, 1, 2).source == SPELLED[topic]


def test_only_positions_of_a_feed_are_shown() -> None:
    offsets = Offsets()
    offsets.take(OffsetRange(source.topic, 0, 0, packed(12, 3)) for source in SPELLED.values())
    shown = offsets.positions()
    assert (shown["version"], shown["file"]) == (12, 3)
    assert shown.keys() == {"trades/0", "@other/0", "@query 7f/0", "@write 2026-11-20/0", "version", "file"}
    assert offsets.versions == offsets.end_of(VERSIONS)
    assert offsets.requeued == packed(12, 3)
    assert offsets.unsettled is not None
    assert Offsets().versions is None
