"""A stream file with its feed."""

from __future__ import annotations

from pathlib import Path

from tests.support.places import REPOSITORY


def write_stream(base: Path) -> Path:
    (base / "feed").mkdir(exist_ok=True)
    (base / "feed" / "one.json").write_text("{}\n")
    text = (REPOSITORY / "conf/streams/flights.toml").read_text()
    text = text.replace("../schemas", str(REPOSITORY / "conf/schemas")).replace("${FLIGHTS_FEED}", str(base / "feed"))
    (base / "flights.toml").write_text(text)
    return base / "flights.toml"
