"""The metadata tables: what each says of a table that has gone through all of its life."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from sparkhaven.jobs.monitor.metadata import METADATA, metadata_table
from sparkhaven.jobs.monitor.storage import INTRADAY
from sparkhaven.readers.arrow.opening import open_place
from sparkhaven.store.epochs.files.stream_notes import note_failure
from sparkhaven.store.errors import CommitError
from sparkhaven.store.merges.merge_records import newest
from sparkhaven.store.merges.validations import RuleResult, Validation, binding, store_validation
from sparkhaven.store.quarantine.ledger import Ledger, write_ledger
from tests.support.tables.small_tables import SmallTable
from tests.support.writers.quarantine_tables import FIRST, added, row, version

DAY = "2026-01-01"


def rows(small: SmallTable, name: str) -> list[dict[str, object]]:
    found: list[dict[str, object]] = metadata_table(small.place, name).to_pylist()
    return found


@pytest.fixture
def small(tmp_path: Path) -> SmallTable:
    """Two dates of two sources; the first is merged."""
    made = SmallTable(tmp_path / "db")
    for day in (DAY, "2026-01-02"):
        for source in "ab":
            made.add(source, day, {"Sym": ["x", "y"], "Size": [1, 2]})
    made.merge_by_hand(DAY, 1)
    return made


@pytest.mark.parametrize("name", sorted(METADATA))
def test_each_has_its_columns_whatever_there_is(small: SmallTable, name: str, tmp_path: Path) -> None:
    found = metadata_table(small.place, name)
    assert dict(zip(found.schema.names, found.schema.types, strict=True)) == METADATA[name][0]
    empty = SmallTable(tmp_path / "empty")
    assert metadata_table(empty.place, name).schema == found.schema


def test_epochs_and_streams(small: SmallTable) -> None:
    note_failure(small.place.of_stream("s"), CommitError("no room"), 5000)
    found = rows(small, "epochs")
    assert [(line["stream"], line["epoch"], line["kind"], line["rows"]) for line in found] == [
        ("s", number, "commit", 2) for number in (1, 2, 3, 4)
    ]
    assert [line["seconds"] for line in found] == [None, 60.0, 60.0, 60.0]
    (stream,) = rows(small, "streams")
    assert (stream["epoch"], stream["rows"], stream["left"], stream["failed"]) == (4, 8, "rows", "CommitError")
    assert stream["failed_at"] == datetime.fromtimestamp(5, UTC) and stream["last_commit"] == found[-1]["time"]


def test_locations_files_and_columns_have_every_committed_byte_once(small: SmallTable) -> None:
    locations, files = rows(small, "locations"), rows(small, "files")
    assert sum(int(str(line["rows"])) for line in locations if line["tier"] == INTRADAY) == 8
    assert {line["volume"] for line in locations} == {INTRADAY, "0", "1"}
    whole = sum(int(str(line["bytes"])) for line in locations)
    assert whole == sum(int(str(line["bytes"])) for line in files) > 0
    for line in files:
        assert (Path(str(line["directory"])) / str(line["file"])).stat().st_size >= int(str(line["bytes"]))
    columns = {line["column"]: line for line in rows(small, "columns")}
    assert list(columns) == [column.name for column in open_place(small.place).schema.columns]
    assert whole == sum(int(str(line["bytes"] or 0)) for line in columns.values())
    assert (columns["Sym"]["type"], columns["Date"]["kind"]) == ("String", "PARTITIONING")


def test_dates_merges_and_validations(small: SmallTable) -> None:
    first, second = rows(small, "dates")
    assert (first["date"], first["merged"], first["unmerged"], first["validation"]) == (DAY, 4, 0, "missing")
    assert (second["merged"], second["unmerged"], second["sources"]) == (0, 4, ["a", "b"])
    (merge,) = rows(small, "merges")
    assert (merge["date"], merge["generation"], merge["rows"], merge["rows_in"]) == (DAY, 1, 4, 4)
    record = newest(small.place, DAY)
    assert record is not None and rows(small, "validations") == []
    results = (
        RuleResult("assertSize", "Size", 1, 5, 9.5, False, "1 row"),
        RuleResult("assertNotNull", "Px", 2, 0, 0, None),
    )
    bound = binding(record, small.schema.rules)
    store_validation(small.place, Validation(str(small.table), DAY, 1, 4, results, binding=bound, time_ms=7000))
    failed, skipped = rows(small, "validations")
    assert (failed["rule"], failed["passed"], failed["measured"], failed["upper"]) == ("assertSize", False, "1", "9.5")
    assert (skipped["passed"], skipped["time"]) == (None, datetime.fromtimestamp(7, UTC))


def test_rejected_rows_with_their_payloads(small: SmallTable) -> None:
    place = small.root / "Quarantine" / "s"
    place.mkdir(parents=True)
    owner = {"Namespace": "NS", "TableName": "T", "Stream": "s"}
    version(
        place, 0, *FIRST, added(place, "rows", [row("/feed/1.json", n, 1, **owner, Payload=b"{}") for n in range(3)])
    )
    write_ledger(small.place.of_stream("s"), Ledger(str(place), "", 4))
    found = rows(small, "rejected")
    assert [(line["source"], line["position"], line["payload"]) for line in found] == [
        ("/feed/1.json", number, b"{}") for number in range(3)
    ]
    assert {line["reason"] for line in found} == {"overflow"}


def test_schema_versions(small: SmallTable) -> None:
    (first,) = rows(small, "schema_versions")
    assert first["version"] == 1 and first["added"] == first["columns"] and first["first_rows"] is not None


def test_a_name_that_is_none(small: SmallTable) -> None:
    with pytest.raises(KeyError):
        metadata_table(small.place, "rows")
