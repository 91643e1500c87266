"""History in Parquet format: what checks, inspection, statistics and removal find in it, sound and damaged."""

from __future__ import annotations

import json
import shutil
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sparkhaven.jobs.cli.reading.stats import table_figures
from sparkhaven.readers import open_table
from sparkhaven.readers.checks.findings import Report
from sparkhaven.readers.checks.verify import verify
from sparkhaven.readers.inspect.any_file import inspect_file
from sparkhaven.store.errors import CorruptFileError, SchemaMismatchError, SparkhavenError, ValidationFailedError
from sparkhaven.store.format.parquet.footer import Footer, decode_footer, encode_footer
from sparkhaven.store.format.table import table_size
from sparkhaven.store.layout import Layout, LocationKey
from sparkhaven.store.merges.merge_records import store_record
from sparkhaven.store.scan.column_file import open_parquet
from sparkhaven.store.types.committed_columns import FileState
from sparkhaven.writers.removal.removal_proof import prove
from sparkhaven.writers.validation.date_validation import validate_date
from tests.support.tables.intraday_rows import IntradayRows
from tests.support.writers.merge_cases import DAY, TABLE
from tests.support.writers.merge_runs import FS, make, merge
from tests.support.writers.removals import empty, unlink

PARQUET = "table.parquet"
SIDECAR = ".dh_metadata/indexes/Sym/index_Sym_table.parquet"


def flipped(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 3] ^= 4
    path.write_bytes(data)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def grown(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"more")


def foreign(path: Path) -> None:
    path.write_bytes(b"PAR1 of another writer PAR1")


DAMAGES: dict[str, Callable[[Path], None]] = {
    "lost": Path.unlink,
    "flipped": flipped,
    "cut": cut,
    "grown": grown,
    "foreign": foreign,
}


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, IntradayRows]:
    root = tmp_path_factory.mktemp("sound") / "db"
    db, _ = make(root, 120, partitions=1)
    merge(db.layout, format="parquet")
    db.log.close()
    return root, db


def copied(sound: tuple[Path, IntradayRows], tmp_path: Path) -> tuple[Path, Path]:
    """A copy of the tree, and its location of history."""
    shutil.copytree(sound[0], tmp_path / "db", symlinks=True)
    inside = sound[1].layout.history_location(TABLE, LocationKey("0", DAY)).relative_to(sound[0])
    return tmp_path / "db", tmp_path / "db" / inside


def checked(root: Path, *, deep: bool) -> Report:
    return verify(FS, Layout(root), TABLE, deep=deep)


def test_a_sound_location(sound: tuple[Path, IntradayRows]) -> None:
    root, db = sound
    assert checked(root, deep=True).findings == []
    place = db.layout.history_location(TABLE, LocationKey("0", DAY))
    found = inspect_file(FS, place / PARQUET)
    assert (found.kind, found.sound, found.facts["rows"], found.findings) == ("Parquet file", True, 120, [])
    assert found.facts["deephaven"]["dataIndexes"][0]["indexTablePath"] == SIDECAR
    index = inspect_file(FS, place / SIDECAR)
    assert (index.sound, index.facts["indexedRows"]) == (True, 120)
    assert index.facts["keys"] == len(set(pq.read_table(place / PARQUET)["Sym"].to_pylist()))
    stats = table_figures(db.place)
    assert stats["tiers"]["history"] == {"rows": 120, "bytes": (place / PARQUET).stat().st_size, "locations": 1}
    assert stats["waste"] == 0


@pytest.mark.slow
@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", [PARQUET, SIDECAR, "Index-Sym/Sym.dat", "Index-Sym/table.size"])
def test_damage_is_reported_and_no_row_is_wrong(
    sound: tuple[Path, IntradayRows], tmp_path: Path, name: str, damage: str
) -> None:
    root, place = copied(sound, tmp_path)
    rows = str(open_table(root, str(TABLE)).to_arrow(tier="history").to_pylist())  # as text, for NaN
    DAMAGES[damage](place / name)
    shallow, deep = (checked(root, deep=deep) for deep in (False, True))
    found = [f for f in deep.findings if f.path == str(place / name)]
    if (name, damage) == (PARQUET, "grown"):  # bytes beyond the committed length do not exist
        assert [f.severity for f in found] == ["warning"]
        again = open_table(root, str(TABLE), checksum_verify="open").to_arrow(tier="history")
        assert str(again.to_pylist()) == rows
        return
    assert found, deep.findings
    assert found[0].severity == "error"
    assert all(part for part in (found[0].what, found[0].expected, found[0].found, found[0].hint))
    if damage != "flipped":
        assert shallow.errors >= 1
    table = open_table(root, str(TABLE), checksum_verify="open")
    if name == PARQUET:
        with pytest.raises(CorruptFileError, match=r"missing|shorter|checksum"):
            table.to_arrow(tier="history")
        assert table.to_arrow(tier="intraday").num_rows == 120
    else:
        assert str(table.to_arrow(tier="history").to_pylist()) == rows  # an index is not read for rows


def test_a_file_beside_an_index_and_one_in_place_of_a_directory(
    sound: tuple[Path, IntradayRows], tmp_path: Path
) -> None:
    root, place = copied(sound, tmp_path)
    (place / "Index-Sym" / "Sym.sym").write_bytes(b"x")
    (place / "Index-Venue").mkdir()
    found = checked(root, deep=False).findings
    assert [(f.severity, f.path) for f in found] == [
        ("warning", str(place / "Index-Sym" / "Sym.sym")),
        ("warning", str(place / "Index-Venue")),
    ]
    shutil.rmtree(place / ".dh_metadata")
    assert checked(root, deep=False).errors == 1


@pytest.mark.parametrize("mode", ["off", "scrub"])
def test_without_checksums_a_damaged_footer_is_still_an_error(
    sound: tuple[Path, IntradayRows], tmp_path: Path, mode: str
) -> None:
    root, place = copied(sound, tmp_path)
    data = bytearray((place / PARQUET).read_bytes())
    data[-4:] = b"QAR1"
    (place / PARQUET).write_bytes(data)
    with pytest.raises(CorruptFileError, match="Parquet file is damaged") as caught:
        open_table(root, str(TABLE), checksum_verify=mode).to_arrow(tier="history")  # type: ignore[arg-type]
    assert str(place / PARQUET) in str(caught.value.where)


def test_fields_that_are_not_those_of_the_schema(sound: tuple[Path, IntradayRows], tmp_path: Path) -> None:
    db = sound[1]
    place = db.layout.history_location(TABLE, LocationKey("0", DAY))
    table = pq.read_table(place / PARQUET)

    def opened(changed: pa.Table, rows: int = 120) -> None:
        pq.write_table(changed, tmp_path / PARQUET)
        sizes = {PARQUET: (tmp_path / PARQUET).stat().st_size}
        found = open_parquet(FS, tmp_path, sizes, rows)
        for column in db.schema.stored:
            found.column(column).read()

    opened(table)
    opened(table.cast(pa.schema([f.remove_metadata() for f in table.schema])))  # without ids names count
    place_of = table.schema.get_field_index
    other = table.schema.field("L").with_metadata({b"PARQUET:field_id": b"99"})
    with pytest.raises(CorruptFileError, match="belongs to another column"):
        opened(table.cast(table.schema.set(place_of("L"), other)))
    with pytest.raises(SchemaMismatchError, match="another type"):
        opened(table.set_column(place_of("S"), "S", table["S"].cast(pa.int64())))
    with pytest.raises(CorruptFileError, match="another number of rows"):
        opened(table, 121)


def test_footer_entries_are_read_as_they_are_written() -> None:
    whole = Footer({("A", "B"): "x/y"}, {"C": ("codec", "class")}, {"A": "Descending"})
    for footer in (whole, Footer(), Footer(version="1.2.3")):
        assert decode_footer(encode_footer(footer), "there") == footer
    assert json.loads(encode_footer(Footer())) == {"version": "sparkhaven-1"}
    more = b'{"version": "9", "other": 1, "columnTypes": [{"columnName": "A", "specialType": "StringSet"}]}'
    assert decode_footer(more, "there") == Footer(version="9")


def test_a_date_is_validated_and_removed_by_its_parquet(tmp_path: Path) -> None:
    db, _ = make(tmp_path, 90, partitions=1)
    merge(db.layout, format="parquet")
    done = validate_date(db.place, DAY)
    assert done.passed, [r for r in done.results if not r.passed]
    assert empty(db).rows == 90
    again = validate_date(db.place, DAY)
    assert again.passed
    assert unlink(db).rows == 90
    assert open_table(tmp_path, str(TABLE)).count() == 90
    assert checked(tmp_path, deep=True).errors == 0


@pytest.mark.parametrize("damage", ["lost", "flipped", "cut", "foreign"])
def test_nothing_is_removed_where_the_parquet_is_damaged(
    sound: tuple[Path, IntradayRows], tmp_path: Path, damage: str
) -> None:
    root, place = copied(sound, tmp_path)
    db = IntradayRows(root, (root / "Schemas/Test.Every.schema").read_bytes(), fs=FS)
    DAMAGES[damage](place / PARQUET)
    with pytest.raises((SparkhavenError, OSError)) as caught:
        empty(db)
    assert not isinstance(caught.value, OSError) or damage == "lost"
    assert not isinstance(caught.value, ValidationFailedError)
    assert open_table(root, str(TABLE)).count(tier="intraday") == 120


def test_nothing_is_removed_where_a_foreign_field_has_the_name_of_a_column(tmp_path: Path) -> None:
    """The digests are those of the merge, since the file was another's already; only the field id tells."""
    db, _ = make(tmp_path, 60, partitions=1)
    merge(db.layout, format="parquet")
    proof = prove(db.place, DAY)
    assert proof.record.proof is not None
    place = db.layout.history_location(TABLE, LocationKey("0", DAY))
    table = pq.read_table(place / PARQUET)
    at = table.schema.get_field_index("L")
    other = table.schema.field("L").with_metadata({b"PARQUET:field_id": b"99"})
    pq.write_table(table.cast(table.schema.set(at, other)), place / PARQUET)
    data = (place / PARQUET).read_bytes()
    (output,) = proof.record.outputs
    state = FileState(len(data), zlib.crc32(data))
    record = replace(proof.record, outputs=(replace(output, files={PARQUET: state}),))
    store_record(db.place, record)
    size = table_size.load(FS, place)
    assert size is not None
    size = replace(size, data_file_sizes={PARQUET: state.size}, checksums={PARQUET: state.crc})
    FS.replace(place / table_size.NAME, table_size.encode(size))
    with pytest.raises(CorruptFileError, match="belongs to another column"):
        empty(db)
