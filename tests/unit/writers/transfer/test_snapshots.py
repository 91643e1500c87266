"""Snapshots of tables that go on meanwhile, restored and compared; kills and damage at every step."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pyarrow as pa
import pytest

from sparkhaven import open_table, save_table
from sparkhaven.readers.checks.verify import verify
from sparkhaven.readers.inspect.any_file import inspect_file
from sparkhaven.store.errors import CorruptFileError, SettingsError, TableExistsError, TableNotFoundError
from sparkhaven.store.io.read_only_roots import SNAPSHOT_MANIFEST
from sparkhaven.store.layout import Layout, TableName
from sparkhaven.writers.transfer.restore import RestoreOutcome, restore
from sparkhaven.writers.transfer.snapshots import TakenSnapshot, load_snapshot, take_snapshot
from tests.support.commands import run, run_json
from tests.support.disks.contents import contents, hidden
from tests.support.disks.model_fs import Crash, KillingFs, QuickFs
from tests.support.examples import some_of
from tests.support.tables.intraday_rows import IntradayRows
from tests.support.tables.user_intraday import LIVE, NAME, UserIntraday
from tests.support.writers.merge_cases import DAY, TABLE, as_table
from tests.support.writers.merge_runs import FS, make, merge, same

TIME = 1_700_000_000_000


def snapshot(db: IntradayRows, out: Path, since: Path | None = None, fs: KillingFs | None = None) -> TakenSnapshot:
    return take_snapshot(fs or FS, db.layout, [TABLE], out, time_ms=TIME, since=since)


def same_rows(root: Path, other: Path) -> None:
    code, compared = run_json(root, "compare", str(other), "--whole-rows")
    assert (code, compared["equal"]) == (0, True), compared
    assert [finding.text() for finding in verify(FS, Layout(other), None, deep=True).findings] == []


@pytest.mark.parametrize("merged", [False, True])
def test_restored_table_has_the_rows_and_goes_on(tmp_path: Path, merged: bool) -> None:
    db, _ = make(tmp_path / "db", 60)
    if merged:
        merge(db.layout)
    snapshot(db, tmp_path / "snap")
    same_rows(tmp_path / "db", tmp_path / "snap")
    restored = restore(FS, tmp_path / "snap", Layout(tmp_path / "back"))
    assert [table.outcome for table in restored] == [RestoreOutcome.RESTORED]
    same_rows(tmp_path / "db", tmp_path / "back")
    assert hidden(tmp_path / "back") == []


def test_an_older_epoch_is_copied_with_its_rows_and_the_merges_that_it_had(tmp_path: Path) -> None:
    db, rows = make(tmp_path / "db", 60)
    merge(db.layout)
    db.commit({("a", DAY): as_table(rows[:5]), ("b", "2024-03-06"): as_table(rows[:9])})
    merge(db.layout, DAY, "2024-03-06")
    db.commit({("a", DAY): as_table(rows[:2])})
    for epoch, there in ((1, None), (2, 60), (3, 74), (4, 76)):
        out = tmp_path / f"epoch-{epoch}"
        code, taken = run_json(tmp_path / "db", "snapshot", str(TABLE), "--epoch", f"rows={epoch}", "--out", str(out))
        copy, then = open_table(out, str(TABLE)), open_table(tmp_path / "db", str(TABLE), epoch=epoch)
        assert (code, taken["epochs"], copy.epochs) == (0, {"rows": epoch}, {"rows": epoch})
        assert there in (None, copy.count())
        same(copy.to_arrow().to_pylist(), then.to_arrow().to_pylist())
        assert [finding.text() for finding in verify(FS, Layout(out), None, deep=True).findings] == []
        restore(FS, out, Layout(tmp_path / f"back-{epoch}"))
        back = open_table(tmp_path / f"back-{epoch}", str(TABLE))
        same(back.to_arrow().to_pylist(), then.to_arrow().to_pylist())


def test_an_epoch_that_is_not_there_any_more_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    db, rows = make(tmp_path / "db", 60)
    db.commit({("a", DAY): as_table(rows[:5])})
    merge(db.layout)
    out = str(tmp_path / "snap")
    for epoch, words in (("9", "found: 9"), ("x", "is not an epoch number"), ("no=1", "has no stream 'no'")):
        refused = run(tmp_path / "db", "snapshot", str(TABLE), "--epoch", epoch, "--out", out)
        assert refused.exit_code == 2 and words in refused.output, refused.output
    assert run(tmp_path / "db", "snapshot", str(TABLE), "--epoch", "2", "--out", out, "--dry-run").exit_code == 0
    assert run(tmp_path / "db", "truncate", str(TABLE), "--date", DAY).exit_code == 0
    refused = run(tmp_path / "db", "snapshot", str(TABLE), "--epoch", "2", "--out", out)
    assert refused.exit_code == 2 and "can no longer be read" in refused.output, refused.output
    save_table(tmp_path / "db", "Mine.T", pa.table({"N": [1]}))
    several = run(tmp_path / "db", "snapshot", "--epoch", "2", "--out", out)
    assert several.exit_code == 2 and "Mine.T, Test.Every" in several.output, several.output
    assert not [path for path in tmp_path.iterdir() if path.name != "db"]


def test_truncated_date_of_a_restored_table_is_deleted(tmp_path: Path) -> None:
    db, _ = make(tmp_path / "db", 60)
    merge(db.layout)
    assert run(tmp_path / "db", "truncate", str(TABLE), "--date", DAY).exit_code == 0
    snapshot(db, tmp_path / "snap")
    restore(FS, tmp_path / "snap", Layout(tmp_path / "back"))
    deleted = run(tmp_path / "back", "delete", str(TABLE), "--date", DAY, "--grace", "0")
    assert deleted.exit_code == 0, deleted.output
    assert not [*(tmp_path / "back" / "Intraday").glob(f"*/*/*/{DAY}")]
    same_rows(tmp_path / "db", tmp_path / "back")


def test_history_is_linked_and_intraday_copied(tmp_path: Path) -> None:
    db, _ = make(tmp_path / "db", 60)
    merge(db.layout)
    db.commit({("c", DAY): as_table([])})
    taken = snapshot(db, tmp_path / "snap")
    for path in load_snapshot(FS, tmp_path / "snap").tables[str(TABLE)].files:
        shared = (tmp_path / "snap" / path).stat().st_nlink == 2
        assert shared == path.startswith("Systems/Test/Partitions/"), path
    assert taken.linked[str(TABLE)] > 0


def test_snapshot_since_another_one_copies_what_is_new(tmp_path: Path) -> None:
    db, rows = make(tmp_path / "db", 60)
    merge(db.layout)
    db.commit({("big", "2024-03-06"): as_table(rows * 50), ("old", "2024-03-07"): as_table(rows * 50)})
    first = snapshot(db, tmp_path / "first")
    unchanged = snapshot(db, tmp_path / "unchanged", tmp_path / "first")
    assert first.manifest.tables[str(TABLE)].digest == unchanged.manifest.tables[str(TABLE)].digest
    db.commit({("big", "2024-03-06"): as_table(rows[:3])})
    grown = snapshot(db, tmp_path / "grown", tmp_path / "unchanged")
    added = grown.manifest.tables[str(TABLE)].bytes - unchanged.manifest.tables[str(TABLE)].bytes
    assert 0 < grown.copied[str(TABLE)] - unchanged.copied[str(TABLE)] <= 2 * added
    assert unchanged.copied[str(TABLE)] < first.copied[str(TABLE)] / 3
    same_rows(tmp_path / "db", tmp_path / "grown")
    for name in ("first", "unchanged"):
        assert restore(FS, tmp_path / name, Layout(tmp_path / f"{name}-back"))
        assert run_json(tmp_path / "db", "compare", str(tmp_path / f"{name}-back"))[1]["equal"] is False
    same_rows(tmp_path / "first-back", tmp_path / "unchanged-back")


def test_a_snapshot_that_a_later_one_continues_is_sound(tmp_path: Path) -> None:
    db, rows = make(tmp_path / "db", 60)
    merge(db.layout)
    snapshot(db, tmp_path / "first")
    db.commit({("a", DAY): as_table(rows[:5])})
    snapshot(db, tmp_path / "second", tmp_path / "first")
    for name in ("first", "second"):
        assert [finding.text() for finding in verify(FS, Layout(tmp_path / name), None, deep=True).findings] == []
        for path in (tmp_path / name).rglob("*"):
            if path.suffix in (".json", ".size", ".dat", ".sym", ".bytes"):
                assert inspect_file(FS, path).findings == [], path


def test_two_snapshots_since_one_keep_their_own_rows(tmp_path: Path) -> None:
    db, rows = make(tmp_path / "db", 60)
    base = db.log.state.epoch
    snapshot(db, tmp_path / "first")
    db.commit({("a", DAY): as_table(rows[:5])})
    snapshot(db, tmp_path / "second", tmp_path / "first")
    restore(FS, tmp_path / "second", Layout(tmp_path / "kept"))
    db.log.close()
    assert run(tmp_path / "db", "epochs", "rollback", str(TABLE), "rows", "--to", str(base)).exit_code == 0
    db.log = db.open()
    db.symbols = {}
    db.commit({("c", DAY): as_table(rows[5:30])})
    snapshot(db, tmp_path / "third", tmp_path / "first")
    same_rows(tmp_path / "db", tmp_path / "third")
    same_rows(tmp_path / "kept", tmp_path / "second")
    restore(FS, tmp_path / "first", Layout(tmp_path / "back"))
    assert run_json(tmp_path / "back", "read", str(TABLE))[1]["rows"] == len(rows)


def test_killed_snapshot_is_none(tmp_path: Path) -> None:
    db, rows = make(tmp_path / "db", 40)
    merge(db.layout)
    db.commit({("c", DAY): as_table(rows)})
    whole = KillingFs()
    snapshot(db, tmp_path / "whole", fs=whole)
    for call in chosen_calls(whole.changes):
        out = tmp_path / f"snap{call}"
        with pytest.raises(Crash):
            snapshot(db, out, fs=KillingFs(crash_after=call - 1))
        if not (out / SNAPSHOT_MANIFEST).exists():
            with pytest.raises(TableNotFoundError):
                restore(FS, out, Layout(tmp_path / f"none{call}"))
            snapshot(db, out)
        same_rows(tmp_path / "whole", out)
        assert hidden(tmp_path) == []


def chosen_calls(calls: int, most: int = 8) -> list[int]:
    """Numbers of calls at which a process is killed: some of all, and each of the last six."""
    return some_of(sorted({*range(1, calls + 1, max(1, calls // most)), *range(max(1, calls - 5), calls + 1)}))


@pytest.mark.parametrize("replaced", [False, True])
def test_killed_restore_is_repeated(tmp_path: Path, replaced: bool) -> None:
    db, rows = make(tmp_path / "db", 40)
    merge(db.layout)
    db.commit({("c", DAY): as_table(rows)})
    snapshot(db, tmp_path / "snap")
    chosen = [TABLE] if replaced else []

    def root(name: object) -> Layout:
        if replaced:
            other, _ = make(tmp_path / f"back{name}", 20, seed=2)
            merge(other.layout)
            other.log.close()
        return Layout(tmp_path / f"back{name}")

    whole = KillingFs()
    restore(whole, tmp_path / "snap", root("whole"), replacing=chosen)
    for call in chosen_calls(whole.changes):
        layout = root(call)
        with pytest.raises(Crash):
            restore(KillingFs(crash_after=call - 1), tmp_path / "snap", layout, replacing=chosen)
        if not replaced and layout.schema(TABLE).exists():
            same_rows(tmp_path / "db", layout.root)  # readers find all of it, or no table
        restore(FS, tmp_path / "snap", layout, replacing=chosen)
        same_rows(tmp_path / "db", layout.root)
        assert hidden(layout.root) == [], call


def test_table_that_is_there_is_replaced_by_name_only(tmp_path: Path) -> None:
    db, _ = make(tmp_path / "db", 40)
    snapshot(db, tmp_path / "snap")
    other, _ = make(tmp_path / "other", 20, seed=2)
    before = contents(tmp_path / "other")
    with pytest.raises(TableExistsError, match=f"--replace {TABLE}"):
        restore(FS, tmp_path / "snap", other.layout)
    code, failed = run_json(other.root, "restore", str(tmp_path / "snap"), "--replace", str(TABLE))
    assert (code, failed["error"]["type"]) == (3, "LockLostError")
    assert {path: data for path, data in contents(tmp_path / "other").items() if ".restore" not in path.parts} == before
    other.log.close()
    code, restored = run_json(other.root, "restore", str(tmp_path / "snap"), "--replace", str(TABLE))
    assert (code, restored["outcome"]) == (0, "restored")
    same_rows(tmp_path / "db", tmp_path / "other")
    assert run_json(other.root, "restore", str(tmp_path / "snap"))[1]["outcome"] == "present"


def test_damaged_snapshot_is_not_restored(tmp_path: Path) -> None:
    db, rows = make(tmp_path / "db", 40)
    merge(db.layout)
    db.commit({("c", DAY): as_table(rows)})
    snapshot(db, tmp_path / "snap")
    files = {path: data for path, data in contents(tmp_path / "snap").items() if data}  # without the lock of merges
    for number, (path, data) in enumerate(sorted(files.items())):
        layout = Layout(tmp_path / f"back{number}")
        path.unlink()
        path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
        with pytest.raises(CorruptFileError):
            restore(FS, tmp_path / "snap", layout)
        assert not layout.schema(TABLE).exists(), path
        path.write_bytes(data[:-1])
        with pytest.raises(CorruptFileError):
            restore(FS, tmp_path / "snap", layout)
        assert not layout.schema(TABLE).exists(), path
        path.write_bytes(data)


class TwoVolumes(QuickFs):
    """No hard links, and no renames out of a stage of restore: each directory is on a file system of its own."""

    def hard_link(self, source: Path, target: Path) -> bool:
        return False

    def rename(self, source: Path, target: Path) -> None:
        if ".restore" in source.parts and ".restore" not in target.parts:
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), str(source))
        super().rename(source, target)


def test_other_file_systems_get_copies(tmp_path: Path) -> None:
    db, rows = make(tmp_path / "db", 40)
    merge(db.layout)
    db.commit({("c", DAY): as_table(rows)})
    fs = TwoVolumes()
    taken = take_snapshot(fs, db.layout, [TABLE], tmp_path / "first", time_ms=TIME)
    taken = take_snapshot(fs, db.layout, [TABLE], tmp_path / "second", time_ms=TIME, since=tmp_path / "first")
    assert taken.linked == {str(TABLE): 0}
    restore(fs, tmp_path / "second", Layout(tmp_path / "back"))
    same_rows(tmp_path / "db", tmp_path / "back")
    assert hidden(tmp_path / "back") == []


def test_directory_of_a_snapshot(tmp_path: Path) -> None:
    db, _ = make(tmp_path / "db", 10)
    for inside in (tmp_path / "db", tmp_path / "db" / "snap", tmp_path / "missing" / "snap"):
        with pytest.raises(SettingsError):
            snapshot(db, inside)
    code, planned = run_json(tmp_path / "db", "snapshot", "--out", str(tmp_path / "snap"), "--dry-run")
    assert (code, planned["rows"], (tmp_path / "snap").exists()) == (0, 10, False)
    code, taken = run_json(tmp_path / "db", "snapshot", "--out", str(tmp_path / "snap"))
    assert (code, taken["rows"], taken["epochs"]) == (0, 10, {"rows": db.log.state.epoch})
    assert run_json(tmp_path / "db", "snapshot", "--out", str(tmp_path / "snap"))[0] == 2
    code, planned = run_json(tmp_path / "back", "restore", str(tmp_path / "snap"), str(TABLE), "--dry-run")
    assert (code, planned["outcome"], (tmp_path / "back").exists()) == (0, "planned", False)
    code, restored = run_json(tmp_path / "back", "restore", str(tmp_path / "snap"), str(TABLE))
    assert (code, restored["digest"], restored["rows"]) == (0, taken["digest"], 10)
    for wrong in (["No.Such"], ["--replace", "No.Such"]):
        assert run_json(tmp_path / "back", "restore", str(tmp_path / "snap"), *wrong)[0] == 2
    assert run_json(tmp_path / "snap", "restore", str(tmp_path / "snap"))[0] == 2


def test_user_intraday_data_is_copied_beside_a_program_that_appends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARKHAVEN_USER_INTRADAY", NAME)
    program = UserIntraday(tmp_path / "db")
    program.append("0", LIVE, 1, 2)

    class Appending(QuickFs):
        def mkdirs(self, path: Path) -> list[Path]:
            if NAME in path.parts:
                program.append("0", LIVE, 3)
            return super().mkdirs(path)

    table = TableName("me", "T")
    taken = take_snapshot(Appending(), Layout(tmp_path / "db"), [table], tmp_path / "snap", time_ms=TIME)
    restore(FS, tmp_path / "snap", Layout(tmp_path / "back"))
    assert taken.manifest.tables["me.T"].rows == 5
    assert open_table(tmp_path / "back", "me.T").count() == 5
    assert open_table(tmp_path / "db", "me.T").count() > 5
    assert run(tmp_path / "back", "verify", "--deep").exit_code == 0


def test_user_tables_are_copied_too(tmp_path: Path) -> None:
    rows = pa.table({"Day": ["x", "y", "x"], "N": [1, 2, 3]})
    (tmp_path / "db").mkdir()
    save_table(tmp_path / "db", "mine.Flat", rows)
    save_table(tmp_path / "db", "mine.Parts", rows, partition_by="Day")
    out, back = tmp_path / "snap", tmp_path / "back"
    assert run(tmp_path / "db", "snapshot", "--out", out).exit_code == 0
    same = run(tmp_path / "db", "compare", out)
    assert same.exit_code == 0, same.output
    save_table(tmp_path / "db", "mine.Parts", rows, mode="append")
    assert run(tmp_path / "db", "snapshot", "--out", tmp_path / "later", "--since", out).exit_code == 0
    assert run(back, "restore", out).exit_code == 0
    assert run(back, "verify", "--deep").exit_code == 0
    assert [run_json(back, "read", f"mine.{name}")[1]["rows"] for name in ("Flat", "Parts")] == [3, 3]
    assert run(back, "restore", tmp_path / "later", "mine.Parts").exit_code == 2
    assert run(back, "restore", tmp_path / "later", "mine.Parts", "--replace", "mine.Parts").exit_code == 0
    assert run_json(back, "read", "mine.Parts")[1]["rows"] == 6
    assert run(tmp_path / "db", "compare", back).exit_code == 0
