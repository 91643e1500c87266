"""The demo's own checks: wrong figures are seen, and nothing but a demo's directory is ever emptied."""

from __future__ import annotations

import io
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from rich.console import Console

from demo import feed as flights
from demo.figures import Figure, figures, package_table, same_as_package
from demo.flights import fresh, show, stream_file
from sparkhaven.store.errors import SettingsError
from sparkhaven.store.layout import LocationKey


@pytest.fixture(scope="module")
def package() -> pa.Table:
    """The flights of the package as the table would hold them."""
    table = package_table()
    day = pc.strftime(pc.assume_timezone(table["time_hour"].cast(pa.timestamp("s")), "UTC"), "%Y-%m-%d")
    return table.append_column("Date", day)


@pytest.mark.slow
def test_the_package_is_what_the_demo_expects(package: pa.Table) -> None:
    found = {figure.name: figure for figure in figures(package, {LocationKey("EWR", "2013-01-01"): 1}, 0)}
    assert found["rows"].ok
    assert found["rows"].found == flights.ROWS == 336_776
    assert found["nulls in dep_time"].ok
    assert found["distinct tailnum"].ok
    assert not found["intraday locations after ingest"].ok


@pytest.mark.slow
def test_one_changed_value_is_seen(package: pa.Table) -> None:
    assert same_as_package(package).ok
    delays = package["dep_delay"].to_pylist()
    delays[1000] = 10_000
    place = package.schema.get_field_index("dep_delay")
    figure = same_as_package(package.set_column(place, "dep_delay", pa.array(delays, pa.int32())))
    assert not figure.ok
    assert isinstance(figure.expected, int) and figure.found == figure.expected - 1
    assert not same_as_package(package.slice(1)).ok


def test_a_wrong_figure_is_shown_and_reported() -> None:
    text = io.StringIO()
    console = Console(file=text, width=100)
    assert show(console, [Figure("rows", 2, 2)], {"read": 1.0})
    assert not show(console, [Figure("rows", 2, 2), Figure("nulls", 1, 0)], {"read": 1.0})
    assert "WRONG" in text.getvalue()


def test_only_a_directory_of_a_demo_is_emptied(tmp_path: Path) -> None:
    base = fresh(tmp_path / "db")
    (base / "old").write_text("left by a demo")
    assert not (fresh(base) / "old").exists()
    foreign = tmp_path / "mine"
    foreign.mkdir()
    (foreign / "precious").write_text("keep")
    with pytest.raises(SettingsError, match="files that are not of a demo"):
        fresh(foreign)
    assert (foreign / "precious").read_text() == "keep"


def test_the_shipped_stream_file_is_there() -> None:
    assert stream_file().is_file()
