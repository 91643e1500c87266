"""A row of a frame for which its location has no room is rejected, and no other. No JVM."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql.types import ArrayType, LongType, StringType, StructField, StructType

import sparkhaven
from sparkhaven.readers.checks.verify import verify
from sparkhaven.store.errors import ErrorBudgetExceeded
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, TableName
from sparkhaven.store.places import StreamPlace
from sparkhaven.store.schema.deployed.deploy import deploy
from sparkhaven.store.schema.deployed.schema_changes import Consent
from sparkhaven.writers.quarantine.row_choice import Chosen
from sparkhaven.writers.quarantine.table import Quarantine
from tests.support.spark.data_source import Write

pytestmark = pytest.mark.slow
TABLE, STREAM, DATE = TableName("Test", "Sets"), "s", "2024-03-05"
SCHEMA = (
    b'<Table namespace="Test" name="Sets" storageType="NestedPartitionedOnDisk">'
    b'<Partitions keyFormula="${autobalance_single}"/><Column name="Date" dataType="String" columnType="Partitioning"/>'
    b'<Column name="Src" dataType="String"/><Column name="N" dataType="long"/>'
    b'<Column name="Tags" dataType="StringSet"/></Table>'
)
PLAIN = [StructField("Src", StringType()), StructField("N", LongType()), StructField("Tags", ArrayType(StringType()))]
PLACED = [*PLAIN, StructField("part", LongType()), StructField("off", LongType())]
ANY = '{"max_fraction": 1.0}'


def rows(numbers: range, source: str = "a", *, placed: bool = False) -> pa.RecordBatch:
    """Each with a text of its own."""
    columns = {
        "Src": pa.array([source] * len(numbers)),
        "N": pa.array(numbers, pa.int64()),
        "Tags": pa.array([[f"t{number}"] for number in numbers], pa.list_(pa.string())),
    }
    places = {"part": pa.array([0] * len(numbers), pa.int64()), "off": pa.array(numbers, pa.int64())}
    return pa.RecordBatch.from_pydict(columns | (places if placed else {}))


def plain(numbers: range, source: str = "a") -> pa.RecordBatch:
    """The same without sets."""
    return rows(numbers, source).select(["Src", "N"])


def write(root: Path, *parts: list[pa.RecordBatch], xml: bytes = SCHEMA, **more: str) -> None:
    schema = root.parent / "t.schema"
    schema.write_bytes(xml)
    given = {"root": str(root), "path": str(TABLE), "stream": STREAM, "schema": str(schema), "internal": "Src"}
    given |= {"value": json.dumps({"fixed": DATE}), "badrows": ANY, **more}
    fields = PLACED if "positions" in more else PLAIN
    begun = Write(given, StructType(fields if xml == SCHEMA else fields[:2]))
    messages = begun.tasks(*parts)
    try:
        begun.commit(messages)
    except BaseException:
        begun.abort(messages)
        raise


def stored(root: Path) -> list[int]:
    found: list[int] = sparkhaven.open_table(root, str(TABLE)).to_arrow(["N"])["N"].to_pylist()
    return sorted(found)


def rejected(root: Path) -> dict[int, tuple[str, int]]:
    """By number: reason and position. Payloads are whole rows."""
    place = StreamPlace(Fs(), Layout(root), TABLE, STREAM)
    kept = Quarantine(place, Layout(root).quarantine(STREAM), clock=lambda: 0.0)
    listed = [(json.loads(row["Payload"]), row) for row in kept.rows(Chosen())] if kept.exists else []
    assert all(payload.get("Tags", [f"t{payload['N']}"]) == [f"t{payload['N']}"] for payload, _ in listed)
    return {payload["N"]: (row["Reason"], row["Position"]) for payload, row in listed}


def sound(root: Path) -> bool:
    return verify(Fs(), Layout(root), TABLE, deep=True).errors == 0 and not any(
        Layout(root).scratch(TABLE, STREAM).iterdir()
    )


def test_a_task_rejects_what_has_no_room(tmp_path: Path) -> None:
    root = tmp_path / "db"
    write(root, [rows(range(40)), rows(range(40, 70)), rows(range(100, 110), "b")])
    assert stored(root) == [*range(64), *range(100, 110)]
    assert {number: position for number, (_, position) in rejected(root).items()} == {n: n + 1 for n in range(64, 70)}
    assert {reason for reason, _ in rejected(root).values()} == {"no-room-in-the-sets-of-the-location"}
    write(root, [rows(range(60, 70))])  # the location is full now: four of these texts are known
    assert stored(root).count(63) == 2 and sound(root)


def test_tasks_that_meet_at_a_location(tmp_path: Path) -> None:
    """The driver has the rows of both in one order, and rejects those of the second."""
    root = tmp_path / "db"
    write(root, [rows(range(30))], [rows(range(30, 50)), rows(range(50, 80))], [rows(range(80, 90), "b")])
    assert stored(root) == [*range(64), *range(80, 90)]
    assert sorted(rejected(root)) == [*range(64, 80)] and sound(root)


@pytest.mark.parametrize("parts", [1, 2])
def test_a_labelled_write_that_comes_again_changes_nothing(tmp_path: Path, parts: int) -> None:
    root = tmp_path / "db"
    batches = [[rows(range(35))], [rows(range(35, 70))]] if parts == 2 else [[rows(range(70))]]
    for _ in range(2):
        write(root, *batches, label="once")
    assert (stored(root), sorted(rejected(root))) == ([*range(64)], [*range(64, 70)])


def test_rows_with_positions_keep_them(tmp_path: Path) -> None:
    root, positions = tmp_path / "db", '{"partition": "part", "offset": "off"}'
    write(root, [rows(range(70), placed=True)], positions=positions)
    assert {number: position for number, (_, position) in rejected(root).items()} == {n: n for n in range(64, 70)}
    write(root, [rows(range(60, 75), placed=True)], positions=positions)  # offsets below 70 are committed
    assert (stored(root), sorted(rejected(root))) == ([*range(64)], [*range(64, 75)])


def test_the_budget_holds_for_them(tmp_path: Path) -> None:
    root = tmp_path / "db"
    with pytest.raises(ErrorBudgetExceeded):
        write(root, [rows(range(70))], badrows='{"max_rows": 5}')
    assert rejected(root) == {}


@pytest.mark.parametrize("tasks", [1, 3])
def test_a_location_from_before_a_widening_keeps_what_fits(tmp_path: Path, tasks: int) -> None:
    """The table has no sets. Another location has the newest form."""
    root = tmp_path / "db"
    wide = SCHEMA.replace(b'<Column name="Tags" dataType="StringSet"/>', b"")
    narrow = wide.replace(b'name="N" dataType="long"', b'name="N" dataType="short"')
    write(root, [plain(range(3))], xml=narrow)
    deploy(Fs(), Layout(root), wide, consent=Consent(changes=True))
    old, fresh = range(32_760, 32_775), range(32_775, 32_777)
    write(root, *([plain(old[task::tasks])] for task in range(tasks)), [plain(fresh, "b")], xml=wide)
    assert stored(root) == [*range(3), *range(32_760, 32_768), *fresh]
    assert {number: reason for number, (reason, _) in rejected(root).items()} == dict.fromkeys(
        range(32_768, 32_775), "too-wide-for-the-location"
    )
    assert sound(root)
