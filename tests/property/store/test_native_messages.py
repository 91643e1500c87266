"""Messages of librdkafka by the compiled core and without it: the same facts and bytes, and no byte out of place."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import fields
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparkhaven.store.native.buffers import address
from sparkhaven.store.native.kafka_messages import MessageFacts, frame, look, release
from sparkhaven.store.native.library import core
from tests.oracles.kafka import plain_frame, plain_look
from tests.support.guard_pages import guarded
from tests.support.ingest.messages import Fake
from tests.support.kafka.laid_out import laid_out

PAYLOADS = st.none() | st.sampled_from([b"", b"\n", b"a\nb\n", b"\0", b"x" * 5000]) | st.binary(max_size=40)
MESSAGES = st.lists(st.tuples(PAYLOADS, PAYLOADS, st.sampled_from([-5, -1, 0, 1, 2**62]) | st.integers(0, 10**13)))


def fakes(parts: list[tuple[bytes | None, bytes | None, int]]) -> list[Fake]:
    return [Fake(3 * n, value, key, at, kind=n % 3) for n, (value, key, at) in enumerate(parts)]


def rows(facts: MessageFacts) -> list[list[int]]:
    return [getattr(facts, one.name).tolist() for one in fields(facts)]


@settings(deadline=None)
@given(MESSAGES, st.lists(st.sampled_from([0, 0, -191, 4]), max_size=3))
def test_facts_are_those_of_the_messages(
    parts: list[tuple[bytes | None, bytes | None, int]], errors: list[int]
) -> None:
    messages = fakes(parts)
    errors = errors[: len(messages)]
    one, other = MessageFacts.room(len(messages)), MessageFacts.room(len(messages))
    with laid_out(messages, errors=errors) as batch:
        odd = sum(map(bool, errors))
        assert look(batch.pointers, 3, batch.time_of, one) == plain_look(batch.pointers, 3, batch.time_of, other) == odd
    codes = [*errors, *[0] * (len(messages) - len(errors))]
    values = [-1 if value is None else len(value) for value, _, _ in parts]
    keys = [-1 if key is None else len(key) for _, key, _ in parts]
    good = [not code for code in codes]
    wanted = [
        codes,
        [message.at for message in messages],
        [length if sound else -1 for length, sound in zip(values, good, strict=True)],
        [length if sound else -1 for length, sound in zip(keys, good, strict=True)],
        [m.time_ms if sound and m.kind and m.time_ms >= 0 else -1 for m, sound in zip(messages, good, strict=True)],
    ]
    assert rows(one) == rows(other) == wanted


@settings(deadline=None)
@given(MESSAGES)
def test_payloads_are_framed_as_they_are(parts: list[tuple[bytes | None, bytes | None, int]]) -> None:
    messages = fakes(parts)
    with laid_out(messages) as batch:
        for place, keys in ((0, False), (1, True)):
            payloads = [(value, key)[place] for value, key, _ in parts]
            lengths = np.array([-1 if payload is None else len(payload) for payload in payloads], np.int64)
            there = [payload for payload in payloads if payload is not None]
            data, ends = frame(batch.pointers, lengths, keys=keys)
            other, other_ends = plain_frame(batch.pointers, keys=keys)
            assert data == other == b"".join(payload + b"\n" for payload in there)
            assert ends.tolist() == other_ends.tolist()
            found = [data[start : stop - 1] for start, stop in pairwise(ends.tolist())]
            assert found == there


def test_nothing_is_written_behind_the_room_that_there_is() -> None:
    library = core()
    assert library is not None
    messages = [Fake(0, b"abc"), Fake(1, None), Fake(2, b""), Fake(3, b"de\n")]
    with laid_out(messages) as batch, guarded(np.zeros(4, np.int32)) as ends:
        for room in range(9):
            with guarded(np.zeros(room, np.uint8)) as out:
                given = address(out), room, address(ends)
                assert library.sh_kafka_frame(address(batch.pointers), 4, 0, *given) == (3 if room == 9 else -1)
        with guarded(np.zeros(9, np.uint8)) as out:
            assert library.sh_kafka_frame(address(batch.pointers), 4, 0, address(out), 9, address(ends)) == 3
            assert out.tobytes() == b"abc\n\nde\n\n"
        assert ends.tolist() == [0, 4, 5, 9]


def test_other_lengths_than_were_looked_at_are_refused() -> None:
    with laid_out([Fake(0, b"abc")]) as batch:
        for length in (-1, 2, 4):
            with pytest.raises(ValueError, match="should"):
                frame(batch.pointers, np.array([length]), keys=False)
        with pytest.raises(ValueError, match="too many"):
            frame(batch.pointers, np.array([2**31 - 1]), keys=False)


def test_lengths_whose_sum_does_not_fit_are_refused() -> None:
    with laid_out([Fake(n, b"abc") for n in range(3)]) as batch:
        for lengths in ([2**62, 2**62, 3], [2**63 - 1, 2**63 - 1, 2]):
            with pytest.raises(ValueError, match="too many"):
                frame(batch.pointers, np.array(lengths), keys=False)


def test_more_payloads_than_were_looked_at_write_no_end_out_of_place(monkeypatch: pytest.MonkeyPatch) -> None:
    with ExitStack() as stack:
        batch = stack.enter_context(laid_out([Fake(0, b"abc"), *[Fake(n, b"") for n in range(1, 9)]]))
        empty = np.empty
        monkeypatch.setattr(np, "empty", lambda *size: stack.enter_context(guarded(empty(*size))))
        with pytest.raises(ValueError, match="should"):
            frame(batch.pointers, np.array([20, *[-1] * 8]), keys=False)
        monkeypatch.undo()


def test_a_message_of_another_partition_is_refused() -> None:
    with laid_out([Fake(0, b"a")], partition=4) as batch:
        for way in (look, plain_look):
            with pytest.raises(ValueError, match="partition 3"):
                way(batch.pointers, 3, batch.time_of, MessageFacts.room(1))


def test_each_message_is_given_back_once() -> None:
    with laid_out([Fake(n, b"a") for n in range(50)]) as batch:
        release(batch.pointers[10:], batch.free)
        assert batch.released == batch.pointers[10:].tolist()
