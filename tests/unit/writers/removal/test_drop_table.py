"""Whole tables that are dropped: two phases, kills between any two steps, and tables of the same name after it."""

from __future__ import annotations

import random
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sparkhaven import save_table
from sparkhaven.jobs.operations.epoch_changes import roll_back, undo
from sparkhaven.readers.arrow.opening import open_table
from sparkhaven.readers.checks.verify import verify
from sparkhaven.readers.inspect.any_file import inspect_file
from sparkhaven.store.epochs.reading.stream_state import load_stream
from sparkhaven.store.errors import (
    CorruptFileError,
    LockLostError,
    RetryableStorageError,
    SettingsError,
    SnapshotMovedError,
    SparkhavenError,
    TableExistsError,
    TableNotFoundError,
)
from sparkhaven.store.layout import LocationKey
from sparkhaven.store.merges.dropped_tables import (
    DropPhase,
    decode_drop,
    doomed,
    drop_path,
    encode_drop,
    load_drop,
    refuse_doomed,
)
from sparkhaven.store.merges.history import totals
from sparkhaven.store.merges.merge_records import lock_table, newest
from sparkhaven.store.places import TablePlace
from sparkhaven.store.schema.deployed.deploy import load_deployed, standing_tables
from sparkhaven.writers.partitions import add_partition
from sparkhaven.writers.removal.table_removal import drop_table, finish_drop
from sparkhaven.writers.transfer.restore import restore
from sparkhaven.writers.transfer.snapshots import take_snapshot
from tests.support.commands import run, run_json
from tests.support.disks.contents import flip
from tests.support.disks.model_fs import Crash, KillingFs
from tests.support.examples import some_of
from tests.support.tables.intraday_rows import IntradayRows
from tests.support.tables.live_tables import Engine
from tests.support.writers.merge_cases import DAY, SCHEMA, TABLE, as_table, random_row
from tests.support.writers.merge_runs import FS, make, merge

NOW = 1_700_000_000.0
NAME = str(TABLE)
EVERY = 9


def a_table(root: Path, *, rows: int = 30) -> tuple[IntradayRows, list[str]]:
    """A date in history, of which one partition is on another volume; late rows; a quarantine; another table."""
    db, _ = make(root, rows, partitions=1)
    volume = root.with_name(f"{root.name}-volume")
    volume.mkdir()
    add_partition(FS, db.layout, "Test", "1", volume=volume)
    merge(db.layout)
    db.commit({("a", DAY): as_table([random_row(random.Random(4)) for _ in range(5)])})
    merge(db.layout, rewrite=True)
    db.commit({("a", DAY): as_table([random_row(random.Random(6)) for _ in range(2)])})
    db.log.close()
    return db, sorted(map(repr, rows_of(root)))


def rows_of(root: Path, name: str = NAME) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = open_table(root, name).to_arrow(["L", "Sym", "Note"]).to_pylist()
    return rows


def beside(root: Path) -> IntradayRows:
    """Another table with the same dates, partitions and stream."""
    other = IntradayRows(root, SCHEMA.replace(b'"Every"', b'"Other"'), fs=FS)
    other.commit({("a", DAY): as_table([random_row(random.Random(9)) for _ in range(7)])})
    merge(other.layout, table=other.table)
    other.log.close()
    return other


def left_of(root: Path) -> list[str]:
    """Files of the table anywhere below the root and its volume, apart from evidence and notes."""
    paths = [*root.rglob("*"), *root.with_name(f"{root.name}-volume").rglob("*")]
    names = [str(path) for path in paths if not path.is_dir() and "Every" in str(path)]
    return [name for name in names if "/.dropped/" not in name and not name.endswith(".removed")]


def dropped(db: IntradayRows, **options: Any) -> Any:
    return drop_table(db.place, "test", clock=lambda: NOW, **options)


def test_readers_find_none_and_those_that_have_it_open_go_on(tmp_path: Path) -> None:
    db, rows = a_table(tmp_path / "db")
    other, pinned = beside(db.root), open_table(db.root, NAME)
    before = newest(db.place, DAY)
    (planned,) = [dropped(db, dry_run=True)]
    assert rows_of(db.root) and not db.place.drops.exists()
    drop = dropped(db)
    assert (drop.phase, drop.intraday_rows, drop.history_rows) == (DropPhase.DOOMED, 37, 35)
    assert planned.dates == drop.dates and planned.size == drop.size > 0
    assert before is not None and (drop.dates[0].rows, dict(drop.dates[0].digests)) == totals(before)
    assert drop.schema == SCHEMA
    with pytest.raises(TableNotFoundError, match="was dropped"):
        load_deployed(db.place)
    with pytest.raises(TableNotFoundError, match="was dropped"):
        open_table(db.root, NAME)
    assert sorted(map(repr, pinned.to_arrow(["L", "Sym", "Note"]).to_pylist())) == rows
    assert standing_tables(FS, db.layout) == [other.table]
    assert verify(FS, db.layout, deep=True).errors == 0
    stream = db.place.of_stream(db.stream)
    for change in (
        lambda: IntradayRows(db.root, SCHEMA, fs=FS),
        lambda: refuse_doomed(db.place),
        lambda: save_table(db.root, NAME, pa.table({"A": [1]})),
        lambda: undo(stream, [1], print),
        lambda: roll_back(stream, 0, print),
    ):
        with pytest.raises(TableExistsError, match="is being dropped"):
            change()
    assert dropped(db).phase is DropPhase.DOOMED  # the grace period runs
    done = drop_table(db.place, "test", clock=lambda: NOW + 3601)
    assert (done.phase, done.time_ms, done.removed_ms) == (DropPhase.REMOVED, NOW * 1000, (NOW + 3601) * 1000)
    assert left_of(db.root) == []
    assert len(rows_of(db.root, "Test.Other")) == 7
    assert verify(FS, db.layout, deep=True).errors == 0
    assert load_drop(db.place, 1) == done
    with pytest.raises(TableNotFoundError, match="no deployed schema"):
        dropped(db)


@pytest.mark.parametrize("tier", ["all", "history"])
@pytest.mark.parametrize("indexed", [True, False])
def test_readers_that_have_it_open_fail_once_its_files_are_gone(tmp_path: Path, tier: Any, indexed: bool) -> None:
    """They have no row, and must not say that there is none. ``indexed``: the table had a location index."""
    db, _ = a_table(tmp_path / "db")
    if not indexed:
        db.place.metadata_index.unlink()
    pinned = open_table(db.root, NAME)
    assert pinned.count(tier=tier) == {"all": 37, "history": 35}[tier]
    dropped(db, grace_s=0)
    for read in (
        lambda: pinned.count(tier=tier),
        lambda: pinned.to_arrow(["L"], tier=tier),
        lambda: pinned.to_arrow(["L"], tier=tier, dates=DAY),
    ):
        with pytest.raises(SnapshotMovedError, match="the table was dropped since it was opened"):
            read()


def test_a_table_of_that_name_is_made_again_and_has_no_old_row(tmp_path: Path) -> None:
    db, _ = a_table(tmp_path / "db")
    pinned, numbers = open_table(db.root, NAME), load_stream(db.place)
    dropped(db, grace_s=0)
    again = IntradayRows(db.root, SCHEMA, fs=FS)
    state = load_stream(again.place)
    assert state.generation > numbers.generation and state.epoch >= numbers.epoch
    fresh = [random_row(random.Random(11)) for _ in range(3)]
    again.commit({("a", DAY): as_table(fresh)})
    assert [row["L"] for row in rows_of(db.root)] == [row["L"] for row in fresh]
    merge(again.layout)
    assert len(rows_of(db.root)) == 3
    again.log.close()
    assert verify(FS, db.layout, deep=True).errors == 0
    with suppress(SparkhavenError):  # an error, or what its mappings still hold: never a row of the new table
        assert len(pinned.to_arrow(["L"])) == 37
    second = dropped(again, grace_s=0)
    assert (second.number, second.history_rows) == (2, 3)
    assert load_drop(db.place, 1).history_rows == 35


def test_a_served_table_keeps_its_rows_and_a_new_one_is_another(tmp_path: Path) -> None:
    db, _ = a_table(tmp_path / "db")
    engine = Engine(db.root, fs=FS)
    attached = engine.attach("Test_Every")
    dropped(db)
    engine.look()
    assert (attached.count, attached.errors) == (37, [])
    dropped(db, grace_s=0)
    again = IntradayRows(db.root, SCHEMA, fs=FS)
    again.commit({("a", DAY): as_table([random_row(random.Random(12)) for _ in range(2)])})
    again.log.close()
    with suppress(SparkhavenError):  # the server says so, and goes on
        engine.look()
    assert attached.count == 37
    assert Engine(db.root, fs=FS).attach("Test_Every").count == 2


def test_a_snapshot_is_restored_after_the_drop(tmp_path: Path) -> None:
    db, rows = a_table(tmp_path / "db")
    copy = tmp_path / "copy"
    take_snapshot(FS, db.layout, [TABLE], copy, time_ms=int(NOW * 1000))
    dropped(db)
    with pytest.raises(TableExistsError, match="is being dropped"):
        restore(FS, copy, db.layout)
    dropped(db, grace_s=0)
    assert sorted(map(repr, rows_of(copy))) == rows
    restore(FS, copy, db.layout)
    assert sorted(map(repr, rows_of(db.root))) == rows
    assert verify(FS, db.layout, deep=True).errors == 0


def test_who_writes_the_table_is_not_overtaken(tmp_path: Path) -> None:
    db, rows = a_table(tmp_path / "db")
    log = db.open()
    with pytest.raises(SettingsError, match="is running"):
        dropped(db)
    log.close()
    with lock_table(db.place), pytest.raises(LockLostError):
        dropped(db)
    assert sorted(map(repr, rows_of(db.root))) == rows and doomed(db.place) is None
    dropped(db)
    with lock_table(db.place), pytest.raises(LockLostError):
        dropped(db, grace_s=0)
    assert dropped(db, grace_s=0).phase is DropPhase.REMOVED


def test_a_volume_that_is_away_keeps_the_files_until_it_is_back(tmp_path: Path) -> None:
    db, _ = a_table(tmp_path / "db")
    dropped(db)
    volume = tmp_path / "db-volume"
    volume.rename(tmp_path / "away")
    with pytest.raises(RetryableStorageError, match="is not mounted"):
        dropped(db, grace_s=0)
    (tmp_path / "away").rename(volume)
    dropped(db, grace_s=0)
    assert left_of(db.root) == []


def test_quarantines_go_unless_others_share_them(tmp_path: Path) -> None:
    from sparkhaven.store.quarantine.ledger import Ledger, write_ledger

    for shared in (False, True):
        db, _ = a_table(tmp_path / f"db{shared}")
        quarantine = db.layout.quarantine("rows")
        quarantine.mkdir(parents=True)
        write_ledger(db.place, Ledger(place=str(quarantine)))
        if shared:
            write_ledger(beside(db.root).place, Ledger(place=str(quarantine)))
        done = dropped(db, grace_s=0)
        assert quarantine.exists() is shared
        assert done.kept == ((str(quarantine),) if shared else ())


@pytest.mark.slow
def test_a_kill_between_any_two_steps(tmp_path: Path) -> None:
    """Readers see the table whole or not at all, and the same command, or ``clean``, ends the drop.

    Before and after each named step, and at every ninth call of the file system (all of them took 50 seconds).
    """
    db, rows = a_table(tmp_path / "first", rows=6)
    other = beside(db.root)
    shutil.copytree(tmp_path, tmp_path.with_name(f"{tmp_path.name}-kept"), symlinks=True)
    counted = KillingFs()
    drop_table(TablePlace(counted, db.layout, TABLE), "test", clock=lambda: NOW, grace_s=0)
    assert counted.changes > 30
    kills = [KillingFs(crash_at=step) for step in dict.fromkeys(counted.steps) if step.startswith("drop-")]
    kills += [KillingFs(crash_after=number) for number in range(0, counted.changes, EVERY)]
    assert len(kills) > 20
    for number, fs in enumerate(some_of(kills)):
        shutil.rmtree(tmp_path)
        shutil.copytree(tmp_path.with_name(f"{tmp_path.name}-kept"), tmp_path, symlinks=True)
        with pytest.raises(Crash):
            drop_table(TablePlace(fs, db.layout, TABLE), "test", clock=lambda: NOW, grace_s=0)
        if db.place.schema.exists():
            assert sorted(map(repr, rows_of(db.root))) == rows
        else:
            with pytest.raises(TableNotFoundError):
                rows_of(db.root)
        assert len(rows_of(db.root, "Test.Other")) == 7
        assert verify(FS, db.layout, other.table).errors == 0
        standing = doomed(db.place)
        if standing is not None and not db.place.schema.exists() and number % 2:
            finish_drop(db.place, standing, clock=lambda: NOW + 4000)
        elif standing is not None or db.place.schema.exists():
            dropped(db, grace_s=0)
        assert left_of(db.root) == [], number
        record = load_drop(db.place, 1)
        assert (record.phase, record.history_rows) == (DropPhase.REMOVED, 11)
        again = IntradayRows(db.root, SCHEMA, fs=FS)
        assert load_stream(again.place).generation > record.streams[0].generation
        again.log.close()
        assert rows_of(db.root) == [] and len(rows_of(db.root, "Test.Other")) == 7


def test_a_record_is_read_back_and_damage_of_it_is_found(tmp_path: Path) -> None:
    db, _ = a_table(tmp_path / "db")
    drop = dropped(db)
    path = drop_path(db.place, 1)
    assert decode_drop(encode_drop(drop), "here") == drop
    inspection = inspect_file(FS, path)
    assert (inspection.kind, inspection.sound) == ("record of a dropped table", True)
    assert inspection.facts["dates"] == [{"value": DAY, "generation": 2, "rows": 35}]
    flip(path, 60)
    assert not inspect_file(FS, path).sound
    assert str(path) in {
        one.path.partition(" ")[0] for one in verify(FS, db.layout).findings if one.severity == "error"
    }
    for call in (lambda: load_deployed(db.place), lambda: IntradayRows(db.root, SCHEMA, fs=FS)):
        with pytest.raises(CorruptFileError, match="record of a dropped table is cut short or damaged"):
            call()


def test_the_command_wants_to_be_sure(tmp_path: Path) -> None:
    db, _ = a_table(tmp_path / "db")
    root = db.root
    code, refused = run_json(root, "drop", NAME)
    assert (code, refused["error"]["expected"]) == (2, "--yes")
    assert refused["error"]["found"] == "37 intraday rows, 35 rows of history"
    code, planned = run_json(root, "drop", NAME, "--dry-run")
    assert (code, planned["phase"], planned["history_rows"]) == (0, "doomed", 35)
    assert len(rows_of(root)) == 37
    assert "drop Test.Every --yes` removes the files" in run(root, "drop", NAME, "--yes").stdout
    assert run_json(root, "read", NAME)[0] == 2
    waiting = run_json(root, "clean", NAME)[1]
    assert waiting["phase"] == "doomed" and waiting["due_s"] > 3500
    code, done = run_json(root, "drop", NAME, "--yes", "--grace", "0")
    assert (code, done["phase"], done["due_s"]) == (0, "removed", None)
    assert FS.names(db.place.drops) == ["1.drop"]
    assert run(root, "tables").exit_code == 0
    assert run(root, "clean").exit_code == 0
    assert run_json(root, "drop", NAME, "--yes")[0] == 2


def test_a_file_at_the_place_of_a_location_key_is_no_location(tmp_path: Path) -> None:
    """History of other programs, without a record, goes too."""
    db, _ = a_table(tmp_path / "db")
    strange = db.place.history_location(LocationKey("0", "2020-01-01"))
    strange.mkdir(parents=True)
    (strange / "x.dat").write_bytes(b"x")
    dropped(db, grace_s=0)
    assert left_of(db.root) == []
