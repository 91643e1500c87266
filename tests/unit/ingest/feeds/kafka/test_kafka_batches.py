"""A partition in framed blocks, without a broker: the right messages in blocks of the right size, all given back."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import pytest
from confluent_kafka import KafkaError, KafkaException

from sparkhaven.ingest.feeds.kafka.broker.batches import BatchClient, reason_for_objects
from sparkhaven.ingest.feeds.kafka.broker.clients import Troubles
from sparkhaven.ingest.feeds.kafka.broker.librdkafka import CONSUMER, librdkafka
from sparkhaven.ingest.feeds.kafka.framed import FramedMessages
from sparkhaven.ingest.feeds.kafka.options import ClientSettings, KafkaOptions, ReadLimits
from sparkhaven.store.errors import SettingsError
from tests.support.ingest.messages import Fake
from tests.support.kafka.fake_library import PARTITION, FakeLibrary, all_given_back, numbered

FEED = KafkaOptions("nowhere:1", ("ticks",))


def opened(library: FakeLibrary, offset: int | None = 0, **limits: int) -> BatchClient:
    feed = replace(FEED, limits=ReadLimits(**limits))
    client = BatchClient(library.library, feed, Troubles(feed), "ticks", PARTITION)
    library.reader = client
    if offset is not None:
        client.assign(offset)
    return client


def rows(some: FramedMessages | None) -> list[tuple[int, bytes | None, bytes | None, tuple[int, int]]]:
    assert some is not None
    return [(m.offset(), m.value(), m.key(), m.timestamp()) for m in map(some.at, some.offsets.tolist())]


def told(messages: list[Fake]) -> list[tuple[int, bytes | None, bytes | None, tuple[int, int]]]:
    return [(m.at, m.payload, m.name, m.timestamp() if m.kind else (0, -1)) for m in messages]


def blocks(client: BatchClient, stop: int) -> list[list[int]]:
    """Offsets of the blocks that are there, the last ones too."""
    found = []
    while (some := client.take(stop, whole=True)) is not None:
        found.append(some.offsets.tolist())
    return found


def test_messages_come_as_they_are() -> None:
    log = [Fake(0, b"a\n", b"", 7), Fake(4, None, b"gone"), Fake(5, b"", None, 9, kind=0), Fake(90, b"\0" * 300)]
    library = FakeLibrary(log)
    with all_given_back(library):
        client = opened(library)
        client.fetch(10, 0.25)
        assert library.asked("consume") == [(13, 250, 10)]
        assert (client.last, client.end) == (90, 91)
        assert rows(client.take(91, whole=True)) == told(log)
        assert not library.alive  # given back when they are copied, not later
        assert client.take(91, whole=True) is None


def test_no_more_are_asked_for_at_once_than_come_soon() -> None:
    library = FakeLibrary(numbered(25))
    client = opened(library, fetched=4)
    client.fetch(9, 0)
    client.fetch(3, 0)
    assert [count for _, _, count in library.asked("consume")] == [4, 3]
    client.close()


def test_a_block_is_handed_out_when_it_is_full() -> None:
    library = FakeLibrary(numbered(25), portion=9)
    with all_given_back(library):
        client = opened(library, messages=10)
        client.fetch(9, 0)
        assert client.take(25, whole=False) is None and len(library.alive) == 9
        client.fetch(1, 0)
        assert rows(client.take(25, whole=False)) == told(numbered(10))
        client.fetch(9, 0)
        assert client.take(25, whole=False) is None
        client.fetch(9, 0)
        assert blocks(client, 25) == [[*range(10, 20)], [*range(20, 25)]]


@pytest.mark.parametrize("keys", [False, True])
def test_a_block_ends_with_the_message_that_fills_it(keys: bool) -> None:
    sizes = [40, 59, 1, 30, 500, 98, 2, 3]
    library = FakeLibrary(
        [Fake(n, None if keys else b"x" * size, b"x" * size if keys else None) for n, size in enumerate(sizes)]
    )
    with all_given_back(library):
        client = opened(library, bytes=100)
        client.fetch(2, 0)
        assert client.take(8, whole=False) is None  # 99 bytes
        client.fetch(1, 0)
        some = client.take(8, whole=False)  # 100
        assert some is not None and some.offsets.tolist() == [0, 1, 2]
        assert some.offsets.base is None is some.times.base  # a block keeps no room of others
        client.fetch(1, 0)
        assert client.take(8, whole=False) is None  # what was taken no longer counts
        client.fetch(9, 0)
        assert blocks(client, 8) == [[3, 4], [5, 6], [7]]


def test_what_is_behind_the_range_is_held_for_the_next() -> None:
    library = FakeLibrary(numbered(10, step=3))
    with all_given_back(library):
        client = opened(library)
        client.fetch(10, 0)
        assert blocks(client, 12) == [[0, 3, 6, 9]]
        assert blocks(client, 12) == [] and client.last == 27
        assert client.skip(16) and len(library.alive) == 4  # 18 to 27
        assert blocks(client, 19) == [[18]]
        assert client.skip(20) and client.skip(27) and len(library.alive) == 1
        assert not client.skip(28) and len(library.alive) == 1  # whoever asks assigns anew
        client.assign(0)
        assert not library.alive and (client.last, client.end) == (-1, -1)
        assert client.take(100, whole=True) is None
        client.fetch(3, 0)
        assert blocks(client, 100) == [[0, 3, 6]]
        assert library.asked("assign") == [(12, b"ticks", PARTITION, 0)] * 2


def test_skipped_and_forgotten_messages_do_not_fill_a_block() -> None:
    library = FakeLibrary([Fake(n, b"x" * 20) for n in range(10)])
    client = opened(library, bytes=50)
    client.fetch(4, 0)
    assert client.skip(3) and client.take(9, whole=False) is None
    client.assign(6)
    client.fetch(2, 0)
    assert client.take(9, whole=False) is None
    client.fetch(1, 0)
    assert client.take(9, whole=False) is not None
    client.close()


def test_room_is_made_and_used_again() -> None:
    """Whatever is held while more is fetched, nothing is lost, and a steady stream needs no more room."""
    log = numbered(400)
    library = FakeLibrary(log, portion=13)
    found, rooms = [], []
    with all_given_back(library):
        client = opened(library, messages=7)
        for _ in range(40):
            client.fetch(13, 0)
            while (some := client.take(1000, whole=False)) is not None:
                found += rows(some)
            rooms.append(client._handles.pointers)
        while (some := client.take(1000, whole=True)) is not None:
            found += rows(some)
    assert found == told(log)
    assert max(map(len, rooms)) <= 2 * (7 + 13)
    assert sum(one is other for one, other in pairwise(rooms)) > 10


def test_the_end_of_the_partition_among_messages() -> None:
    library = FakeLibrary(numbered(3), end=9)
    with all_given_back(library):
        client = opened(library)
        client.fetch(2, 0)
        assert (client.last, client.end) == (1, -1)
        client.fetch(5, 0)
        assert (client.last, client.end) == (2, 9) and len(library.alive) == 3  # the event is given back at once
        client.fetch(5, 0)
        assert (client.last, client.end) == (2, 9)
        library.log += [Fake(9, b"new"), Fake(10, b"newer")]
        library.events = [KafkaError._PARTITION_EOF] * 2
        client.fetch(5, 0)
        assert client.last == 10 and client.end == 9
        assert blocks(client, 99) == [[0, 1, 2, 9, 10]]


def test_an_older_end_does_not_replace_a_newer_one() -> None:
    library = FakeLibrary(numbered(3))
    client = opened(library)
    client.fetch(5, 0)
    assert client.end == 3
    library._end_told, library.end = False, 2
    library._position = 2
    client.fetch(5, 0)
    assert client.end == 3
    client.close()


def test_only_the_end_comes_and_nothing_is_last() -> None:
    library = FakeLibrary([], end=0)
    with all_given_back(library):
        client = opened(library)
        client.fetch(5, 0)
        assert (client.last, client.end) == (-1, 0)


def test_an_error_is_raised_in_the_words_of_the_library_and_its_message_given_back() -> None:
    library = FakeLibrary(numbered(5))
    with all_given_back(library):
        client = opened(library)
        client.fetch(2, 0)
        library.events = [KafkaError._PARTITION_EOF, KafkaError._BAD_MSG]
        with pytest.raises(KafkaException) as caught:
            client.fetch(5, 0)
        assert caught.value.args[0].code() == KafkaError._BAD_MSG and caught.value.args[0].str() == "event at 2"
        assert len(library.alive) == 5  # those that came with it are held
        client.close()
        assert not library.alive


def test_a_call_that_fails() -> None:
    library = FakeLibrary(numbered(5))
    client = opened(library)
    for name, work in (
        ("consume", lambda: client.fetch(5, 0)),
        ("assign", lambda: client.assign(1)),
        ("bounds", lambda: client.bounds(1)),
    ):
        library.failing = {name: KafkaError._TIMED_OUT}
        with pytest.raises(KafkaException) as caught:
            work()
        assert caught.value.args[0].code() == KafkaError._TIMED_OUT
    assert not library._lists  # nor is its argument left
    client.close()


def test_bounds() -> None:
    library = FakeLibrary(low=5, end=2**40)
    client = opened(library)
    assert client.bounds(1.5) == (5, 2**40)
    assert library.asked("bounds") == [(12, b"ticks", PARTITION, 1500)]
    client.close()


def test_a_message_of_another_partition_is_refused() -> None:
    library = FakeLibrary(numbered(5))
    with all_given_back(library):
        client = BatchClient(library.library, FEED, Troubles(FEED), "ticks", PARTITION + 1)
        client.assign(0)
        with pytest.raises(ValueError, match="not of partition 4"):
            client.fetch(5, 0)
        client.close()


@pytest.mark.parametrize("way", ["closed", "closed twice", "forgotten"])
def test_the_client_ends_once_and_after_its_messages(way: str) -> None:
    library = FakeLibrary(numbered(5))
    client = opened(library)
    client.fetch(5, 0)
    client.take(2, whole=True)
    library.reader = None
    if way != "forgotten":
        client.close()
    if way == "closed twice":
        client.close()
    del client
    assert not library.alive
    assert library.calls[-3:] == [("consumer_close", 12), ("queue_destroy", 13), ("destroy", 12)]
    assert library.names().count("destroy") == 1


def test_a_forked_process_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    library = FakeLibrary(numbered(5))
    client = opened(library)
    client.fetch(5, 0)
    monkeypatch.setattr(os, "getpid", lambda: -1)
    client.close()
    assert len(library.alive) == 5 and "destroy" not in library.names()


def test_how_a_consumer_is_made() -> None:
    library = FakeLibrary()
    client = opened(library, None)
    ((settings,),) = library.asked("conf")
    assert {"enable.partition.eof": True, "bootstrap.servers": "nowhere:1"}.items() <= settings.items()  # type: ignore[attr-defined]
    assert library.asked("client") == [(CONSUMER, 11)]
    assert library.asked("poll_set_consumer") == [(12,)]  # else events and messages are in two queues
    client.close()


def test_troubles_are_noted_by_the_callback() -> None:
    library, troubles = FakeLibrary(), Troubles(FEED)
    client = BatchClient(library.library, FEED, troubles, "ticks", PARTITION)
    assert ctypes.cast(client._handles.callback, ctypes.c_void_p).value == library.callback  # type: ignore[arg-type]
    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)
    call: Callable[..., None] = kind(library.callback)
    call(None, KafkaError._TRANSPORT, b"connection refused", None)
    assert troubles.take("nothing") == "connection refused"
    call(None, KafkaError._AUTHENTICATION, None, None)
    call(None, KafkaError._AUTHENTICATION, b"no", None)
    assert troubles.denied is not None and troubles.denied.code() == KafkaError._AUTHENTICATION
    client.close()


def test_settings_that_are_refused() -> None:
    library = FakeLibrary()
    library.refuses = "no such thing"
    with pytest.raises(SettingsError, match="no such thing"):
        opened(library)


def test_why_messages_come_as_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    library = librdkafka()
    assert library is not None

    def reason(**client: str) -> str | None:
        return reason_for_objects(library, KafkaOptions("b:1", ("t",), client=ClientSettings(tuple(client.items()))))

    ended: list[int] = []
    destroy = library.conf_destroy
    monkeypatch.setattr(library, "conf_destroy", lambda conf: (ended.append(conf), destroy(conf)), raising=False)
    assert reason() is None and reason(**{"client.id": "x"}) is None
    assert len(ended) == 2  # what was only tried is left nowhere
    for settings in ({"sasl.mechanisms": "OAUTHBEARER"}, {"sasl.oauthbearer.config": "x"}):
        assert "tokens" in str(reason(**settings))
    assert reason(**{"no.such": "x"}) == 'its own settings differ: No such configuration property: "no.such"'
    told = str(reason(**{"sasl.password": "tiger", "security.protocol": "tiger"}))
    assert "***" in told and "tiger" not in told
    with pytest.raises(SettingsError, match="that the stream sets itself"):
        reason(**{"enable.partition.eof": "false"})
