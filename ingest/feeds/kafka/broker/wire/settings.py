"""Which settings of the client this way of reading knows, and their values; with any other librdkafka reads.

Names, defaults and meanings are librdkafka's, which has checked the values before they come here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from sparkhaven.ingest.feeds.kafka.broker.clients import ClientConf

Address = tuple[str, int]
PORT = 9092
_ADDRESS = re.compile(r"(?:\[(?P<v6>[0-9A-Fa-f:.%]+)\]|(?P<host>[A-Za-z0-9._-]+))(?::(?P<port>\d{1,5}))?\Z")
_MS = 1000.0
_TRUE = frozenset({"true", "t", "1"})
_ALIASES = {"max.partition.fetch.bytes": "fetch.message.max.bytes", "metadata.broker.list": "bootstrap.servers"}
_DEFAULTS: ClientConf = {
    "security.protocol": "plaintext",
    "client.id": "rdkafka",
    "fetch.max.bytes": 52_428_800,
    "fetch.min.bytes": 1,
    "receive.message.max.bytes": 100_000_000,
    "socket.timeout.ms": 60_000,
    "socket.connection.setup.timeout.ms": 30_000,
    "reconnect.backoff.ms": 100,
}
_WITHOUT_MEANING = frozenset(  # of queues and groups, which there are none of, and of clients that ask beside this one
    {
        "auto.offset.reset",
        "enable.auto.commit",
        "enable.auto.offset.store",
        "enable.partition.eof",
        "fetch.queue.backoff.ms",
        "group.id",
        "log_level",
        "queued.max.messages.kbytes",
        "queued.min.messages",
    }
)
_KNOWN = frozenset(
    {
        *_DEFAULTS,
        "bootstrap.servers",
        "check.crcs",
        "fetch.message.max.bytes",
        "fetch.wait.max.ms",
        "isolation.level",
        "reconnect.backoff.max.ms",
        "socket.keepalive.enable",
    }
)


class OtherClientError(Exception):
    """Why librdkafka has to read instead."""


@dataclass(frozen=True, slots=True)
class WireSettings:
    """``portion`` are the bytes that one request asks for, ``answer`` those that an answer may have."""

    brokers: tuple[Address, ...]
    client_id: str
    committed: bool
    checked: bool
    portion: int
    most: int
    least: int
    wait_ms: int
    answer: int
    request_seconds: float
    connect_seconds: float
    backoff_seconds: float
    longest_backoff_seconds: float
    keepalive: bool


def wire_settings(settings: Mapping[str, str | int | bool]) -> WireSettings:
    """Of the settings of a consumer; OtherClientError for those that are not known here."""
    values: dict[str, str] = {}
    for name, value in {**_DEFAULTS, **settings}.items():
        values[_ALIASES.get(name, name)] = str(value).lower() if isinstance(value, bool) else str(value)
    unknown = sorted(values.keys() - _KNOWN - _WITHOUT_MEANING)
    if unknown:
        raise OtherClientError(f"feed.client has {', '.join(unknown)}")
    if values["security.protocol"].lower() != "plaintext":
        raise OtherClientError(f"the connection is {values['security.protocol']}")

    def number(name: str) -> int:
        return int(values[name])

    try:
        return WireSettings(
            brokers=tuple(map(_address, values["bootstrap.servers"].split(","))),
            client_id=values["client.id"],
            committed=values["isolation.level"] == "read_committed",
            checked=values["check.crcs"].lower() in _TRUE,
            portion=number("fetch.message.max.bytes"),
            most=number("fetch.max.bytes"),
            least=number("fetch.min.bytes"),
            wait_ms=number("fetch.wait.max.ms"),
            answer=number("receive.message.max.bytes"),
            request_seconds=number("socket.timeout.ms") / _MS,
            connect_seconds=number("socket.connection.setup.timeout.ms") / _MS,
            backoff_seconds=number("reconnect.backoff.ms") / _MS,
            longest_backoff_seconds=number("reconnect.backoff.max.ms") / _MS,
            keepalive=values["socket.keepalive.enable"].lower() in _TRUE,
        )
    except ValueError as error:
        raise OtherClientError(f"a value is written in another way: {error}") from None


def _address(text: str) -> Address:
    match = _ADDRESS.match(text.strip())
    if match is None:
        raise ValueError(f"the address {text}")
    return match["v6"] or match["host"], int(match["port"] or PORT)
