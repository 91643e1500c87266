"""A database with every kind of file of a tree, copied in each way: what readers may ask is in the copy."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from sparkhaven import open_table, save_table
from sparkhaven.readers.checks.verify import verify
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout
from sparkhaven.writers.partitions import add_partition
from sparkhaven.writers.transfer import snapshots, table_files
from tests.support.commands import run
from tests.support.witness.beside import LAYOUTS
from tests.support.witness.story import DONE, MERGED, PARQUET, REMOVED, STREAM, TABLE, begin, expected, go_on, read_rows

NOT_COPIED = {  # locks, caches, marks of owners; what a removal has set aside; records of dropped tables
    "LOCKFILE",
    "_last_checkpoint",
    ".drop",
    ".head",
    ".lock",
    ".stream",
}
FS = Fs()
WHERE = ("Extended", "Intraday", "Partitions", "Users", ".quarantine", ".dh_metadata")
USERS = ("mine.Flat", "mine.Parts")


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("every") / "db"
    go_on(begin(root, FS))
    rows = pa.table({"Day": ["x", "y", "x"], "N": [1, 2, 3]})
    save_table(root, "mine.Flat", rows)
    save_table(root, "mine.Parts", rows, partition_by="Day")
    return root


@pytest.fixture
def root(origin: Path, tmp_path: Path) -> Path:
    shutil.copytree(origin, tmp_path / "db", symlinks=True)
    return tmp_path / "db"


def kinds(root: Path) -> set[str]:
    """The kinds of all files: what their names end with, and the directory that says what they are of."""

    def found() -> Iterator[str]:
        for path in root.rglob("*"):
            if path.is_dir() and not path.is_symlink():
                continue
            *parts, name = path.relative_to(root).parts
            where = next((part for part in parts if part in WHERE), "")
            where = next((part for part in parts if part.startswith(("Index-", ".removed", ".dropped"))), where)
            yield f"{where}:{name if name[0] in '._' else name[name.find('.') :] if '.' in name else 'name'}"

    return set(found())


def require_whole(copy: Path) -> None:
    """Every table is read, and every check passes."""
    assert read_rows(copy, "all") == expected()
    assert {table: open_table(copy, str(table)).count() for table in LAYOUTS} == dict.fromkeys(LAYOUTS, 150)
    assert [open_table(copy, name).count() for name in USERS] == [3, 3]
    findings = verify(FS, Layout(copy.resolve()), None, deep=True).findings
    assert [finding.text() for finding in findings if finding.severity != "note"] == []
    quarantine = ("quarantine", "list", str(TABLE), STREAM)
    for words in (("doctor",), ("stats", str(TABLE)), ("streams", "list"), ("tables",), quarantine):
        done = run(copy, *words)
        assert done.exit_code == 0, done.output


def test_snapshot_mirror_and_restored_root_have_what_readers_ask_for(root: Path, tmp_path: Path) -> None:
    require_whole(root)
    assert run(root, "snapshot", "--out", tmp_path / "snap").exit_code == 0
    assert run(root, "mirror", root, tmp_path / "mirror").exit_code == 0
    restored = run(tmp_path / "back", "restore", tmp_path / "snap")
    assert restored.exit_code == 0, restored.output
    for name in ("snap", "mirror", "back"):
        copy = tmp_path / name
        require_whole(copy)
        missing = {kind for kind in kinds(root) - kinds(copy.resolve()) if not any(n in kind for n in NOT_COPIED)}
        assert missing == set(), name
        assert (copy / f"Intraday/Test/Event/.streams/{REMOVED}.removed").exists()


def test_dates_that_move_have_what_readers_ask_for(root: Path, tmp_path: Path) -> None:
    add_partition(FS, Layout(root), "Test", "1")
    before = kinds(root)
    for date in (MERGED, PARQUET):
        assert run(root, "dates", "move", str(TABLE), "--dates", date, "--to", "1").exit_code == 0
        require_whole(root)
    for date in (DONE, PARQUET):
        assert run(root, "truncate", str(TABLE), "--dates", date).exit_code == 0
        assert run(root, "delete", str(TABLE), "--dates", date, "--grace", "0").exit_code == 0
        done = run(root, "dates", "detach", str(TABLE), "--dates", date, "--out", tmp_path / "out")
        assert done.exit_code == 0, done.output
        done = run(root, "dates", "attach", str(TABLE), tmp_path / "out")
        assert done.exit_code == 0, done.output
        shutil.rmtree(tmp_path / "out")
        require_whole(root)
    assert before - kinds(root) == set()


def test_a_copy_that_cannot_be_opened_is_not_published(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_files, "_removed_streams", lambda *_: None)
    for words in (("snapshot", "--out", tmp_path / "snap"), ("mirror", root, tmp_path / "mirror")):
        failed = run(root, *words)
        assert failed.exit_code == 1 and "the copy of Test.Event cannot be read" in failed.stderr, failed.output
    assert not (tmp_path / "snap").exists() and not (tmp_path / "mirror").is_symlink()
    with monkeypatch.context() as unchecked:
        unchecked.setattr(snapshots, "require_copy", lambda *_: None)
        assert run(root, "snapshot", "--out", tmp_path / "snap").exit_code == 0
    failed = run(tmp_path / "back", "restore", tmp_path / "snap")
    assert failed.exit_code == 1, failed.output
    assert run(tmp_path / "back", "read", str(TABLE)).exit_code == 2, "there is no such table"
