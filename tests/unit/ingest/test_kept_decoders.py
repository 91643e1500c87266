"""Decoders that are kept between small batches: one for the same parts, in one thread, and not too many."""

from __future__ import annotations

import threading

from sparkhaven.ingest.feeds.base import MOST, DecoderCache


def test_the_same_parts_have_the_same_decoder() -> None:
    kept = DecoderCache(lambda *parts: [*parts])
    one, equal = [1], [1]
    first = kept.of(one, "x", small=True)
    assert kept.of(one, "x", small=True) is first
    assert kept.of(equal, "x", small=True) is not first  # equal parts are others
    assert kept.of(one, "x", small=False) is not first
    assert kept.of(one, "x", small=True) is first


def test_each_thread_has_its_own() -> None:
    kept = DecoderCache(lambda part: [part])
    part = object()
    made = [kept.of(part, small=True)]
    thread = threading.Thread(target=lambda: made.append(kept.of(part, small=True)))
    thread.start()
    thread.join()
    assert made[0] is not made[1]


def test_the_oldest_go_first_and_numbers_of_parts_stay_theirs() -> None:
    count: list[int] = []
    kept = DecoderCache(lambda part: count.append(1) or [part])
    parts = [[number] for number in range(MOST + 1)]
    for part in parts:
        assert kept.of(part, small=True) == [part]
    assert kept.of(parts[-1], small=True) == [parts[-1]] and len(count) == MOST + 1
    assert kept.of(parts[0], small=True) == [parts[0]] and len(count) == MOST + 2
    for _ in range(100):  # parts that nobody else holds do not share a number
        part = [0]
        assert kept.of(part, small=True)[0] is part
