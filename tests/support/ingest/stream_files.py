"""Stream files: one on disk with its feed, and one as text with changes."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from sparkhaven.jobs.settings.stream_file import StreamSettings, parse_stream
from sparkhaven.store.errors import SettingsError
from tests.support.places import REPOSITORY

FILE = Path("/etc/streams/flights.toml")
RIGHT = """
name = "flights"
table = "Nyc13.Flight"
schema = "../schemas/Nyc13.Flight.schema"
[feed]
type = "files"
path = "feed/*.json"
format = "json"
[columns]
time_hour = { from = "hour", unit = "ms" }
[partition]
internal = { column = "origin" }
value = { column = "time_hour", zone = "America/New_York" }
[bad_rows]
max_rows = 0
[commit]
trigger = "1 second"
"""


def parse(*changes: tuple[str, str], environ: dict[str, str] | None = None) -> StreamSettings:
    """The settings of ``RIGHT`` with changes, each of which must apply."""
    text = RIGHT
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    return parse_stream(tomllib.loads(text), FILE, environ or {})


def refused(*changes: tuple[str, str], environ: dict[str, str] | None = None) -> SettingsError:
    """The error that the changes cause; it names the file."""
    with pytest.raises(SettingsError) as caught:
        parse(*changes, environ=environ)
    assert str(FILE) in str(caught.value)
    return caught.value


def write_stream(base: Path) -> Path:
    """The stream file of the flights in a directory, with a feed of one file beside it."""
    (base / "feed").mkdir(exist_ok=True)
    (base / "feed" / "one.json").write_text("{}\n")
    text = (REPOSITORY / "conf/streams/flights.toml").read_text()
    text = text.replace("../schemas", str(REPOSITORY / "conf/schemas")).replace("${FLIGHTS_FEED}", str(base / "feed"))
    (base / "flights.toml").write_text(text)
    return base / "flights.toml"
