"""What live tables keep: mappings go with the table that has ended or is no longer followed, records are read once."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from sparkhaven.readers.live.live_table import LiveTable
from sparkhaven.store.errors import SnapshotMovedError
from sparkhaven.store.io.fs import MAP_FROM, Fs
from sparkhaven.store.layout import Layout, TableName
from sparkhaven.store.places import TablePlace
from sparkhaven.store.schema.deployed.deploy import deploy
from tests.support.tables.intraday_rows import IntradayRows
from tests.support.tables.live_rows import SMALL, small
from tests.support.tables.live_tables import Attached, Engine
from tests.support.writers.merge_cases import DAY, TABLE
from tests.support.writers.merge_runs import FS, make, merge

ROWS = MAP_FROM // 8


def mapped(root: Path) -> set[str]:
    """Files below a root that this process has mapped."""
    lines = Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
    return {Path(line.split()[-1]).name for line in lines if str(root) in line}


def touch(attached: Attached) -> None:
    for place, rows in attached.sizes.items():
        attached.backend.values(attached.key, place, "Epoch", 0, rows, rows)


@pytest.fixture
def db(tmp_path: Path) -> IntradayRows:
    made = IntradayRows(tmp_path, SMALL, fs=FS)
    made.commit({("a", DAY): small(ROWS, 1)})
    return made


def test_a_table_that_has_ended_keeps_no_mapping_and_answers_with_its_error(db: IntradayRows, tmp_path: Path) -> None:
    db.commit({("a", DAY): small(1, 2)})
    engine = Engine(tmp_path, fs=FS)
    attached = engine.attach("NS_T")
    touch(attached)
    assert mapped(tmp_path) == {"Epoch.dat"}
    db.log.rollback(1)
    engine.look()
    assert len(attached.errors) > 0
    assert mapped(tmp_path) == set()
    with pytest.raises(SnapshotMovedError, match="rolled back"):
        touch(attached)


def test_a_table_of_an_older_schema_keeps_its_mappings_until_it_is_left(db: IntradayRows, tmp_path: Path) -> None:
    engine = Engine(tmp_path)
    attached = engine.attach("NS_T")
    touch(attached)
    deploy(Fs(), Layout(tmp_path), SMALL.replace(b"</Table>", b'<Column name="Px" dataType="double"/></Table>'))
    engine.look(0.3)
    touch(attached)
    assert mapped(tmp_path) == {"Epoch.dat"}
    attached.leave()
    engine.look()
    assert mapped(tmp_path) == set()


class ReadsOfRecords(Fs):
    """Counts the merge records that are read."""

    records = 0

    def read(self, path: Path) -> bytes:
        self.records += path.parent.parent.name.endswith(".merges")
        return super().read(path)


def test_opening_reads_each_merge_record_once(tmp_path: Path) -> None:
    db, _ = make(tmp_path, 30)
    merge(db.layout)
    fs = ReadsOfRecords()
    table = LiveTable(TablePlace(fs, db.layout, TABLE))
    assert table.rows == 30
    assert fs.records == 1
    table.advance(wide=True)
    assert fs.records == 1
    assert isinstance(table.values(table.places()[0], "L", 0, 1, 1), pa.Array)
    assert TableName("Test", "Every") == table.name
