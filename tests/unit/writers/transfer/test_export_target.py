"""How an export appears: whole or not at all, once, and never over what is not an export."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sparkhaven.store.errors import (
    CorruptFileError,
    LockLostError,
    SettingsError,
    TableExistsError,
    UnsupportedVersionError,
    ValidationFailedError,
)
from sparkhaven.store.format.parquet.trees import decode_manifest, encode_manifest
from sparkhaven.store.layout import Layout
from sparkhaven.writers.transfer.export import export_path, staged_tree
from sparkhaven.writers.transfer.tree_writer import WrittenLeaf, write_parquet_leaf
from tests.support.commands import run
from tests.support.disks.model_fs import Crash, CrashingFs, KillingFs
from tests.support.examples import some_of
from tests.support.writers.export_cases import NEXT, by_duckdb, export, files, found, two_days, wanted
from tests.support.writers.merge_cases import DAY, TABLE
from tests.support.writers.merge_runs import FS


def test_a_second_export_changes_nothing_and_another_one_needs_replace(tmp_path: Path) -> None:
    db, rows = two_days(tmp_path / "db", 20)
    out = tmp_path / "out"
    out.mkdir()  # an empty directory is as good as none
    planned = export(db.root, out, dry_run=True)
    assert (planned.outcome, planned.manifest, list(out.iterdir())) == ("planned", None, [])
    first = export(db.root, out)
    before = {path: path.stat().st_ino for path in out.rglob("*")}
    again = export(db.root, out)
    assert (again.outcome, again.manifest) == ("unchanged", first.manifest)
    assert {path: path.stat().st_ino for path in out.rglob("*")} == before
    with pytest.raises(TableExistsError, match="another export"):
        export(db.root, out, layout="flat")
    with pytest.raises(TableExistsError, match="another export"):
        export(db.root, out, layout="flat", dry_run=True)
    assert {path: path.stat().st_ino for path in out.rglob("*")} == before
    done = export(db.root, out, dates=(DAY,), replace=True)
    assert done.outcome == "exported"
    assert found(by_duckdb(out, "kv")) == wanted([row for row in rows if row[0] == DAY])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["db", "out"]


def test_the_same_snapshot_gives_the_same_bytes(tmp_path: Path) -> None:
    db, _ = two_days(tmp_path / "db", 20)
    for name in ("one", "two"):
        export(db.root, tmp_path / name, layout="metadata")
    assert files(tmp_path / "one") == files(tmp_path / "two")


def test_what_no_export_has_written_is_never_replaced(tmp_path: Path) -> None:
    db, _ = two_days(tmp_path / "db", 20)
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "notes.txt").write_text("mine")
    (tmp_path / "file").write_text("mine")
    (tmp_path / "link").symlink_to(theirs)
    for out in (theirs, tmp_path / "file", tmp_path / "link"):
        with pytest.raises(TableExistsError, match="no export has written"):
            export(db.root, out, replace=True)
    assert (theirs / "notes.txt").read_text() == "mine"
    for inside in (db.root, db.root.parent, db.root / "Systems" / "x", db.root / "Intraday" / "x"):
        with pytest.raises(SettingsError, match="belongs to the database"):
            export(db.root, inside, replace=True)
    for name in ("none/out", ".hidden"):
        with pytest.raises(SettingsError):
            export(db.root, tmp_path / name)


def test_files_of_others_in_an_exported_tree_are_never_replaced(tmp_path: Path) -> None:
    db, _ = two_days(tmp_path / "db", 20)
    out = tmp_path / "out"
    export(db.root, out)
    (out / "theirs").mkdir()
    (out / "theirs" / "notes.txt").write_text("mine")
    assert export(db.root, out).outcome == "unchanged"
    with pytest.raises(TableExistsError, match="no export has written") as refused:
        export(db.root, out, dates=(DAY,), replace=True)
    assert refused.value.found == "theirs/notes.txt"
    (out / "theirs" / "notes.txt").unlink()
    assert export(db.root, out, dates=(DAY,), replace=True).outcome == "exported"


def test_an_export_of_another_table_stays(tmp_path: Path) -> None:
    db, _ = two_days(tmp_path / "db", 20)
    out = tmp_path / "out"
    export(db.root, out)
    path = out / "_manifest.json"
    path.write_bytes(encode_manifest(replace(decode_manifest(path.read_bytes(), path), table="Test.Other")))
    with pytest.raises(TableExistsError, match="another table"):
        export(db.root, out, replace=True)


@pytest.mark.slow
def test_lost_files_are_reported_and_replaced_on_request(tmp_path: Path) -> None:
    db, rows = two_days(tmp_path / "db", 20)
    out = tmp_path / "out"
    export(db.root, out)
    (leaf,) = (out / f"Date={DAY}").iterdir()
    leaf.write_bytes(leaf.read_bytes()[:-1])
    with pytest.raises(CorruptFileError, match="changed since"):
        export(db.root, out)
    assert export(db.root, out, replace=True).outcome == "exported"
    manifest = out / "_manifest.json"
    for text, error in ((b"{", CorruptFileError), (manifest.read_bytes(), None)):
        manifest.write_bytes(text)
        if error:
            with pytest.raises(error):
                export(db.root, out)
            export(db.root, out, replace=True)
    manifest.write_bytes(manifest.read_bytes().replace(b'"version":1', b'"version":3'))
    with pytest.raises(UnsupportedVersionError):
        export(db.root, out, replace=True)
    assert found(by_duckdb(out, "kv")) == wanted(rows)


def test_one_export_at_a_time(tmp_path: Path) -> None:
    db, _ = two_days(tmp_path / "db", 20)
    path = export_path(FS, Layout(db.root), tmp_path / "out")
    with staged_tree(FS, path), pytest.raises(LockLostError):
        export(db.root, tmp_path / "out")
    assert export(db.root, tmp_path / "out").outcome == "exported"


@pytest.mark.slow
def test_a_file_that_reads_back_otherwise_is_not_published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    db, _ = two_days(tmp_path / "db", 20)
    out = tmp_path / "out"
    export(db.root, tmp_path / "whole", layout="flat", tier="history")
    (other,) = (tmp_path / "whole").glob("*.parquet")

    kinds = ["cut", "other"]

    def damaged(fs: Any, path: Path, *rest: Any) -> WrittenLeaf:
        written = write_parquet_leaf(fs, path, *rest)
        if not path.name.endswith("-00000.parquet"):
            return written
        if kinds.pop(0) == "cut":
            path.write_bytes(path.read_bytes()[:-9])
        else:
            shutil.copy(other, path)
        return written

    monkeypatch.setattr("sparkhaven.writers.transfer.tree_writer.write_parquet_leaf", damaged)
    while kinds:
        with pytest.raises(ValidationFailedError):
            export(db.root, out, layout="flat")
        assert sorted(path.name for path in tmp_path.iterdir()) == ["db", "whole"]


@pytest.mark.slow
def test_killed_at_any_change_there_is_a_whole_tree_or_none(tmp_path: Path) -> None:
    db, rows = two_days(tmp_path / "db", 8)
    out, seen = tmp_path / "out", []
    for call in range(1, 100):
        try:
            export(db.root, out, fs=CrashingFs(crash_after=call - 1))
            break
        except Crash:
            seen.append(out.exists())
    assert seen == [False] * 20 + [True]  # after the rename only the sync of its directory is left
    assert export(db.root, out).outcome == "unchanged"
    assert found(by_duckdb(out, "kv")) == wanted(rows)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["db", "out"]


class TreeFs(KillingFs):
    """Notes before each change of the disk whether a tree is in its place. Some file systems have no exchange."""

    def __init__(self, out: Path, *, crash_after: int | None = None, exchanges: bool = True) -> None:
        super().__init__(crash_after=crash_after)
        self._out, self._exchanges, self.there = out, exchanges, list[bool]()

    def _change(self, kind: str, path: Path) -> None:
        self.there.append((self._out / "_manifest.json").exists())
        super()._change(kind, path)

    def exchange(self, one: Path, other: Path) -> bool:
        return self._exchanges and super().exchange(one, other)


@pytest.mark.slow
@pytest.mark.parametrize("exchanges", [True, False])
def test_a_tree_is_there_at_every_moment_and_after_every_kill(tmp_path: Path, exchanges: bool) -> None:
    db, rows = two_days(tmp_path / "db", 8)
    out = tmp_path / "out"
    export(db.root, out, dates=(DAY,))
    old, counted = files(out), TreeFs(out, exchanges=exchanges)
    assert export(db.root, out, fs=counted, replace=True).outcome == "exported"
    new = files(out)
    assert counted.there.count(False) == (0 if exchanges else 1), "without an exchange a rename has to be waited for"
    for call in some_of(range(counted.changes), 4):
        export(db.root, out, dates=(DAY,), replace=True)
        with pytest.raises(Crash):
            export(db.root, out, fs=TreeFs(out, crash_after=call, exchanges=exchanges), replace=True)
        assert (files(out) if out.exists() else None) in ((old, new) if exchanges else (old, new, None))
        if not out.exists():  # the next export, whatever becomes of it, brings it back
            with pytest.raises(TableExistsError, match="another export"):
                export(db.root, out)
            assert files(out) == old
        export(db.root, out, replace=True)
        assert files(out) == new and found(by_duckdb(out, "kv")) == wanted(rows)
        assert sorted(path.name for path in tmp_path.iterdir()) == ["db", "out"]


def test_rows_that_were_withdrawn_are_not_in_the_next_export(tmp_path: Path) -> None:
    db, rows = two_days(tmp_path / "db", 20)
    out = tmp_path / "out"
    export(db.root, out)
    db.log.close()
    late = [row for day, row in rows if day != DAY]
    numbers = [row["L"] for row in late]
    number = next(n for n in numbers[1:-1] if n is not None and numbers.count(n) == 1)  # rows are before it and behind
    assert run(db.root, "delete-rows", str(TABLE), "--where", f"Date = '{NEXT}' AND L = {number}").exit_code == 0
    kept = [(day, row) for day, row in rows if day == DAY or row["L"] != number]
    assert len(rows) - len(kept) == 1
    with pytest.raises(TableExistsError, match="another export"):
        export(db.root, out)
    assert export(db.root, out, replace=True).outcome == "exported"
    assert found(by_duckdb(out, "kv")) == wanted(kept)
