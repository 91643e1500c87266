"""A real Deephaven engine shows a snapshot as all other readers do, types with a codec too, and what users have saved.

One root and one engine for all of it: an engine starts as long as all its tests run.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from sparkhaven import save_table
from tests.contracts.codings.coded_readers import (
    CODED_NAME,
    JAVA,
    MAPS,
    CodedReaderContract,
    CodedSnapshot,
    from_engine,
    make_coded_snapshot,
)
from tests.contracts.readers.snapshot_readers import NAME, Snapshot, SnapshotReaderContract, make_snapshot
from tests.support.docs.where_table import VALUES, engine_filter, kept_values
from tests.support.served import Served, require_engine, serving

pytestmark = pytest.mark.deephaven

USERS = {"Splayed": None, "Partitioned": "Day"}
SAVED = pa.table({"Day": ["a", "b", "a"], "N": pa.array([1, 2, None], pa.int64()), "Text": ["x", None, "é"]})


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    require_engine()
    return make_snapshot(tmp_path_factory.mktemp("readers") / "db")


@pytest.fixture(scope="module")
def coded_snapshot(snapshot: Snapshot) -> CodedSnapshot:
    return make_coded_snapshot(snapshot.root, maps=False)


@pytest.fixture(scope="module")
def served(snapshot: Snapshot, coded_snapshot: CodedSnapshot) -> Iterator[Served]:
    for name, by in USERS.items():
        save_table(snapshot.root, f"me.{name}", SAVED, partition_by=by)
    numbers = [None if value == "null" else float(value) for value in VALUES]
    save_table(snapshot.root, "me.Numbers", pa.table({"Row": range(len(VALUES)), "x": pa.array(numbers, pa.float64())}))
    with serving(snapshot.root, snapshot.root.parent) as served:
        for variable, table, rows in (("every", NAME, snapshot.rows), ("coded", CODED_NAME, coded_snapshot.rows)):
            served.attach(variable, table.replace(".", "_"))
            served.wait_count(variable, len(rows))
        yield served


class TestEngine(SnapshotReaderContract):
    @pytest.fixture(autouse=True)
    def _attached(self, served: Served) -> None:
        self.served = served

    def read(self, root: Path) -> pa.Table:
        return self.served.rows("every")

    def read_date(self, root: Path, date: str) -> pa.Table:
        return self.served.rows("every", where=[f"Date = `{date}`"])

    def count(self, root: Path) -> int:
        return int(self.served.ask("count", name="every"))


class TestEngineOfCodedTypes(CodedReaderContract):
    lacks = frozenset({MAPS})

    @pytest.fixture(autouse=True)
    def _attached(self, served: Served) -> None:
        self.served = served

    def read(self, root: Path) -> pa.Table:
        return from_engine(self.served.rows("coded"))

    def read_date(self, root: Path, day: str) -> pa.Table:
        return from_engine(self.served.rows("coded", where=[f"Date = `{day}`"]))

    def test_columns_have_the_types_of_java(self, coded_snapshot: CodedSnapshot) -> None:
        fields = self.served.rows("coded", where=["N = 0"]).schema
        found = {name: (fields.field(name).metadata or {}).get(b"deephaven:type", b"").decode() for name in JAVA}
        assert found == JAVA

    @pytest.mark.parametrize(
        "condition",
        [
            "Day != null && Day.getYear() > 2000",
            "Clock != null && Clock.getHour() < 12",
            "Px != null && Px.signum() > 0",
            "Huge != null && Huge.bitLength() > 10",
            "Doubles != null && Doubles.length > 2",
            "Flags != null && Flags.length > 0 && Flags[0] == 1",
            "Tags.length > 0 && Tags[0] != null",
            "Raw != null && Raw.length > 3",
        ],
    )
    def test_queries_use_them(self, coded_snapshot: CodedSnapshot, condition: str) -> None:
        chosen = self.served.rows("coded", where=[condition]).num_rows
        assert 0 < chosen < len(coded_snapshot.rows)


@pytest.mark.parametrize("name", USERS)
def test_a_table_of_a_user_and_its_next_save(served: Served, name: str) -> None:
    rows = SAVED.to_pylist()
    served.attach(name, f"me_{name}")
    served.wait_count(name, len(rows))
    columns = sorted(SAVED.column_names)
    assert by_text(served.rows(name).select(columns)) == by_text(SAVED.select(columns))
    save_table(served.root, f"me.{name}", SAVED, mode="append", partition_by=USERS[name])
    served.wait_anew(name, f"me_{name}", 2 * len(rows))


def test_a_filter_keeps_what_the_page_of_conditions_says(served: Served) -> None:
    served.attach("numbers", "me_Numbers")
    served.wait_count("numbers", len(VALUES))
    said = {engine_filter(condition): kept for condition, (_, kept) in kept_values().items()}
    found = {text: served.rows("numbers", where=[text])["Row"].to_pylist() for text in said}
    assert said and {text: [VALUES[row] for row in rows] for text, rows in found.items()} == said


def by_text(table: pa.Table) -> list[str]:
    return sorted(repr([row[name] for name in table.column_names]) for row in table.to_pylist())
