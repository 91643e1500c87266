"""Adoption of history: killed at each change of the disk, beside readers that were open before, and foreign forms."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sparkhaven.readers import open_table
from sparkhaven.store.errors import CorruptFileError, SnapshotMovedError
from sparkhaven.store.format.table import table_size
from sparkhaven.store.layout import Layout, TableName
from sparkhaven.store.merges.merge_records import load_record
from sparkhaven.store.places import TablePlace
from sparkhaven.writers.merge.adoption import adopt_dates
from tests.support.commands import run
from tests.support.disks.clock import wait_for_tick
from tests.support.disks.model_fs import Crash, KillingFs, QuickFs
from tests.support.moves.operations import (
    BOTH,
    DAY,
    OTHER,
    TABLE,
    Spot,
    copied_date,
    copied_date_to_other_root,
    copied_location,
    database,
    moved_date,
    removed_location,
    renamed_date,
)
from tests.support.streams.dated_site import OLD, Dated
from tests.support.streams.schema_site import TABLE as SITE_TABLE
from tests.support.writers.merge_runs import FS

pytestmark = pytest.mark.filterwarnings("ignore::sparkhaven.store.errors.HistoryWarning")
NOW = 1_800_000_000.0


def values(root: Path) -> list[int]:
    return sorted(open_table(root, TABLE).to_arrow(columns=["X"])["X"].to_pylist())


def place_of(root: Path, fs: QuickFs = FS) -> TablePlace:
    return TablePlace(fs, Layout(root), TableName.parse(TABLE))


def adopt(root: Path, fs: QuickFs = FS, *, accept_loss: bool = False) -> None:
    for done in adopt_dates(place_of(root, fs), None, clock=lambda: NOW, accept_loss=accept_loss):
        assert done.error is None, done


def foreign(root: Path, form: str) -> None:
    """One date as another program leaves it: no checksums, no records, other names of files."""
    shutil.rmtree(root / "Systems" / "NS" / "MetadataIndex")
    if form == "parquet":
        rows = open_table(root, TABLE).to_arrow(columns=["Sym", "X"], dates=[DAY])
        shutil.rmtree(Spot(root).location)
        Spot(root).location.mkdir()
        pq.write_table(
            pa.table({"Sym": rows["Sym"].cast(pa.string()), "X": rows["X"]}), Spot(root).location / "table.parquet"
        )
        return
    size = table_size.load(FS, Spot(root).location)
    assert size is not None
    bare = table_size.TableSize(size.size, size.last_modified_ms, size.data_file_sizes)
    (Spot(root).location / "table.size").write_bytes(table_size.encode(bare))


def columns_alone(spot: Spot) -> Path:
    """A date as another program leaves it, in column files without a definition."""
    foreign(spot.root, "columns")
    (spot.location / "table.tbl").unlink()
    return spot.root


def parquet_alone(spot: Spot) -> Path:
    foreign(spot.root, "parquet")
    return spot.root


def of_an_older_schema(spot: Spot) -> Path:
    """A date in a root whose schema has had a column from its first version on that the date was written without."""
    schema = (spot.root / "Schemas" / f"{TABLE}.schema").read_text()
    younger = spot.root.parent / f"{TABLE}.schema"
    younger.write_text(schema.replace("</Table>", '<Column name="Later" dataType="int"/></Table>'))
    assert run(spot.other, "schema", "deploy", younger).exit_code == 0
    shutil.copytree(spot.location, spot.elsewhere(spot.location))
    return spot.other


FOREIGN = [columns_alone, parquet_alone, of_an_older_schema]


@pytest.mark.parametrize("operation", [copied_date_to_other_root, moved_date, *FOREIGN])
def test_killed_at_each_change(tmp_path: Path, operation: Any) -> None:
    original = database(tmp_path / "original")
    for call in range(100):
        base = tmp_path / str(call)
        shutil.copytree(original, base / "db", symlinks=True)
        root = operation(Spot(base / "db", base / "other"))
        before = values(root)
        fs = KillingFs(crash_after=call)
        try:
            adopt(root, fs)
        except Crash:
            assert values(root) == before
            adopt(root)
        assert values(root) == before
        assert run(root, "verify", TABLE, "--deep").exit_code == 0
        assert run(root, "metadata", "validate", TABLE).exit_code == 0
        if not fs.dead:
            assert call > 3
            return
    raise AssertionError("adoption never ends")


@pytest.mark.parametrize("operation", [copied_date_to_other_root, moved_date])
def test_a_reader_that_was_open_before_an_adoption_reads_on(tmp_path: Path, operation: Any) -> None:
    root = operation(Spot(database(tmp_path), tmp_path / "other"))
    opened, before = open_table(root, TABLE), values(root)
    adopt(root)
    assert sorted(opened.to_arrow(columns=["X"])["X"].to_pylist()) == before


def test_a_reader_that_was_open_before_a_move_says_so(tmp_path: Path) -> None:
    root = database(tmp_path)
    opened = open_table(root, TABLE)
    wait_for_tick(tmp_path)
    moved_date(Spot(root))
    with pytest.raises(SnapshotMovedError, match="by hand since the table was opened"):
        opened.to_arrow()
    assert values(root) == BOTH


def test_a_reader_that_was_open_before_a_removal_says_so(tmp_path: Path) -> None:
    root = database(tmp_path)
    opened = open_table(root, TABLE)
    wait_for_tick(tmp_path)
    shutil.rmtree(Spot(root).location)
    with pytest.raises(SnapshotMovedError, match="by hand since the table was opened"):
        opened.to_arrow()


@pytest.mark.parametrize("operation", [removed_location, copied_date, renamed_date, copied_location])
def test_a_reader_that_was_open_before_what_was_adopted_says_so(tmp_path: Path, operation: Any) -> None:
    """Adoption takes other rows for history than the reader has seen."""
    root = database(tmp_path)
    opened = open_table(root, TABLE)
    assert sorted(opened.to_arrow(columns=["X"])["X"].to_pylist()) == BOTH
    wait_for_tick(tmp_path)
    operation(Spot(root))
    adopt(root, accept_loss=True)
    with pytest.raises(SnapshotMovedError, match="by hand since the table was opened"):
        opened.to_arrow()


@pytest.mark.parametrize("words", [("--rewrite",), ("--max-supplements", "0")])
def test_a_loss_that_was_accepted_stays_lost(tmp_path: Path, words: tuple[str, ...]) -> None:
    """Intraday still has the rows: a later merge takes what came since beside what history has left."""
    site = Dated(tmp_path)
    site.stream("s")
    site.late(1, OLD)
    site.do("merge", SITE_TABLE, "--dates", OLD, "--local")
    (location,) = site.root.glob(f"Systems/Test/Partitions/*/{OLD}/Event")
    shutil.rmtree(location)
    assert run(site.root, "dates", "adopt", SITE_TABLE, "--accept-loss").exit_code == 0
    assert site.shown() == []
    site.late(2, OLD)
    site.do("merge", SITE_TABLE, "--dates", OLD, "--local", *words)
    assert site.shown() == [2]
    site.do("validate", SITE_TABLE, "--dates", OLD)
    site.do("merge", SITE_TABLE, "--dates", OLD, "--local", "--discard-corrections")
    assert site.shown() == [1, 2]


@pytest.mark.parametrize("index", [True, False], ids=["with index", "without index"])
@pytest.mark.parametrize("form", ["columns", "parquet"])
def test_history_of_another_program_is_read_verified_adopted_and_merged(tmp_path: Path, form: str, index: bool) -> None:
    root = database(tmp_path)
    foreign(root, form)
    if index:
        assert run(root, "metadata", "update", TABLE).exit_code == 0
    assert values(root) == BOTH
    checked = run(root, "verify", TABLE, "--deep")
    assert checked.exit_code == 0, checked.output
    merged = run(root, "merge", TABLE, "--dates", DAY, "--rewrite", "--local")
    assert merged.exit_code == 0, merged.output
    assert values(root) == BOTH
    adopt(root)
    for words in (("verify", TABLE, "--deep"), ("metadata", "validate", TABLE), ("validate", TABLE, "--dates", DAY)):
        done = run(root, *words)
        assert done.exit_code == 0, done.output


@pytest.mark.parametrize("operation", FOREIGN)
def test_adopted_history_of_others_is_as_sound_as_any_other(tmp_path: Path, operation: Any) -> None:
    root = operation(Spot(database(tmp_path), tmp_path / "other"))
    before = values(root)
    adopt(root)
    for words in (("verify", TABLE, "--deep"), ("metadata", "validate", TABLE), ("doctor",)):
        done = run(root, *words)
        assert done.exit_code == 0, done.output
    assert values(root) == before
    names = {path.name for path in Spot(root).location.iterdir()}
    assert {"table.size", "table.tbl"} <= names


@pytest.mark.parametrize("epoch", ["1", "2"])
def test_a_copy_of_intraday_rows_that_were_undone_is_refused(tmp_path: Path, epoch: str) -> None:
    """Where the first rows are withdrawn, the record of the location says that it has none."""
    site = Dated(tmp_path)
    site.stream("s")
    for number in (1, 2):
        site.late(number, OLD)
    site.do("epochs", "undo", SITE_TABLE, "s", "--epoch", epoch)
    (intraday,) = site.root.glob(f"Intraday/Test/Event/*/{OLD}/Event")
    other = tmp_path / "other"
    shutil.copytree(site.root / "Schemas", other / "Schemas")
    shutil.copytree(intraday, other / "Systems" / "Test" / "Partitions" / "0" / OLD / "Event")
    for words in (("read", SITE_TABLE), ("verify",), ("dates", "adopt", SITE_TABLE), ("doctor",)):
        done = run(other, *words)
        assert done.exit_code == 1 and "a location of history has withdrawn rows" in done.output, done.output


def test_changed_bytes_of_a_copy_are_found_by_its_own_checksums(tmp_path: Path) -> None:
    root = copied_date_to_other_root(Spot(database(tmp_path), tmp_path / "other"))
    path = Spot(root).location / "X.dat"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(CorruptFileError, match="checksum does not match"):
        open_table(root, TABLE).to_arrow()
    (done,) = adopt_dates(place_of(root), None, clock=lambda: NOW)
    assert isinstance(done.error, CorruptFileError)


@pytest.mark.parametrize("operation", [copied_date_to_other_root, moved_date])
def test_copies_need_a_record_and_take_an_adopted_date(tmp_path: Path, operation: Any) -> None:
    root = operation(Spot(database(tmp_path), tmp_path / "other"))
    refused = run(root, "snapshot", TABLE, "--out", tmp_path / "copy")
    assert refused.exit_code == 1 and f"dates adopt {TABLE} --dates {DAY}" in refused.stderr, refused.output
    assert not (tmp_path / "copy").exists()
    adopt(root)
    done = run(root, "snapshot", TABLE, "--out", tmp_path / "copy")
    assert done.exit_code == 0, done.output
    assert values(tmp_path / "copy") == values(root)


def test_an_adopted_date_moves_and_is_detached_and_attached(tmp_path: Path) -> None:
    root = copied_date_to_other_root(Spot(database(tmp_path), tmp_path / "other"))
    before = values(root)
    for words in (
        ("partitions", "add", "NS", "0"),
        ("partitions", "add", "NS", "1"),
        ("dates", "move", TABLE, "--dates", DAY, "--to", "1"),
        ("dates", "detach", TABLE, "--dates", DAY, "--out", tmp_path / "tape"),
        ("dates", "attach", TABLE, tmp_path / "tape"),
        ("verify", TABLE, "--deep"),
    ):
        done = run(root, *words)
        assert done.exit_code == 0, done.output
    assert values(root) == before


def test_a_mirror_is_not_up_to_date_beside_history_without_a_record(tmp_path: Path) -> None:
    root, copy = database(tmp_path), tmp_path / "mirror"
    assert run(root, "mirror", root, copy).exit_code == 0
    shutil.copytree(Spot(root).location.parent, Spot(root).location.parents[1] / OTHER)
    refused = run(root, "mirror", root, copy)
    assert refused.exit_code == 1 and "dates adopt" in refused.stderr, refused.output
    adopt(root)
    assert run(root, "mirror", root, copy).exit_code == 0
    assert values(copy) == values(root) == [1, 1, 2, 2, 3, 3, 4, 5]


@pytest.mark.parametrize("form", ["parquet", "both", "deephaven"])
def test_an_adopted_location_keeps_its_indexes(tmp_path: Path, form: str) -> None:
    """Of those that are right: another one is no longer used, and `verify` says so where engines would take it."""
    root = database(tmp_path)
    merged = run(root, "merge", TABLE, "--dates", DAY, "--local", "--rewrite", "--format", form)
    assert merged.exit_code == 0, merged.output
    spot = Spot(root, tmp_path / "other", internal="0.g2")
    other = copied_date_to_other_root(spot)
    files = {str(path.relative_to(spot.location)) for path in spot.location.rglob("*Sym/*") if path.is_file()}
    assert len(files) > 2
    shutil.copytree(other, tmp_path / "changed")
    adopt(other)
    (output,) = load_record(place_of(other), DAY, 1).outputs
    assert output.indexes.keys() == files
    assert run(other, "verify", TABLE, "--deep").exit_code == 0
    adopt_changed(tmp_path / "changed", replace(spot, root=tmp_path / "changed"), form)


def adopt_changed(root: Path, spot: Spot, form: str) -> None:
    """An index whose rows are others is not taken."""
    (path,) = spot.location.glob("Index-Sym/Sym.dat")
    data = bytearray(path.read_bytes())
    data[-4:] = data[-8:-4]
    path.write_bytes(data)
    adopt(root)
    (output,) = load_record(place_of(root), DAY, 1).outputs
    assert not output.indexes
    assert run(root, "verify", TABLE, "--deep").exit_code == int(form != "deephaven")
