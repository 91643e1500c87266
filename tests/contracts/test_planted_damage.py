"""Damage that no checksum shows: `verify --deep` names the file, the row or byte, and what is wrong.

`docs/evidence/damage.md` has each kind and what is said of it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sparkhaven.readers.checks.findings import Finding
from tests.support.witness.page import PAGE, planted_line
from tests.support.witness.planted import HISTORY, INTRADAY, PARQUET, ROW, Site, sites
from tests.support.witness.planted_kinds import KINDS, NO_VALUE, Planted
from tests.support.writers.coded_rows import COLUMNS

ANY_BYTES = {"Raw", "Thing", "Free", "Huge"}  # of variable length: nearly every content is a value
PLANTED = ("E201", "E228", "E243", "E244", "E251")  # each of them is planted, as the page says
HEADS: dict[str, Callable[[bytes], bytes]] = {
    "cut short": lambda value: value[:-1],
    "a byte too many": lambda value: value + b"\0",
    "bits all set": lambda value: b"\xff" * len(value),
    "zeros": lambda value: bytes(len(value)),
    "no bytes but one": lambda value: b"\x07",
}


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Site]:
    return {site.name: site for site in sites(tmp_path_factory.mktemp("planted"))}


def only(found: list[Finding]) -> Finding:
    assert len(found) == 1, [defect.text() for defect in found]
    assert found[0].severity == "error" and found[0].expected and found[0].found and found[0].hint
    return found[0]


def test_as_written_nothing_is_found(places: dict[str, Site]) -> None:
    assert {name: site.findings({}) for name, site in places.items()} == {INTRADAY: [], HISTORY: [], PARQUET: []}
    assert len({planted.kind for planted in KINDS}) == len(KINDS) > 40


@pytest.mark.parametrize("planted", KINDS, ids=lambda planted: planted.kind)
def test_a_kind_is_named(places: dict[str, Site], planted: Planted) -> None:
    found = {name: only(places[name].findings(planted.plant(places[name]))) for name in planted.sites}
    for name, defect in found.items():
        directory = places[name].expected.directory
        assert str(Path(defect.path).relative_to(directory)) == planted.file
        assert str(defect.at or "").startswith(planted.at) and defect.what == planted.what
        assert defect.code in PLANTED
    line = planted_line(planted, found)
    assert line in PAGE.read_text(encoding="utf-8"), "`python -m tests.support.witness.page` writes the page anew"


@pytest.mark.parametrize("kind", HEADS)
def test_every_type_with_a_form(places: dict[str, Site], kind: str) -> None:
    """Each of variable length whose bytes have a form."""
    site = places[INTRADAY]
    columns = [name for name in COLUMNS if f"{name}.bytes" in site.files and name not in ANY_BYTES]
    assert len(columns) > 10
    for column in columns:
        defect = only(site.findings(site.value(column, HEADS[kind])))
        assert (Path(defect.path).name, defect.what, defect.at) == (f"{column}.dat", NO_VALUE, f"row {ROW}"), column


@pytest.mark.parametrize("name", [INTRADAY, HISTORY])
def test_a_file_that_is_cut(places: dict[str, Site], name: str) -> None:
    site = places[name]
    for column in COLUMNS:
        for file in [file for file in site.files if file.startswith(f"{column}.") and len(site.files[file]) > 1]:
            found = site.findings({file: site.files[file][:-1]})
            assert {Path(defect.path).name.partition(".")[0] for defect in found} == {column}, file
            assert all(defect.severity == "error" for defect in found)
