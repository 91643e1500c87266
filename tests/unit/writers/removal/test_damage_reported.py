"""Every kind of damage to a file of a location, of history or of the schema is reported by checks and by readers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sparkhaven.readers import open_table
from sparkhaven.readers.checks.verify import verify
from sparkhaven.store.errors import SparkhavenError
from sparkhaven.store.format.column.prefix import DATA_OFFSET, encode_prefix
from sparkhaven.store.format.index.grouping import encode_ovr
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, LocationKey
from sparkhaven.store.merges.merge_records import newest
from sparkhaven.store.places import TablePlace
from sparkhaven.store.scan.column_file import column_header, read_grouping
from sparkhaven.store.schema.deployed.deploy import load_deployed
from sparkhaven.writers.removal.removal_proof import States, prove
from sparkhaven.writers.removal.row_removal import truncate
from tests.support.tables.intraday_rows import IntradayRows
from tests.support.writers.merge_cases import DAY, TABLE
from tests.support.writers.merge_runs import FS, make, merge
from tests.support.writers.removals import NOW

INTRADAY = ("I.dat", "Sym.dat", "Sym.sym", "Sym.sym.bytes", "Note.dat", "Note.bytes", "table.size", "table.tbl")
HISTORY = (*INTRADAY, "Sym.ovr")
READ = (".dat", ".sym", ".bytes")  # what a read opens


def intraday(layout: Layout, internal: str = "b") -> Path:
    return layout.intraday_location(TABLE, LocationKey(internal, DAY))


def history(layout: Layout, number: int = 0) -> Path:
    record = newest(TablePlace(FS, layout, TABLE), DAY)
    assert record is not None
    return layout.history_location(TABLE, LocationKey(record.outputs[number].internal, DAY))


def errors(layout: Layout, *, deep: bool = True) -> list[str]:
    return [f.path for f in verify(Fs(), layout, deep=deep).findings if f.severity == "error"]


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) - 1 - len(data) // 7] ^= 4
    path.write_bytes(data)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def lose(path: Path) -> None:
    path.unlink()


def put_foreign(path: Path) -> None:
    other = path.parent / ("T.dat" if path.name == "I.dat" else f"Venue.{path.name.partition('.')[2]}")
    if path.name in ("table.size", "table.tbl", "Sym.ovr", "Note.bytes"):
        other = path.parent / "L.dat"
    path.write_bytes(other.read_bytes())


DAMAGES: tuple[Callable[[Path], None], ...] = (flip, cut, empty, lose, put_foreign)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> IntradayRows:
    """A date in both tiers; Sym has more groups than fit a prefix."""
    db, _ = make(tmp_path_factory.mktemp("sound"), 60, partitions=1)
    merge(db.layout)
    assert errors(db.layout) == []
    return db


@pytest.mark.slow
@pytest.mark.campaign
@pytest.mark.parametrize("damage", DAMAGES, ids=lambda act: act.__name__)
@pytest.mark.parametrize(
    ("tier", "name"), [("intraday", name) for name in INTRADAY] + [("history", name) for name in HISTORY]
)
def test_files_of_a_location(sound: IntradayRows, tier: str, name: str, damage: Callable[[Path], None]) -> None:
    place = intraday(sound.layout) if tier == "intraday" else history(sound.layout)
    path = place / name
    if name == "Sym.ovr":
        overflow(place)
    before = path.read_bytes()
    expected = open_table(sound.root, str(TABLE)).to_arrow(tier=tier).to_pydict().__repr__()
    try:
        damage(path)
        found = errors(sound.layout)
        missing_record = (
            name == "table.size" and tier == "intraday" and damage is lose
        )  # derived from the log: a remark
        assert (
            missing_record
            or any(reported.endswith(name) for reported in found)
            or any(reported.startswith(str(place)) for reported in found)
        ), found
        try:
            rows = open_table(sound.root, str(TABLE)).to_arrow(tier=tier).to_pydict().__repr__()
        except SparkhavenError as error:
            assert name.endswith(READ)
            assert str(place) in str(error)
        else:
            assert rows == expected
            assert not name.endswith(READ)
    finally:
        path.write_bytes(before)
    assert errors(sound.layout) == []


def overflow(place: Path) -> None:
    """Moves the grouping of Sym from the prefix to an overflow file."""
    column = load_deployed(TablePlace(FS, Layout(place.parents[5]), TABLE)).column("Sym")
    assert column is not None
    if not column_header(FS, place / "Sym.dat").overflow:
        rows = ((place / "I.dat").stat().st_size - DATA_OFFSET) // 4
        ranges = read_grouping(FS, place, column, rows)
        assert ranges is not None
        (place / "Sym.ovr").write_bytes(encode_ovr(ranges))
        with (place / "Sym.dat").open("r+b") as file:
            file.write(encode_prefix(column, overflow=True))


def test_a_lost_definition_is_written_by_recovery(tmp_path: Path) -> None:
    db, _ = make(tmp_path, 12)
    path = intraday(db.layout) / "table.tbl"
    whole = path.read_bytes()
    path.write_bytes(b"garbage")
    (found,) = [f for f in verify(FS, db.layout).findings if f.severity == "error"]
    assert found.path == str(path)
    assert "remove the file, then run `sparkhaven recover`" in str(found.hint)
    path.unlink()
    assert errors(db.layout, deep=False) == [str(path)]
    db.log.close()
    db.open().close()
    assert path.read_bytes() == whole
    assert errors(db.layout) == []


def test_lost_schemas_leave_a_table_that_is_reported(tmp_path: Path) -> None:
    db, _ = make(tmp_path, 12)
    db.layout.schema(TABLE).unlink()
    db.layout.schema_history(TABLE).unlink()
    report = verify(FS, db.layout)
    assert report.tables == 1
    assert [f.what for f in report.findings] == [
        f"the deployed schema of {TABLE} is missing, although the table is here"
    ]
    with pytest.raises(SparkhavenError, match="is missing, although the table is here"):
        open_table(db.root, str(TABLE))


@pytest.mark.parametrize("lost", ["record", "all records", "record and validation"])
def test_a_lost_merge_record_of_a_truncated_date(tmp_path: Path, lost: str) -> None:
    db, _ = make(tmp_path, 12)
    merge(db.layout)
    truncate(States(db.place), proof=prove(db.place, DAY), clock=lambda: NOW)
    assert open_table(db.root, str(TABLE)).count() == 12
    directory = db.layout.merges(TABLE) / DAY
    for path in directory.iterdir():
        if lost == "all records" or path.suffix == ".json" or lost == "record and validation":
            path.unlink()
    if lost == "all records":
        directory.rmdir()
    with pytest.raises(SparkhavenError, match="a merge record is missing"):
        open_table(db.root, str(TABLE)).count()
    assert open_table(db.root, str(TABLE)).count(tier="intraday") == 0
    assert errors(db.layout, deep=False)


@pytest.mark.slow
def test_no_bit_of_an_overflow_file_can_flip_unseen(sound: IntradayRows) -> None:
    place = history(sound.layout)
    overflow(place)
    path = place / "Sym.ovr"
    before = path.read_bytes()
    column = load_deployed(sound.place).column("Sym")
    assert column is not None
    whole = read_grouping(FS, place, column, 60)
    assert whole is not None
    try:
        for at in range(len(before)):
            data = bytearray(before)
            data[at] ^= 1 << at % 8
            path.write_bytes(data)
            try:
                found = read_grouping(FS, place, column, 60)
            except SparkhavenError as error:
                assert str(path) in str(error)
            else:  # another key, which only the rows tell
                assert found is not None
                assert found.keys != whole.keys, f"byte {at}"
                assert str(place / "Sym.dat") in errors(sound.layout), f"byte {at}"
    finally:
        path.write_bytes(before)


@pytest.mark.slow
@pytest.mark.parametrize("at", range(40))
def test_no_bit_of_the_location_index_can_flip_unseen(sound: IntradayRows, at: int) -> None:
    path = sound.layout.metadata_index(TABLE)
    before = path.read_bytes()
    data = bytearray(before)
    data[at * len(data) // 40] ^= 1 << at % 8
    try:
        path.write_bytes(data)
        assert str(path) in errors(sound.layout, deep=False)
    finally:
        path.write_bytes(before)
