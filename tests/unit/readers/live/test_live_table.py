"""Live tables over real trees: counts never go back or show part of an epoch, values are those that were written."""

from __future__ import annotations

import threading
from pathlib import Path

import pyarrow as pa
import pytest

from sparkhaven.readers.live.live_table import LiveTable
from sparkhaven.store.errors import CorruptFileError, SettingsError, UnsupportedVersionError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, TableName
from sparkhaven.store.places import TablePlace
from sparkhaven.store.schema.deployed.deploy import deploy
from sparkhaven.writers.removal.removal_proof import States, prove
from sparkhaven.writers.removal.row_removal import delete
from tests.support.tables.intraday_rows import IntradayRows
from tests.support.tables.live_rows import NOW, SMALL, expected, more, remove, rows_of, small
from tests.support.tables.live_tables import Engine
from tests.support.writers.merge_cases import ARROW, DAY, SCHEMA, TABLE
from tests.support.writers.merge_runs import FS, make, merge


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


@pytest.mark.slow
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
    delete(States(db.place), proof=prove(db.place, DAY), clock=lambda: NOW + 4000)
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
    deploy(Fs(), Layout(tmp_path), SMALL.replace(b'dataType="long"', b'dataType="java.util.Map"'))
    with pytest.raises(UnsupportedVersionError, match="column Epoch has type Map"):
        Engine(tmp_path, "NS.T")
    assert "NS.T is not served" in Engine(tmp_path).notes[0]
    other = tmp_path / "other"
    other.mkdir()
    deploy(Fs(), Layout(other), SMALL.replace(b'name="Epoch"', b'name="long"'))
    with pytest.raises(SettingsError, match="Its name is reserved"):
        Engine(other, "NS.T")


def test_changed_bytes_are_an_error_and_no_value(tmp_path: Path) -> None:
    from sparkhaven.store.scan.checksums import Checks

    db, _ = make(tmp_path, 40)
    path = db.layout.intraday_location(TABLE, next(iter(db.log.state.locations))) / "L.dat"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    table = LiveTable(TablePlace(Fs(), db.layout, TableName("Test", "Every")), Checks(kept=0))
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
        table = LiveTable(TablePlace(fs, db.layout, TABLE), memory=memory)
        place = table.places()[0]
        found = [table.values(place, name, 0, 5, 5).to_pylist() for name in ("L", "Sym", "L", "Sym")]
        assert found[:2] == found[2:]
        counts.append(fs.maps)
    assert counts == [8, 4]

    table = LiveTable(db.place, memory=1)
    merge(db.layout)
    remove(db, also_delete=False)
    table.advance()
    delete(States(db.place), proof=prove(db.place, DAY), clock=lambda: NOW + 4000)
    for _ in range(2):
        assert [table.values(place, name, 0, 5, 5).to_pylist() for name in ("L", "Sym")] == found[:2]


@pytest.mark.slow
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
