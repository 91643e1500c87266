"""What says which version named the files of a location: the log, table.size, merge records, ids alone."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from sparkhaven.readers.arrow.opening import open_table
from sparkhaven.store.epochs.reading.stream_state import load_stream
from sparkhaven.store.errors import SnapshotMovedError
from sparkhaven.store.format.table import table_size
from sparkhaven.store.layout import Layout, LocationKey, TableName
from sparkhaven.store.merges.merge_records import newest
from sparkhaven.store.places import TablePlace
from tests.support.commands import run
from tests.support.streams.schema_site import DAY, TABLE, Site, schema
from tests.support.writers.merge_runs import FS

AFTER = {"A": "long", "N": "String", "C": "double", "B": "String"}  # B is N, and a new B


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    made = Site(tmp_path)
    made.stream()
    put(made, {"A": 1, "B": "b1", "C": 0.5})
    return made


def put(site: Site, row: dict[str, Any]) -> None:
    site.put(row)
    site.ingest()


def renamed(site: Site) -> None:
    site.write(schema(AFTER))
    site.deploy("--rename", "B=N")


def place_of(site: Site) -> TablePlace:
    return TablePlace(FS, Layout(site.root), TableName.parse(TABLE))


BEFORE_AND_AFTER = [{"A": 1, "N": "b1", "B": None}, {"A": 2, "N": "n2", "B": "a2"}]


def test_a_location_keeps_its_names_however_its_state_is_found_again(site: Site) -> None:
    renamed(site)
    put(site, {"A": 2, "N": "n2", "C": 1.5, "B": "a2"})
    place, key = place_of(site), LocationKey("s", DAY)
    state = load_stream(place.of_stream("s")).locations[key]
    assert (state.schema_version, state.begun_by, state.named_by) == (2, 1, 1)
    assert {"B.dat", "B-4.dat"} < set(state.files) and "N.dat" not in state.files
    for where in ("B = 'a2'", "N = 'b1'", "B IS NULL"):  # by the statistics of the right column
        assert open_table(site.root, TABLE).count(where=where) == 1
    record = table_size.load(FS, place.intraday_location(key))
    assert record is not None and (record.schema_version, record.begun_by, record.named_by) == (2, 1, 1)
    assert site.rows("A", "N", "B") == BEFORE_AND_AFTER
    for path in place.streams.iterdir():  # by the checkpoint or the head, then by what locations say
        if path.name.endswith(".head"):
            path.unlink()
    assert load_stream(place.of_stream("s")).locations[key] == state
    place.of_stream("s").stream_log.write_bytes(b"")
    site.do("recover", TABLE, "s", "--from-locations", "--accept-positions")
    again = load_stream(place.of_stream("s")).locations[key]
    assert (again.schema_version, again.named_by, dict(again.files)) == (2, 1, dict(state.files))
    assert site.rows("A", "N", "B") == BEFORE_AND_AFTER
    for path in (site.base / "s").iterdir():  # their positions are lost
        path.unlink()
    put(site, {"A": 3, "N": "n3", "C": 1.5, "B": "b3"})
    assert site.rows("A", "N", "B") == [*BEFORE_AND_AFTER, {"A": 3, "N": "n3", "B": "b3"}]
    site.do("recover", TABLE)
    assert run(site.root, "verify", "--deep").exit_code == 0


def test_an_output_that_a_later_merge_keeps_says_by_whose_names(site: Site) -> None:
    site.do("partitions", "add", "Test", "0")
    site.merge()
    renamed(site)
    put(site, {"A": 2, "N": "n2", "C": 1.5, "B": "a2"})
    site.merge()
    record = newest(place_of(site), DAY)
    assert record is not None and record.schema_version == 2
    assert [output.named_by for output in record.outputs] == [1, 2]
    assert [sorted(output.digests) for output in record.outputs] == [["A", "B", "C"], ["A", "B", "C", "N"]]
    assert site.rows("A", "N", "B") == BEFORE_AND_AFTER
    site.do("validate", TABLE, "--date", DAY)


@pytest.mark.filterwarnings("ignore::sparkhaven.store.errors.HistoryWarning")
@pytest.mark.parametrize("form", ["deephaven", "parquet"])
def test_ids_in_files_tell_the_names_of_a_date_that_was_copied_by_hand(site: Site, form: str) -> None:
    site.do("partitions", "add", "Test", "0")
    site.merge("--format", form)
    renamed(site)
    partitions = place_of(site).partitions
    shutil.copytree(partitions / "0" / DAY, partitions / "0" / "2026-11-23")
    found = open_table(site.root, TABLE).to_arrow(["Date", "A", "N", "B"]).to_pylist()
    assert found == [{"Date": date, "A": 1, "N": "b1", "B": None} for date in (DAY, "2026-11-23")]
    assert run(site.root, "dates", "adopt", TABLE).exit_code == 0
    record = newest(place_of(site), "2026-11-23")
    assert record is not None and [output.named_by for output in record.outputs] == [1]
    assert open_table(site.root, TABLE).count(where="N = 'b1'") == 2
    assert run(site.root, "verify", "--deep").exit_code == 0


def test_a_reader_of_before_never_takes_a_name_for_its_column(site: Site) -> None:
    """Statistics and files of a location that a later version began are of other columns of these names."""
    site.do("partitions", "add", "Test", "0")
    before = open_table(site.root, TABLE)
    renamed(site)
    site.merge()
    assert site.rows("A", "N", "B") == BEFORE_AND_AFTER[:1]
    for where in ("B = 'b1'", "B IS NULL"):
        try:
            assert before.count(where=where) == (where == "B = 'b1'")
        except SnapshotMovedError as error:
            assert "Column B has another name now" in str(error)
