"""Messages in memory as librdkafka lays them out, each payload before a page that cannot be read."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import numpy as np

from sparkhaven.ingest.feeds.kafka.framed import FramedMessages, FramedPart
from sparkhaven.store.native.abi import MessageLayout
from sparkhaven.store.native.kafka_messages import MessageFacts, Pointers, frame, look
from tests.support.guard_pages import guarded
from tests.support.ingest.messages import Fake

_TIME = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.POINTER(ctypes.c_int))
_FREE = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


@dataclass
class LaidOut:
    """Pointers to messages, addresses of the functions that librdkafka has for them, and what was given back."""

    pointers: Pointers
    time_of: int
    free: int
    released: list[int]


@contextmanager
def laid_out(messages: Sequence[Fake], partition: int = 3, errors: Sequence[int] = ()) -> Iterator[LaidOut]:
    """The messages with the timestamps that they tell. ``errors`` are codes of the first of them."""
    with ExitStack() as stack:
        times: dict[int, tuple[int, int]] = {}
        pointers: list[int] = []
        keep: list[object] = []
        codes = [*errors, *[0] * (len(messages) - len(errors))]
        for message, code in zip(messages, codes, strict=True):
            spans: list[tuple[int | None, int]] = []
            for payload in (message.payload, message.name):
                if payload is None:
                    spans.append((None, 0))
                else:
                    held = stack.enter_context(guarded(np.frombuffer(payload, np.uint8)))
                    spans.append((held.__array_interface__["data"][0], len(payload)))
            (value, length), (key, key_length) = spans
            made = MessageLayout(code, None, partition, value, length, key, key_length, message.at, None)
            octets = stack.enter_context(guarded(np.frombuffer(bytes(made), np.uint8)))
            pointers.append(octets.__array_interface__["data"][0])
            times[pointers[-1]] = message.timestamp()
            keep.append(octets)

        def time_of(pointer: int, kind: ctypes._Pointer[ctypes.c_int]) -> int:
            kind[0], at = times[pointer]
            return at

        released: list[int] = []
        called = _TIME(time_of), _FREE(released.append)
        functions = [ctypes.cast(function, ctypes.c_void_p).value or 0 for function in called]
        batch = stack.enter_context(guarded(np.array(pointers, np.uint64)))
        yield LaidOut(batch, functions[0], functions[1], released)


def framed(messages: Sequence[Fake], partition: int = 3) -> FramedMessages:
    """What the reader of batches would make of messages."""
    with laid_out(messages, partition) as batch:
        facts = MessageFacts.room(len(messages))
        assert look(batch.pointers, partition, batch.time_of, facts) == 0
        values = FramedPart(*frame(batch.pointers, facts.values, keys=False), facts.values >= 0)
        keys = FramedPart(*frame(batch.pointers, facts.keys, keys=True), facts.keys >= 0)
        return FramedMessages(facts.offsets, facts.times, values, keys)
