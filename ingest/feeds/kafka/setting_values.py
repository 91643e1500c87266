"""Values of ``[feed]`` that only a feed of Kafka topics has, from TOML to values."""

from __future__ import annotations

import re
from collections.abc import Mapping

from sparkhaven.ingest.feeds.kafka.client_settings import client_terms
from sparkhaven.ingest.feeds.kafka.options import ClientSettings, Start
from sparkhaven.ingest.settings.units import parse_instant_ns

_PARTITION = re.compile(r"(?P<topic>[A-Za-z0-9._-]{1,249}):(?P<partition>\d{1,9})\Z")
_KINDS = ("earliest", "latest", "committed")
_EXPECTED = '"earliest", "latest", "committed", { timestamp = "2026-11-21T00:00:00Z" } or { "topic:0" = 17 }'


def parse_start(value: object) -> Start:
    """``feed.start``; ValueError for anything else."""
    if isinstance(value, Start):
        return value
    if isinstance(value, str) and value in _KINDS:
        return Start(value)  # type: ignore[arg-type]
    if isinstance(value, Mapping) and set(value) == {"timestamp"}:
        return Start("timestamp", at_ms=parse_instant_ns(value["timestamp"]) // 1_000_000)
    if not isinstance(value, Mapping) or not value:
        raise ValueError(f"expected {_EXPECTED}")
    offsets = []
    for name, offset in value.items():
        match = _PARTITION.match(str(name))
        if match is None or not isinstance(offset, int) or isinstance(offset, bool) or offset < 0:
            raise ValueError(f"expected {_EXPECTED}")
        offsets.append((match["topic"], int(match["partition"]), offset))
    return Start("offsets", offsets=tuple(sorted(offsets)))


def parse_client(value: object) -> ClientSettings:
    """``feed.client``: texts, numbers and booleans by Java's names. Messages never show a value."""
    if isinstance(value, ClientSettings):
        return value
    if not isinstance(value, Mapping):
        raise ValueError('expected settings by name, like { "security.protocol" = "SASL_SSL" }')
    settings = []
    for name, setting in sorted(value.items()):
        if isinstance(setting, bool):
            setting = "true" if setting else "false"
        if not isinstance(setting, str | int | float):
            raise ValueError(f"{name}: expected a text, a number or a boolean")
        settings.append((str(name), str(setting)))
    client = ClientSettings(tuple(settings))
    client_terms(client)
    return client


def parse_pattern(value: object) -> str:
    """``feed.pattern``: a regular expression for whole names of topics."""
    if not isinstance(value, str) or not value:
        raise ValueError('expected a regular expression, like "flights-.*"')
    try:
        re.compile(value)
    except re.error as error:
        raise ValueError(f"not a regular expression: {error}") from None
    return value
