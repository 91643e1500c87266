"""Mirrors: what each pass ships, what readers see between, and kills at every step."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from sparkhaven import merge_frame, open_table
from sparkhaven.readers.checks.verify import verify
from sparkhaven.store.errors import SettingsError, TableExistsError
from sparkhaven.store.layout import Layout
from sparkhaven.store.schema.deployed.deploy import deploy
from sparkhaven.writers.transfer.restore import restore
from sparkhaven.writers.transfer.snapshots import KEPT, Mirror, TakenSnapshot
from tests.support.commands import run, run_json
from tests.support.disks.model_fs import Crash, KillingFs, QuickFs
from tests.support.examples import some_of
from tests.support.tables.intraday_rows import IntradayRows
from tests.support.writers.merge_cases import DAY, SCHEMA, TABLE, as_table
from tests.support.writers.merge_runs import FS, make, merge

TIME = 1_700_000_000_000
SECOND = b"""<Table namespace="Test" name="Second" storageType="NestedPartitionedOnDisk">
  <Partitions keyFormula="${autobalance_single}"/>
  <Column name="Date" dataType="String" columnType="Partitioning"/>
  <Column name="N" dataType="long"/>
</Table>
"""


def ship(db: IntradayRows, link: Path, fs: QuickFs = FS) -> TakenSnapshot:
    return Mirror(fs, link).ship(db.layout, [TABLE], time_ms=TIME)


def same_rows(root: Path, other: Path) -> None:
    code, compared = run_json(root, "compare", str(other))
    assert (code, compared["equal"]) == (0, True), compared
    assert [finding.text() for finding in verify(FS, Layout(other.resolve()), None, deep=True).findings] == []


def test_each_pass_ships_new_bytes_and_old_readers_go_on(tmp_path: Path) -> None:
    db, rows = make(tmp_path / "db", 60)
    db.commit({("big", DAY): as_table(rows * 50)})
    first = ship(db, tmp_path / "mirror")
    same_rows(tmp_path / "db", tmp_path / "mirror")
    opened = open_table(tmp_path / "mirror", str(TABLE))
    assert ship(db, tmp_path / "mirror").copied == {str(TABLE): 0}
    db.commit({("big", DAY): as_table(rows[:7])})
    second = ship(db, tmp_path / "mirror")
    assert second.copied[str(TABLE)] < first.copied[str(TABLE)] / 3
    same_rows(tmp_path / "db", tmp_path / "mirror")
    assert (opened.count(), len(opened.to_arrow())) == (60 * 51, 60 * 51)  # pinned, though the link was switched
    merge(db.layout)
    ship(db, tmp_path / "mirror")
    same_rows(tmp_path / "db", tmp_path / "mirror")
    assert len(Mirror(FS, tmp_path / "mirror").finished()) == KEPT


def test_killed_pass_leaves_the_mirror_and_is_repeated(tmp_path: Path) -> None:
    db, rows = make(tmp_path / "db", 40)
    ship(db, tmp_path / "mirror")
    for _ in range(3):  # passes make the same calls once a snapshot is removed in each
        whole = KillingFs()
        kept = db.commit({("c", DAY): as_table(rows[:3])})
        ship(db, tmp_path / "mirror", whole)
    calls = {*range(1, whole.changes, whole.changes // 8), *range(whole.changes - 8, whole.changes)}
    for call in some_of(sorted(calls), 6):
        epoch = db.commit({("c", DAY): as_table(rows[:3])})
        with pytest.raises(Crash):
            ship(db, tmp_path / "mirror", KillingFs(crash_after=call - 1))
        assert open_table(tmp_path / "mirror", str(TABLE)).epochs["rows"] in (kept, epoch)
        assert run(tmp_path / "mirror", "verify", "--deep").exit_code == 0
        ship(db, tmp_path / "mirror")
        same_rows(tmp_path / "db", tmp_path / "mirror")
        kept = epoch


def test_killed_pass_costs_no_copy_of_whole_files(tmp_path: Path) -> None:
    db, rows = make(tmp_path / "db", 60)
    db.commit({("big", DAY): as_table(rows * 50)})
    first = ship(db, tmp_path / "mirror")
    db.commit({("big", DAY): as_table(rows[:7])})
    with pytest.raises(Crash):
        ship(db, tmp_path / "mirror", KillingFs(crash_at="snapshot-manifest:before"))
    again = ship(db, tmp_path / "mirror")
    assert again.copied[str(TABLE)] < first.copied[str(TABLE)] / 3
    same_rows(tmp_path / "db", tmp_path / "mirror")


def test_root_that_lost_epochs_is_not_mirrored(tmp_path: Path) -> None:
    db, rows = make(tmp_path / "db", 20)
    FS.mkdirs(tmp_path / "other")
    ship(db, tmp_path / "mirror")
    restore(FS, tmp_path / "mirror", Layout(tmp_path / "older"))
    db.commit({("a", DAY): as_table(rows)})
    ship(db, tmp_path / "mirror")
    mirror = Mirror(FS, tmp_path / "mirror")
    with pytest.raises(SettingsError, match="ahead of the root"):
        mirror.ship(Layout(tmp_path / "older"), [TABLE], time_ms=TIME)
    with pytest.raises(SettingsError, match=f"no table {TABLE}"):
        mirror.ship(db.layout, [], time_ms=TIME)
    same_rows(tmp_path / "db", tmp_path / "mirror")
    with pytest.raises(TableExistsError):
        ship(db, tmp_path / "other")
    with pytest.raises(SettingsError):
        ship(db, tmp_path / "db" / "mirror")


@pytest.mark.parametrize("kept", ["intraday", "history"])
def test_copy_of_the_root_that_went_its_own_way_is_not_mirrored(tmp_path: Path, kept: str) -> None:
    """Both have more epochs, or merges, than were shipped; the one that was shipped goes on."""
    db, rows = make(tmp_path / "db", 40)
    ship(db, tmp_path / "mirror")
    shutil.copytree(tmp_path / "db", tmp_path / "copy", symlinks=True)
    copy = Layout(tmp_path / "copy")
    if kept == "intraday":
        db.commit({("a", DAY): as_table(rows[:3])})
        words = " at epoch 3 of stream "
    else:
        merge(db.layout)
        merge(copy)
        ship(db, tmp_path / "mirror")
        assert run(copy.root, "delete-rows", str(TABLE), "--where", "L > 0").exit_code == 0
        merge(db.layout, rewrite=True)
        words = "merge 2 of "
    ship(db, tmp_path / "mirror")
    other = IntradayRows(copy.root, SCHEMA, fs=FS)
    for _ in range(3):
        other.commit({("a", DAY): as_table(rows[:7])})
    other.log.close()
    with pytest.raises(SettingsError, match="has another past") as refused:
        Mirror(FS, tmp_path / "mirror").ship(copy, [TABLE], time_ms=TIME)
    assert words in str(refused.value)
    db.commit({("a", DAY): as_table(rows[:2])})
    ship(db, tmp_path / "mirror")
    same_rows(tmp_path / "db", tmp_path / "mirror")


@pytest.mark.parametrize("kept", ["intraday", "history"])
def test_table_that_was_dropped_and_made_again_is_mirrored(tmp_path: Path, kept: str) -> None:
    """Between two passes, with as many epochs or merges as were shipped."""
    root, mirror = tmp_path / "db", tmp_path / "mirror"
    FS.mkdirs(root)
    for number in (1, 2):
        rows = pa.table({"N": [number] * number})
        if kept == "intraday":
            db = IntradayRows(root, SECOND, fs=FS)
            db.commit({("a", DAY): rows})
            db.log.close()
        else:
            deploy(FS, Layout(root), SECOND)
            merge_frame(rows, root, "Test.Second", dates=[DAY])
        assert run(root, "mirror", root, mirror).exit_code == 0
        assert open_table(mirror, "Test.Second").to_arrow()["N"].to_pylist() == [number] * number
        assert run(root, "drop", "Test.Second", "--yes", "--grace", "0").exit_code == 0


def test_mirror_is_written_by_no_stream_and_becomes_a_root(tmp_path: Path) -> None:
    db, _ = make(tmp_path / "db", 20)
    db.log.close()
    code, shipped = run_json(tmp_path, "mirror", tmp_path / "db", tmp_path / "mirror")
    assert (code, shipped["rows"]) == (0, 20)
    assert run(tmp_path / "mirror", "recover").exit_code == 0  # which looks, and writes nothing
    failed = run(tmp_path / "mirror", "merge", "Test.Every", "--dates", DAY, "--local")
    assert failed.exit_code == 2 and "restore" in failed.output
    assert run(tmp_path / "root", "restore", tmp_path / "mirror").exit_code == 0
    same_rows(tmp_path / "db", tmp_path / "root")
    assert run(tmp_path / "root", "recover").exit_code == 0


def test_a_dropped_table_leaves_the_mirror(tmp_path: Path) -> None:
    root, mirror = tmp_path / "db", str(tmp_path / "mirror")
    db, rows = make(root, 20)
    other = IntradayRows(root, SECOND, fs=FS)
    other.commit({("a", DAY): pa.table({"N": [1, 2]})})
    other.log.close()
    assert run(root, "mirror", str(root), mirror).exit_code == 0
    opened = open_table(tmp_path / "mirror", "Test.Second")
    assert run(root, "drop", "Test.Second", "--yes").exit_code == 0
    passed = run(root, "mirror", str(root), mirror, "--json")
    assert passed.exit_code == 0, passed.output
    told = [json.loads(line) for line in passed.stdout.splitlines()]
    assert [line["table"] for line in told if line.get("dropped")] == ["Test.Second"]
    assert not Layout(Path(mirror).resolve()).schema(other.table).exists()
    assert opened.count() == 2  # the snapshot before is kept
    same_rows(root, tmp_path / "mirror")
    assert not any(
        json.loads(line).get("dropped") for line in run(root, "mirror", str(root), mirror, "--json").stdout.splitlines()
    )
    assert run(root, "drop", "Test.Second", "--yes", "--grace", "0").exit_code == 0
    again = IntradayRows(root, SECOND, fs=FS)
    for _ in range(3):
        again.commit({("a", DAY): pa.table({"N": [3]})})
    again.log.close()
    assert run(root, "mirror", str(root), mirror).exit_code == 0
    assert open_table(mirror, "Test.Second").count() == 3
    db.layout.schema(again.table).unlink()  # lost, not dropped: the record is of the table before
    db.layout.schema_history(again.table).unlink()
    shutil.rmtree(db.layout.streams(again.table).parent)
    lost = run(root, "mirror", str(root), mirror)
    assert lost.exit_code == 2 and "no table Test.Second" in lost.output
    assert rows
