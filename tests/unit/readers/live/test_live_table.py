"""Live tables over real trees: counts never go back or show part of an epoch, values are those that were written."""

from __future__ import annotations

import random
import shutil
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from readers.live.table import LiveTable
from store.errors import CorruptFileError, SettingsError, SnapshotMovedError, UnsupportedVersionError
from store.io.fs import Fs
from store.layout import Layout, TableName
from store.schema.deployed.deploy import deploy
from tests.support.streams.stream_logs import open_stream_log
from tests.support.tables.intraday_rows import IntradayRows
from tests.support.tables.live_tables import Engine
from tests.support.writers.merge_cases import ARROW, DAY, SCHEMA, TABLE, as_table, comparable, random_row
from tests.support.writers.merge_runs import FS, make, merge
from writers.removal.proof import prove
from writers.removal.remove import delete, truncate

NOW = 1_700_000_000.0
SMALL = b"""<Table namespace="NS" name="T" storageType="NestedPartitionedOnDisk">
  <Partitions keyFormula="${autobalance_single}"/>
  <Column name="Date" dataType="String" columnType="Partitioning"/>
  <Column name="Sym" dataType="String"/><Column name="Epoch" dataType="long"/>
  <Column name="Note" dataType="String" symbolTable="None"/></Table>"""


def rows_of(attached: Any, *, page: int = 1 << 18) -> list[tuple[Any, ...]]:
    columns = [[comparable(value) for value in attached.column(name, page=page)] for name in ARROW]
    return sorted(zip(*columns, strict=True), key=repr)


def expected(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return sorted((tuple(comparable(value) for value in row.values()) for row in rows), key=repr)


def more(db: IntradayRows, rows: list[dict[str, Any]], number: int, source: str = "a", day: str = DAY) -> None:
    fresh = [random_row(random.Random(len(rows) + n)) for n in range(number)]
    db.commit({(source, day): as_table(fresh)})
    rows += fresh


def remove(db: IntradayRows, *, also_delete: bool = True) -> None:
    truncate(FS, db.layout, TABLE, DAY, proof=prove(FS, db.layout, TABLE, DAY), clock=lambda: NOW)
    if also_delete:
        delete(FS, db.layout, TABLE, DAY, proof=prove(FS, db.layout, TABLE, DAY), clock=lambda: NOW + 4000)


def compact(db: IntradayRows) -> None:
    """Replaces the log by a shorter one."""
    db.log.close()
    where = db.fs, db.layout, db.table, db.stream, db.schema
    db.log = open_stream_log(*where, clock=lambda: NOW + db.batch, keep_epochs=0)
    assert db.log.compact_if_due(now=True)


def small(rows: int, epoch: int) -> pa.Table:
    return pa.table({"Sym": [f"s{epoch}"] * rows, "Epoch": [epoch] * rows, "Note": [f"n{epoch}"] * rows})


@pytest.mark.parametrize("page", [7, 64, 1 << 18])
def test_every_type_with_nulls_in_pages_of_any_size(tmp_path: Path, page: int) -> None:
    _, rows = make(tmp_path, 200)
    attached = Engine(tmp_path).attach("Test_Every")
    assert attached.count == 200
    assert attached.done == 3
    assert set(attached.values.values()) == {DAY}
    assert rows_of(attached, page=page) == expected(rows)


def test_numbers_are_the_bytes_of_the_file(tmp_path: Path) -> None:
    make(tmp_path, 50)
    attached = Engine(tmp_path).attach("Test_Every")
    for name in ("B", "C", "S", "I", "L", "F", "D", "T"):
        for place, rows in attached.sizes.items():
            array = attached.backend.values(attached.key, place, name, 0, rows, rows).column(0).chunk(0)
            assert array.type == ARROW[name]
            assert array.buffers()[0] is None
            file = Layout(tmp_path).intraday_location(TABLE, place.at) / f"{name}.dat"
            assert file.read_bytes().endswith(array.buffers()[1].to_pybytes())


@pytest.mark.parametrize("format_", ["deephaven", "parquet", "both"])
def test_an_attached_table_goes_through_a_whole_day(tmp_path: Path, format_: str) -> None:
    db, rows = make(tmp_path, 90)
    engine = Engine(tmp_path, fs=FS)
    attached = engine.attach("Test_Every")
    assert rows_of(attached) == expected(rows)
    more(db, rows, 5)
    assert attached.count == 90
    engine.look()
    assert rows_of(attached) == expected(rows)

    merge(db.layout, format=format_)
    engine.look(1)
    more(db, rows, 3)
    merge(db.layout, rewrite=True, format=format_)
    engine.look(1)
    assert rows_of(attached) == expected(rows)
    assert rows_of(engine.attach("Test_Every")) == expected(rows)
    fresh = Engine(tmp_path, fs=FS).attach("Test_Every")
    assert {place.tier for place in fresh.sizes} == {"history"}
    assert rows_of(fresh) == expected(rows)

    remove(db, also_delete=False)
    engine.look()
    delete(FS, db.layout, TABLE, DAY, proof=prove(FS, db.layout, TABLE, DAY), clock=lambda: NOW + 4000)
    engine.look()
    assert attached.errors == []
    assert rows_of(attached) == expected(rows)  # columns that nobody had read before, too

    db.log.refresh()
    more(db, rows, 4)
    engine.look()
    more(db, rows, 2)
    engine.look()
    assert rows_of(attached) == expected(rows)
    assert rows_of(Engine(tmp_path, fs=FS).attach("Test_Every")) == expected(rows)
    merge(db.layout, format=format_)
    engine.look(1)
    assert rows_of(attached) == expected(rows)
    assert attached.errors == [] and engine.notes == []


def test_rows_after_a_merge_are_shown_once_beside_history(tmp_path: Path) -> None:
    db, rows = make(tmp_path, 60)
    merge(db.layout)
    engine = Engine(tmp_path, fs=FS)
    attached = engine.attach("Test_Every")
    assert {place.tier for place in attached.sizes} == {"history"}
    more(db, rows, 6)
    engine.look()
    assert rows_of(attached, page=10) == expected(rows)
    merge(db.layout)
    engine.look(1)
    assert rows_of(attached) == expected(rows)
    assert [place.first for place in attached.sizes if place.tier == "intraday"] == [20]


def test_new_dates_sources_streams_and_tables_appear(tmp_path: Path) -> None:
    db, rows = make(tmp_path, 30)
    engine = Engine(tmp_path, fs=FS)
    attached = engine.attach("Test_Every")
    more(db, rows, 3, source="new")
    more(db, rows, 3, day="2024-03-06")
    engine.look()
    assert rows_of(attached) == expected(rows)
    assert set(attached.values.values()) == {DAY, "2024-03-06"}
    other = IntradayRows(tmp_path, SCHEMA, stream="other", fs=FS)
    more(other, rows, 4, source="o")
    engine.look(0.3)
    assert rows_of(attached) == expected(rows)
    IntradayRows(tmp_path, SMALL).commit({("a", DAY): small(2, 1)})
    engine.look(0.3)
    assert engine.attach("NS_T").column("Note") == ["n1", "n1"]


def test_epochs_that_were_shown_and_rolled_back_end_the_table(tmp_path: Path) -> None:
    db, rows = make(tmp_path, 40)
    before = list(rows)
    more(db, rows, 5)
    engine = Engine(tmp_path, fs=FS)
    attached = engine.attach("Test_Every")
    db.log.rollback(2)
    db.symbols.clear()
    with pytest.raises(SnapshotMovedError, match="rolled back to epoch 2"):
        attached.column("Sym")  # the files are others already, whatever was noticed so far
    engine.look()
    assert [type(error) for error in attached.errors][:1] == [SnapshotMovedError]
    assert "Test.Every: the served table has ended" in engine.notes[0]
    engine.look()
    again = engine.attach("Test_Every")
    assert again.key != attached.key
    assert rows_of(again) == expected(before)


def test_a_rollback_and_as_many_other_rows_between_two_looks(tmp_path: Path) -> None:
    db = IntradayRows(tmp_path, SMALL)
    for epoch in range(1, 4):
        db.commit({("a", DAY): small(2, epoch)})
    engine = Engine(tmp_path)
    attached = engine.attach("NS_T")
    db.log.rollback(2)
    db.symbols[next(iter(db.log.state.locations)), "Sym"] = {"s1": 0, "s2": 1}
    db.commit({("a", DAY): small(2, 9)})
    engine.look()
    assert [type(error) for error in attached.errors][:1] == [SnapshotMovedError]
    engine.look()
    assert engine.attach("NS_T").column("Sym") == ["s1", "s1", "s2", "s2", "s9", "s9"]


def test_epochs_that_were_never_shown_may_be_rolled_back(tmp_path: Path) -> None:
    db = IntradayRows(tmp_path, SMALL)
    db.commit({("a", DAY): small(2, 1)})
    engine = Engine(tmp_path)
    attached = engine.attach("NS_T")
    db.commit({("a", DAY): small(2, 2), ("b", DAY): small(3, 2)})
    db.log.rollback(1)
    engine.look()
    db.symbols[next(iter(db.log.state.locations)), "Sym"] = {"s1": 0}
    db.commit({("a", DAY): small(3, 7)})
    engine.look()
    assert attached.errors == []
    assert attached.column("Sym") == ["s1", "s1", "s7", "s7", "s7"]
    assert attached.column("Note") == ["n1", "n1", "n7", "n7", "n7"]


def test_a_log_that_is_compacted_between_two_looks(tmp_path: Path) -> None:
    db, rows = make(tmp_path, 30)
    engine = Engine(tmp_path, fs=FS)
    attached = engine.attach("Test_Every")
    for number in range(1, 4):
        more(db, rows, number)
    more(db, rows, 2, source="new")
    compact(db)
    engine.look()
    assert rows_of(attached) == expected(rows)
    more(db, rows, 1)
    engine.look()
    assert rows_of(attached) == expected(rows)
    assert attached.errors == [] and engine.notes == []


def test_a_rollback_that_a_compaction_has_folded_between_two_looks(tmp_path: Path) -> None:
    db = IntradayRows(tmp_path, SMALL)
    for epoch in range(1, 4):
        db.commit({("a", DAY): small(2, epoch)})
    engine = Engine(tmp_path)
    attached = engine.attach("NS_T")
    db.log.rollback(2)
    db.symbols[next(iter(db.log.state.locations)), "Sym"] = {"s1": 0, "s2": 1}
    db.commit({("a", DAY): small(2, 9)})
    compact(db)
    engine.look()
    assert [type(error) for error in attached.errors][:1] == [SnapshotMovedError]


def test_a_location_that_came_and_went_between_two_looks_ends_the_table(tmp_path: Path) -> None:
    db, rows = make(tmp_path, 30)
    merge(db.layout)
    engine = Engine(tmp_path, fs=FS)
    attached = engine.attach("Test_Every")
    more(db, rows, 4, source="brief")
    merge(db.layout)
    remove(db)
    compact(db)
    engine.look()
    assert "rows that this table has not seen" in str(attached.errors[0])
    engine.look()
    assert rows_of(engine.attach("Test_Every")) == expected(rows)


def test_a_date_of_history_that_comes_from_elsewhere(tmp_path: Path) -> None:
    db, rows = make(tmp_path / "one", 30)
    merge(db.layout)
    other = IntradayRows(tmp_path / "two", SCHEMA, stream="other", fs=FS)
    mine: list[dict[str, Any]] = []
    more(other, mine, 3, day="2024-03-06")
    engine = Engine(tmp_path / "two", fs=FS)
    attached = engine.attach("Test_Every")
    shutil.copytree(db.layout.system("Test"), other.layout.system("Test"), symlinks=True)
    engine.look(0.3)
    assert rows_of(attached) == expected(rows + mine)
    assert set(attached.values.values()) == {DAY, "2024-03-06"}


def test_rows_removed_before_they_could_be_mapped_end_the_table(tmp_path: Path) -> None:
    db, rows = make(tmp_path, 40)
    engine = Engine(tmp_path, fs=FS)
    attached = engine.attach("Test_Every")
    merge(db.layout)
    remove(db)  # both phases between two looks
    engine.look()
    assert [type(error) for error in attached.errors][:1] == [SnapshotMovedError]
    assert "before this table had mapped them" in str(attached.errors[0])
    engine.look()
    assert rows_of(engine.attach("Test_Every")) == expected(rows)


def test_history_that_was_replaced_and_cleaned_ends_the_table_when_it_is_asked_for(tmp_path: Path) -> None:
    db, rows = make(tmp_path, 30)
    merge(db.layout)
    engine = Engine(tmp_path, fs=FS)
    attached = engine.attach("Test_Every")
    attached.column("L")
    for place in attached.sizes:
        db.fs.remove_tree(db.layout.history_location(TABLE, place.at))
    attached.column("L")  # mapped before
    with pytest.raises(SnapshotMovedError, match="merged again"):
        attached.column("I")
    assert rows


def test_a_column_that_was_added_is_null_in_older_rows_of_the_next_opening(tmp_path: Path) -> None:
    db = IntradayRows(tmp_path, SMALL)
    db.commit({("a", DAY): small(2, 1)})
    engine = Engine(tmp_path)
    attached = engine.attach("NS_T")
    wider = SMALL.replace(b"</Table>", b'<Column name="Px" dataType="double"/></Table>')
    deploy(Fs(), Layout(tmp_path), wider)
    engine.look(0.3)
    again = engine.attach("NS_T")
    assert again.key != attached.key
    assert again.column("Px") == [None, None]
    db.commit({("a", DAY): small(1, 2)})
    engine.look()
    assert attached.column("Epoch") == again.column("Epoch") == [1, 1, 2]
    assert again.column("Px") == [None, None, None]


def test_types_and_names_that_an_engine_cannot_take_are_refused(tmp_path: Path) -> None:
    deploy(Fs(), Layout(tmp_path), SMALL.replace(b'dataType="long"', b'dataType="LocalDate"'))
    with pytest.raises(UnsupportedVersionError, match="column Epoch has type LocalDate"):
        Engine(tmp_path, "NS.T")
    assert "NS.T is not served" in Engine(tmp_path).notes[0]
    other = tmp_path / "other"
    other.mkdir()
    deploy(Fs(), Layout(other), SMALL.replace(b'name="Epoch"', b'name="long"'))
    with pytest.raises(SettingsError, match="its name is reserved"):
        Engine(other, "NS.T")


def test_changed_bytes_are_an_error_and_no_value(tmp_path: Path) -> None:
    from store.scan.checksums import Checks

    db, _ = make(tmp_path, 40)
    path = db.layout.intraday_location(TABLE, next(iter(db.log.state.locations))) / "L.dat"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    table = LiveTable(Fs(), db.layout, TableName("Test", "Every"), Checks(kept=0))
    place = next(place for place in table.places() if place.at == next(iter(db.log.state.locations)))
    with pytest.raises(CorruptFileError, match="checksum"):
        table.values(place, "L", 0, 1, 10)
    assert len(table.values(place, "I", 0, 1, 10)) > 0


class CountingFs(Fs):
    """Counts the files that are mapped."""

    maps = 0

    def map(self, path: Path, length: int) -> pa.Buffer:
        self.maps += 1
        return super().map(path, length)


def test_memory_of_small_files_is_bounded_unless_they_are_gone(tmp_path: Path) -> None:
    db, _ = make(tmp_path, 40)
    counts = []
    for memory in (1, 1 << 20):
        fs = CountingFs()
        table = LiveTable(fs, db.layout, TABLE, memory=memory)
        place = table.places()[0]
        found = [table.values(place, name, 0, 5, 5).to_pylist() for name in ("L", "Sym", "L", "Sym")]
        assert found[:2] == found[2:]
        counts.append(fs.maps)
    assert counts == [8, 4]

    table = LiveTable(FS, db.layout, TABLE, memory=1)
    merge(db.layout)
    remove(db, also_delete=False)
    table.advance()
    delete(FS, db.layout, TABLE, DAY, proof=prove(FS, db.layout, TABLE, DAY), clock=lambda: NOW + 4000)
    for _ in range(2):
        assert [table.values(place, name, 0, 5, 5).to_pylist() for name in ("L", "Sym")] == found[:2]


def test_counts_beside_a_running_writer_are_sums_of_whole_epochs(tmp_path: Path) -> None:
    db = IntradayRows(tmp_path, SMALL)
    db.commit({("a", DAY): small(1, 1), ("b", DAY): small(1, 1)})
    engine = Engine(tmp_path)
    attached = engine.attach("NS_T")
    failures: list[BaseException] = []

    def write() -> None:
        try:
            for epoch in range(2, 200):
                part = small(epoch % 3 + 1, epoch)
                db.commit({("a", DAY): part, ("b", DAY): part})
        except BaseException as error:
            failures.append(error)

    sums = [0]
    for epoch in range(1, 200):
        sums.append(sums[-1] + 2 * (1 if epoch == 1 else epoch % 3 + 1))
    writer = threading.Thread(target=write)
    writer.start()
    seen: list[int] = []
    while writer.is_alive() or attached.count < sums[-1]:
        engine.look()
        seen.append(attached.count)
        assert attached.errors == [] and failures == []
        column = attached.column("Epoch", page=16)
        epoch = sums.index(attached.count)
        wanted = [n for n in range(1, epoch + 1) for _ in range(1 if n == 1 else n % 3 + 1)]
        assert column == wanted * 2
        assert attached.column("Sym", page=50) == [f"s{n}" for n in wanted] * 2
    writer.join()
    assert seen == sorted(seen)
    assert set(seen) <= set(sums)
