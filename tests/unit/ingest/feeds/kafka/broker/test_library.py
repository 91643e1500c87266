"""What is taken from inside of the installed kafka-python is there, and what it lacks is done by us."""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from struct import pack
from typing import Any

import kafka
import numpy as np
import pytest
from kafka.net.manager import KafkaConnectionManager
from kafka.net.selector import NetworkSelector
from kafka.protocol.metadata import MetadataRequest

from sparkhaven.ingest.feeds.kafka.broker.errors import Troubles, terms_of
from sparkhaven.ingest.feeds.kafka.broker.link import LARGE, NEEDS, NODES, SPARE, Link, _Memory
from sparkhaven.ingest.feeds.kafka.broker.topics import KafkaTopics
from sparkhaven.ingest.feeds.kafka.options import ClientSettings, KafkaOptions
from sparkhaven.store.errors import FeedSettingsError, RetryableFeedError
from tests.support.kafka.fake_brokers import KAFKA_31, TOPIC, brokers
from tests.support.kafka.fetched import QUICK, Made, fetching, fill, read

API_VERSIONS, HANDSHAKE, AUTHENTICATE, METADATA = 18, 17, 36, 3
PASSWORD = "a-long-tiger"


def feed_of(bootstrap: str, **client: str) -> KafkaOptions:
    return KafkaOptions(bootstrap, (TOPIC,), client=ClientSettings(tuple({**QUICK, **client}.items())))


@contextmanager
def link_of(feed: KafkaOptions) -> Iterator[tuple[Link, Troubles]]:
    troubles = Troubles(feed)
    link = Link(terms_of(feed), feed.bootstrap, troubles.note)
    yield link, troubles
    link.close()


def test_what_is_taken_from_inside_is_there() -> None:
    missing = [f"{kind.__name__}.{name}" for kind, names in NEEDS.items() for name in names if not hasattr(kind, name)]
    assert not missing, f"kafka-python {kafka.__version__} lacks {missing}, which link.py takes from it"
    manager = KafkaConnectionManager(NetworkSelector(), bootstrap_servers="127.0.0.1:1")
    lacking = [name for name in NODES if not hasattr(manager, name)]
    assert not lacking, f"kafka-python {kafka.__version__}: a manager lacks {lacking}"
    for method, names in (
        (KafkaConnectionManager._build_transport, ("node", "timeout_at")),
        (KafkaConnectionManager.get_connection, ("node_id", "refresh_metadata_on_err")),
        (NetworkSelector.poll, ("timeout_ms", "future")),
        (NetworkSelector.wait_read, ("fileobj", "timeout_at")),
        (NetworkSelector.wait_write, ("fileobj", "timeout_at")),
    ):
        assert set(names) <= set(inspect.signature(method).parameters), (kafka.__version__, method)
    assert asyncio.iscoroutinefunction(KafkaConnectionManager._build_transport)
    manager.close()
    manager._net.close()


def sasl_broker(refuse: bytes | None = None) -> tuple[socket.socket, list[bytes]]:
    """A broker on loopback that asks for PLAIN, notes what it is told, and refuses it; then it hangs up at once."""
    listener, told = socket.create_server(("127.0.0.1", 0)), []

    def answered(request: bytes) -> tuple[bytes, bool]:
        api, version = int.from_bytes(request[:2], "big"), int.from_bytes(request[2:4], "big")
        told.append(request)
        if api == API_VERSIONS:
            ranges = {API_VERSIONS: (0, 0), HANDSHAKE: (1, 1), AUTHENTICATE: (0, 0), METADATA: (7, 7), 1: (10, 10)}
            parts = b"".join(pack(">hhh", key, *bounds) for key, bounds in ranges.items())
            return pack(">hi", 35 if version else 0, len(ranges)) + parts, False
        if api == HANDSHAKE:
            return pack(">hih", 0, 1, 5) + b"PLAIN", False
        return pack(">hh", 58, len(refuse or b"")) + (refuse or b"") + pack(">i", 0), True

    def serve() -> None:
        with suppress(OSError):
            while True:
                connection, _ = listener.accept()
                with connection:
                    while head := connection.recv(4, socket.MSG_WAITALL):
                        request = connection.recv(int.from_bytes(head, "big"), socket.MSG_WAITALL)
                        body, last = answered(request)
                        whole = request[4:8] + body
                        connection.sendall(pack(">i", len(whole)) + whole)
                        if last:
                            break  # the end of the stream comes with the answer

    threading.Thread(target=serve, daemon=True).start()
    return listener, told


def test_an_answer_before_the_end_of_the_stream_counts(caplog: pytest.LogCaptureFixture) -> None:
    """Else a wrong password is a connection that was lost. It is in no line of the log, at any level."""
    listener, told = sasl_broker(b"Authentication failed: who are you?")
    login = {"security.protocol": "sasl_plaintext", "sasl.mechanism": "PLAIN", "sasl.username": "me"}
    feed = feed_of(f"127.0.0.1:{listener.getsockname()[1]}", **login, **{"sasl.password": PASSWORD})
    with caplog.at_level(1):
        for name in [name for name in logging.Logger.manager.loggerDict if name.startswith("kafka")]:
            caplog.set_level(1, name)
        began = time.monotonic()
        with pytest.raises(FeedSettingsError, match="refuses access") as caught:
            KafkaTopics(feed, patience=60).look()
    listener.close()
    assert "who are you?" in str(caught.value) and time.monotonic() - began < 30
    assert any(PASSWORD.encode() in request for request in told), "it was sent"
    assert PASSWORD not in caplog.text and PASSWORD not in str(caught.value)
    assert any(record.name.startswith("kafka") for record in caplog.records)


def open_files() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


@contextmanager
def silent() -> Iterator[str]:
    """Takes connections, and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"127.0.0.1:{listener.getsockname()[1]}"


def test_a_handshake_that_nobody_answers_ends_and_leaves_no_socket() -> None:
    with silent() as at:
        feed = feed_of(at, **{"security.protocol": "SSL", "socket.connection.setup.timeout.ms": "100"})
        before = open_files()
        with link_of(feed) as (link, troubles):
            inside = open_files()
            for _ in range(3):
                with pytest.raises(kafka.errors.KafkaConnectionError, match="TLS handshake failed: no answer in time"):
                    link.result(link.describe([TOPIC]), 10)
            assert open_files() == inside
            assert troubles.count >= 3 and at in troubles.take("")
        assert open_files() == before


def test_a_connection_that_is_refused_leaves_no_socket_and_says_why() -> None:
    with silent() as at:
        pass
    with link_of(feed_of(at)) as (link, troubles):
        before = open_files()
        for _ in range(3):
            with pytest.raises(kafka.errors.KafkaConnectionError):
                link.result(link.describe([TOPIC]), 10)
        assert open_files() == before
        assert troubles.take("") == f"{at}: cannot connect: connection refused"
    unknown = feed_of("no-such-host.invalid:9092")
    with pytest.raises(RetryableFeedError, match="cannot be read") as caught:
        KafkaTopics(unknown, patience=0.5).look()
    assert "no-such-host.invalid:9092: cannot find this host" in str(caught.value)


def test_metadata_never_create_a_topic(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    encode = MetadataRequest.encode

    def noted(self: MetadataRequest, *arguments: Any, **more: Any) -> bytes:
        asked.append(self)
        octets: bytes = encode(self, *arguments, **more)
        return octets

    monkeypatch.setattr(MetadataRequest, "encode", noted)
    with brokers() as opened:
        fill(opened, 100)
        read(made(opened), 0, 100)
        KafkaTopics(feed_of(opened.bootstrap)).look()
        opened.disconnect(0)
        KafkaTopics(feed_of(opened.bootstrap)).look()
    assert len(asked) >= 3 and not any(one.allow_auto_topic_creation for one in asked)


def test_the_name_of_a_protocol_may_be_written_small_and_is_never_ignored() -> None:
    context = ssl.create_default_context()
    for name in ("ssl", "SSL"):
        with link_of(feed_of("127.0.0.1:1", **{"security.protocol": name})) as (link, _):
            assert link._manager.ssl_enabled and isinstance(link._manager.config["ssl_context"], type(context))


def test_a_connection_that_is_paused_is_waited_for(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    with brokers() as opened:
        fill(opened, 100)
        reader = made(opened)
        assert read(reader, 0, 50) == list(range(50))
        (conn,) = reader._link._manager._conns.values()
        conn.pause("throttle")
        threading.Timer(0.3, conn.unpause, ["throttle"]).start()
        fill(opened, 100, start=100)
        before, since = reader._troubles.count, time.monotonic()
        monkeypatch.setattr(reader._link, "describe", lambda topics: pytest.fail("its leader was taken for lost"))
        assert read(reader, 50, 200) == list(range(50, 200))
        assert time.monotonic() - since > 0.25 and reader._troubles.count == before


def test_many_requests_on_the_way_pause_nothing() -> None:
    with brokers(versions=KAFKA_31) as opened, link_of(feed_of(opened.bootstrap)) as (link, _):
        fill(opened, 10)
        link.result(link.describe([TOPIC]), 10)
        asked = [link.describe([TOPIC]) for _ in range(50)]
        assert all(link.result(one, 10)[TOPIC].error == 0 for one in asked)


def test_an_administrative_question_in_a_forked_process() -> None:
    with brokers() as opened:
        fill(opened, 100)
        topics = KafkaTopics(feed_of(opened.bootstrap))
        assert topics.look()
        before = threading.active_count()
        child = os.fork()
        if child == 0:
            done = KafkaTopics(feed_of(opened.bootstrap), patience=20).look()[TOPIC].partitions
            os._exit(0 if len(done) == 1 else 1)
        assert os.waitpid(child, 0)[1] == 0 and topics.look()
        assert threading.active_count() <= before + 2, "only the brokers in memory have threads"


def test_a_reader_of_a_parent_is_left_alone_when_a_forked_process_ends() -> None:
    with brokers() as opened:
        fill(opened, 100)
        reader = fetching(opened)
        assert read(reader, 0, 10) == list(range(10))
        child = os.fork()
        if child == 0:
            reader.close()
            del reader
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        fill(opened, 100, start=100)
        assert read(reader, 10, 200) == list(range(10, 200))
        assert reader._troubles.count == 0
        reader.close()


def test_memory_is_used_again_when_nobody_looks_at_it_and_never_before() -> None:
    memory = _Memory()
    one = memory.take(LARGE + 10)
    assert memory.take(LARGE + 10) is not one, "it is being received"
    memory.keep(one)
    held = np.frombuffer(one.read(), np.uint8)[5:]
    assert memory.take(LARGE + 10) is not one, "its messages were not handed out"
    del held
    again = memory.take(LARGE + 5)
    assert again is one and len(again.read()) == LARGE + 5
    memory.keep(again)
    assert memory.take(LARGE + 11) is not one and memory.take(10) is not one
    for _ in range(2 * SPARE):
        memory.keep(memory.take(LARGE * 2))
    assert len(memory._answers) <= SPARE
