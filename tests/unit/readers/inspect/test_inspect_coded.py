"""Inspects the files of columns with codecs, with and without the definition beside them."""

from __future__ import annotations

import csv
import io
import json
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from sparkhaven.readers.inspect.any_file import Inspection, inspect_file
from sparkhaven.store.io.fs import Fs
from tests.support.commands import run
from tests.support.disks.contents import flip
from tests.support.tables.intraday_rows import IntradayRows
from tests.support.writers.coded_rows import DAY, SCHEMA, coded_table

CLOCK = 48_600_500_000_001
ROW: dict[str, Any] = {
    "Sym": "A",
    "N": 1,
    "Day": date(2017, 8, 4),
    "Far": date(1, 1, 1),
    "Clock": CLOCK,
    "Short": 48_600_500_000_000,
    "Px": Decimal("-1.500000"),
    "Wide": Decimal("12.3400000000"),
    "Free": "0.001",
    "Whole": Decimal(-7),
    "Huge": str(10**70),
    "Raw": b"\x01\xff",
    "Key": b"abcd",
    "Bytes": b"\x00",
    "Flags": [True, False],
    "Units": [0x41, None],
    "Shorts": [1, None],
    "Ints": [2, None],
    "Longs": [3, None],
    "Floats": [1.5, None],
    "Doubles": [-0.5, None],
    "Texts": ["a", None],
    "Moments": [1, None],
    "Rows": bytes.fromhex("1c0400fc06fe20"),
    "Weights": [("a", 1.5), ("b", None)],
    "Thing": b"\xac\xed",
    "Tags": ["a", "é"],
}
SHOWN = {
    **{name: value for name, value in ROW.items() if isinstance(value, list)},
    "Day": "2017-08-04",
    "Far": "0001-01-01",
    "Clock": "13:30:00.500000001",
    "Short": "13:30:00.500000000",
    "Px": "-1.500000",
    "Wide": "12.3400000000",
    "Free": "0.001",
    "Whole": "-7",
    "Huge": str(10**70),
    "Raw": "01 ff",
    "Key": "61 62 63 64",
    "Bytes": "00",
    "Moments": ["1970-01-01 00:00:00.000000001+00:00", None],
    "Rows": "1c 04 00 fc 06 fe 20",
    "Weights": {"a": 1.5, "b": None},
    "Thing": "ac ed",
}


@pytest.fixture
def location(tmp_path: Path) -> Path:
    """A location with one row, and one of nulls."""
    db = IntradayRows(tmp_path / "db", SCHEMA)
    nulls = dict.fromkeys(ROW) | {"N": 2}
    db.commit({("a", DAY): coded_table(db.schema, [ROW, nulls])})
    (found,) = (tmp_path / "db").rglob("Tags.dat")
    return found.parent


def look(path: Path) -> Inspection:
    inspection = inspect_file(Fs(), path)
    json.dumps(inspection.to_json())
    return inspection


@pytest.mark.parametrize("name", SHOWN)
def test_values_are_shown_as_a_person_reads_them(location: Path, name: str) -> None:
    inspection = look(location / f"{name}.dat")
    assert (inspection.findings, inspection.facts["rows"]) == ([], 2)
    assert inspection.facts["first"] == [SHOWN[name], [] if name == "Tags" else None]
    assert inspection.facts["nulls"] == (0 if name == "Tags" else 1)


def test_the_codec_is_that_of_the_definition(location: Path) -> None:
    facts = look(location / "Px.dat").facts
    assert (facts["dataType"], facts["codecArguments"]) == ("java.math.BigDecimal", "18,6")
    assert facts["codec"].endswith(".BigDecimalCodec")


BY_WIDTH = ("Day", "Far", "Clock", "Short", "Flags", "Texts", "Doubles", "Tags")
AS_BYTES = {"Px": "00 ff ff ff ff ff e9 1c 9f", "Free": "00 00 00 03 01", "Raw": "01 ff", "Thing": "ac ed"}


@pytest.mark.parametrize("name", BY_WIDTH)
def test_without_a_definition_class_and_width_tell_the_codec(location: Path, name: str) -> None:
    (location / "table.tbl").unlink()
    inspection = look(location / f"{name}.dat")
    assert inspection.findings == []
    assert inspection.facts["first"][0] == SHOWN[name]


@pytest.mark.parametrize("name", AS_BYTES)
def test_without_a_definition_other_values_are_shown_as_bytes(location: Path, name: str) -> None:
    (location / "table.tbl").unlink()
    inspection = look(location / f"{name}.dat")
    assert [(f.code, f.what) for f in inspection.findings] == [
        ("N215", "no definition beside the file names its codec. Values are shown as bytes")
    ]
    assert inspection.facts["first"][0] == AS_BYTES[name]


def test_damage_is_named_with_its_row(location: Path) -> None:
    flip(location / "Doubles.bytes", 1)
    inspection = look(location / "Doubles.dat")
    assert not inspection.sound
    assert "bytes stand for no value of the column's codec" in [finding.what for finding in inspection.findings]
    assert look(location / "Doubles.bytes").sound is False


def test_every_file_is_shown_as_text_and_as_json(location: Path, tmp_path: Path) -> None:
    files = [str(path) for path in sorted(location.iterdir())]
    done = run(tmp_path / "db", "inspect", *files)
    assert done.exit_code == 0, done.stdout
    assert "  first: [{'a': 1.5, 'b': None}, None]" in done.stdout
    as_json = run(tmp_path / "db", "--json", "inspect", str(location / "Weights.dat"))
    assert json.loads(as_json.stdout)["facts"]["first"] == [{"a": 1.5, "b": None}, None]


def test_files_are_shown_as_csv(location: Path, tmp_path: Path) -> None:
    flip(location / "Doubles.bytes", 1)
    files = [location / "Weights.dat", location / "table.size", location / "Doubles.dat"]
    done = run(tmp_path / "db", "inspect", "--csv", *map(str, files))
    assert done.exit_code == 1
    head, *lines = csv.reader(io.StringIO(done.stdout))
    assert head == ["file", "name", "value"]
    found = {(Path(file).name, name): value for file, name, value in lines}
    assert json.loads(found["Weights.dat", "facts.first"]) == [{"a": 1.5, "b": None}, None]
    assert found["Weights.dat", "sound"] == "true"
    assert found["table.size", "size"] == str((location / "table.size").stat().st_size)
    assert "bytes stand for no value of the column's codec" in found["Doubles.dat", "error"]
