"""The C library is used only where its own messages read as they should; else a line says why."""

from __future__ import annotations

import ctypes
import logging
from collections.abc import Iterator

import confluent_kafka
import pytest

from ingest.feeds.kafka.broker import librdkafka as module
from ingest.feeds.kafka.broker.librdkafka import Librdkafka, RefusedError, librdkafka
from store.native import messages as native


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
    assert "same results" in record.getMessage()
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
        _fields_ = [field for field in native.MessageLayout._fields_ if field[0] != "topic"]

    monkeypatch.setattr(module, "MessageLayout", Shorter)
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
