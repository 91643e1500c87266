"""The C library is used only where its own messages read as they should; else a line says why."""

from __future__ import annotations

import ctypes
import logging
from collections.abc import Iterator

import confluent_kafka
import pytest
from confluent_kafka import KafkaError

from sparkhaven.ingest.feeds.kafka.broker import librdkafka as module
from sparkhaven.ingest.feeds.kafka.broker.librdkafka import Librdkafka, RefusedError, librdkafka
from sparkhaven.store.native.abi import MessageLayout


@pytest.fixture(autouse=True)
def afresh() -> Iterator[None]:
    librdkafka.cache_clear()
    yield
    librdkafka.cache_clear()


def why_not(caplog: pytest.LogCaptureFixture) -> str:
    with caplog.at_level(logging.WARNING, "sparkhaven.kafka"):
        assert librdkafka() is None
        assert librdkafka() is None
    (record,) = caplog.records
    assert "Results are the same" in record.getMessage()
    return record.getMessage()


def test_it_is_used_here(caplog: pytest.LogCaptureFixture) -> None:
    assert isinstance(librdkafka(), Librdkafka) and not caplog.records


def test_a_library_that_is_missing(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(confluent_kafka.cimpl, "__file__", "/no/such.so")
    assert "/no/such.so" in why_not(caplog)


def test_a_library_without_a_function(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setitem(module._SIGNATURES, "of_tomorrow", (None, []))
    assert "rd_kafka_of_tomorrow" in why_not(caplog)


def test_another_version_than_that_of_the_client(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(confluent_kafka, "libversion", lambda: ("9", 0x090000FF))
    assert "the client has 0x90000ff" in why_not(caplog)


def test_messages_of_another_layout(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    class Shorter(ctypes.Structure):
        _fields_ = [field for field in MessageLayout._fields_ if field[0] != "topic"]

    monkeypatch.setattr(module, "MessageLayout", Shorter)
    assert "not laid out" in why_not(caplog)


@pytest.mark.parametrize("length", [2**64 - 1, 2**63, 2**63 - 1, 2**62, 64])
def test_messages_with_lengths_of_chance(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, length: int
) -> None:
    class Chance(MessageLayout):
        @property
        def length(self) -> int:
            return length

    monkeypatch.setattr(module, "MessageLayout", Chance)
    assert "not laid out" in why_not(caplog)


def test_without_the_compiled_core(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(module, "core", lambda: None)
    assert librdkafka() is None and not caplog.records


def test_settings_are_told_as_the_library_says_it() -> None:
    library = librdkafka()
    assert library is not None
    library.conf_destroy(library.conf({"log_level": 2, "check.crcs": True, "client.id": "ü"}))
    for settings in ({"no.such": "1"}, {"log_level": "x"}, {"client.id": "a\0b"}):
        with pytest.raises(RefusedError):
            library.conf(settings)


@pytest.fixture
def library() -> Librdkafka:
    found = librdkafka()
    assert found is not None
    return found


def test_a_version_that_is_not_known(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(module, "VERSIONS", range(1, 5))
    assert "it is version" in why_not(caplog)


def test_messages_with_other_content(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    returned = module._returned
    monkeypatch.setattr(module, "_returned", lambda *given: [(7, b"other", key) for _, _, key in returned(*given)])
    assert "not laid out" in why_not(caplog)


def test_messages_with_other_errors(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(module, "_PURGED", 1)
    assert "purged messages have the errors" in why_not(caplog)


def test_messages_that_do_not_come_back(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(Librdkafka, "queue_poll", lambda self, queue, wait_ms: None, raising=False)
    assert "does not return messages" in why_not(caplog)


def test_each_event_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    polled: list[int] = []
    ended: list[int] = []

    def poll(self: Librdkafka, queue: int, wait_ms: int) -> int:
        polled.append(self._library.rd_kafka_queue_poll(queue, wait_ms))
        return polled[-1]

    def end(self: Librdkafka, event: int) -> None:
        ended.append(event)
        self._library.rd_kafka_event_destroy(event)

    monkeypatch.setattr(Librdkafka, "queue_poll", poll, raising=False)
    monkeypatch.setattr(Librdkafka, "event_destroy", end, raising=False)
    assert librdkafka() is not None and polled and ended == polled


def test_settings_of_plugins_come_after_the_plugins(library: Librdkafka, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[tuple[bytes, bytes]] = []

    def note(conf: int, name: bytes, text: bytes, said: object, size: int) -> int:
        given.append((name, text))
        return 0

    monkeypatch.setattr(library, "conf_set", note, raising=False)
    library.conf_destroy(library.conf({"a": 5, "check.crcs": True, "plugin.library.paths": "P", "z": False}))
    assert given[0] == (b"plugin.library.paths", b"P")
    assert sorted(given[1:]) == [(b"a", b"5"), (b"check.crcs", b"true"), (b"z", b"false")]


def test_what_is_refused_is_ended(library: Librdkafka, monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[int] = []
    destroy = library.conf_destroy

    def end(conf: int) -> None:
        ended.append(conf)
        destroy(conf)

    monkeypatch.setattr(library, "conf_destroy", end, raising=False)
    with pytest.raises(RefusedError, match=r"no\.such"):
        library.conf({"no.such": "1"})
    assert len(ended) == 1
    conf = library.conf({"security.protocol": "ssl", "ssl.ca.location": "/no/such.pem"})
    with pytest.raises(RefusedError, match=r"ssl\.ca\.location"):
        library.client(module.CONSUMER, conf)
    assert ended[1:] == [conf]


def test_errors_are_those_of_the_client(library: Librdkafka) -> None:
    for text, said in ((None, "Local: Timed out"), (b"\xff no", "\ufffd no"), (b"", "")):
        error = library.error(KafkaError._TIMED_OUT, text).args[0]
        assert (error.code(), error.str()) == (KafkaError._TIMED_OUT, said)


def test_a_function_that_is_not_declared_is_not_called(library: Librdkafka) -> None:
    with pytest.raises(AttributeError, match="conf_dump"):
        _ = library.conf_dump
