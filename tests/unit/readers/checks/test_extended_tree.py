"""``verify`` and ``stats`` of an extended tree: every file of it has a witness."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from sparkhaven.jobs.cli.reading.stats import table_figures
from sparkhaven.jobs.monitor.storage import VolumeUse, disk_use
from sparkhaven.readers.checks.findings import Finding
from sparkhaven.readers.checks.verify import verify
from sparkhaven.store.format.parquet.trees import decode_manifest
from sparkhaven.store.io.fs import Fs, Stat
from sparkhaven.store.native.checked_columns import checksum
from sparkhaven.store.places import TablePlace
from sparkhaven.writers.transfer import extended
from tests.support.disks.model_fs import QuickFs
from tests.support.tables.intraday_rows import IntradayRows
from tests.support.writers.export_cases import NEXT
from tests.support.writers.extended_cases import KINDS, Rows, add, follow, table
from tests.support.writers.merge_cases import DAY, TABLE
from tests.support.writers.merge_runs import FS, make, merge


class _Watched(QuickFs):
    """Remembers the paths that were looked at."""

    def __init__(self) -> None:
        self.seen: set[Path] = set()

    def stat(self, path: Path, *, follow: bool = True) -> Stat | None:
        self.seen.add(path)
        return super().stat(path, follow=follow)

    def names(self, path: Path) -> list[str]:
        self.seen.add(path)
        return super().names(path)

    def read(self, path: Path) -> bytes:
        self.seen.add(path)
        return super().read(path)


def tree_of(root: Path, kind: str) -> tuple[IntradayRows, Path]:
    """Two merged dates, and their tree."""
    db = table(root, kind)
    add(db, Rows(), DAY, 20)
    add(db, Rows(), NEXT, 9)
    merge(db.layout, DAY, NEXT)
    follow(db)
    return db, db.layout.extended(TABLE)


def check(db: IntradayRows, *, deep: bool = False) -> list[Finding]:
    return verify(FS, db.layout, TABLE, deep=deep).findings


def files(tree: Path) -> list[Path]:
    return sorted(path for path in tree.rglob("*") if path.is_file())


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.write_bytes(data)


@pytest.mark.parametrize("kind", KINDS)
def test_a_sound_tree_has_no_finding(tmp_path: Path, kind: str) -> None:
    db, _ = tree_of(tmp_path, kind)
    assert check(db, deep=True) == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_each_file_that_is_lost_cut_or_changed_is_found_and_written_again(tmp_path: Path, kind: str) -> None:
    db, tree = tree_of(tmp_path, kind)
    names = {str(path.relative_to(tree)) for path in files(tree)}
    assert len(names) > 2
    for name in sorted(names):
        path = tree / name
        sound = path.read_bytes()
        path.unlink()
        assert [(f.severity, f.path) for f in check(db)] == [("error", str(path))], name
        for data in (sound[: len(sound) // 2], b"", sound + b"x"):
            if data != sound:
                path.write_bytes(data)
                assert [(f.severity, f.path) for f in check(db)] == [("error", str(path))], name
        if sound:
            path.write_bytes(sound)
            flip(path)
            found = check(db, deep=True)
            assert [(f.severity, f.path) for f in found] == [("error", str(path))], name
            assert all((found[0].what, found[0].expected, found[0].found, found[0].hint)), name
        path.unlink()
        follow(db)
        assert check(db, deep=True) == [], name
        assert {str(each.relative_to(tree)) for each in files(tree)} == names


@pytest.mark.parametrize("kind", KINDS)
def test_a_foreign_file_is_found(tmp_path: Path, kind: str) -> None:
    db, tree = tree_of(tmp_path, kind)
    leaf = next(path for path in files(tree) if path.suffix == ".parquet")
    for place, severity in ((leaf.with_name("stray.parquet"), "error"), (tree / "notes.txt", "warning")):
        shutil.copyfile(leaf, place)
        assert [(f.severity, f.path) for f in check(db)] == [(severity, str(place))]
        place.unlink()
    other = next(path for path in files(tree) if path.suffix == ".parquet" and path != leaf)
    shutil.copyfile(other, leaf)
    assert [(f.severity, f.path) for f in check(db)] == [("error", str(leaf))]


def test_a_tree_behind_history_is_a_warning(tmp_path: Path) -> None:
    db, tree = tree_of(tmp_path, "parquet:kv")
    kept = (tree / "_manifest.json").read_bytes()
    add(db, Rows(), NEXT, 5)
    merge(db.layout, NEXT)
    (found,) = check(db)
    assert (found.code, NEXT in found.what) == ("W325", True)
    follow(db)
    assert check(db, deep=True) == []
    (tree / "_manifest.json").write_bytes(kept)  # an older copy
    assert {found.severity for found in check(db)} == {"error", "warning"}
    shutil.rmtree(tree)
    assert [(f.severity, f.path) for f in check(db)] == [("warning", str(tree))]


def test_an_interrupted_or_running_merge_is_no_error(tmp_path: Path) -> None:
    db, tree = tree_of(tmp_path, "parquet:kv")
    leaf = next(tree.rglob("*.parquet"))
    leaf.write_bytes(b"published, not recorded yet")
    tree.with_name(f".{tree.name}.export").mkdir()
    assert {found.severity for found in check(db)} == {"warning"}


@pytest.mark.parametrize("kind", KINDS)
def test_stats_count_the_tree(tmp_path: Path, kind: str) -> None:
    db, tree = tree_of(tmp_path, kind)
    size = sum(path.stat().st_size for path in files(tree))
    layout = KINDS[kind]
    assert table_figures(db.place)["extended"] == {
        "layout": layout,
        "files": len(files(tree)),
        "bytes": size,
        "waste": 0,
    }
    (tree / "stray").write_bytes(b"x" * 1000)
    assert table_figures(db.place)["extended"]["waste"] == 1000
    use = disk_use(db.place)
    assert use.volumes["extended"] == VolumeUse(size + 1000, 1000, len(files(tree)))


@pytest.mark.parametrize("kind", KINDS)
def test_a_tree_of_more_leaves_is_counted_by_its_manifest_alone(tmp_path: Path, kind: str) -> None:
    db, tree = tree_of(tmp_path, kind)
    watched = _Watched()
    size = sum(path.stat().st_size for path in files(tree))
    use = disk_use(TablePlace(watched, db.layout, TABLE), most=1)
    assert use.volumes["extended"] == VolumeUse(size, 0, len(files(tree)))
    assert {path for path in watched.seen if path.is_relative_to(tree)} == {tree / "_manifest.json"}
    directories = disk_use(db.place, most=0).unlisted - 2
    assert use.unlisted == directories - 1 + 2, "two leaves"
    assert disk_use(db.place, most=directories).unlisted == 0
    (tree / "_manifest.json").write_bytes(b"{}")
    assert disk_use(db.place, most=1).volumes["extended"].bytes > size // 2, "the files themselves"


def test_a_table_without_a_tree_has_none(tmp_path: Path) -> None:
    _, tree = tree_of(tmp_path / "db", "parquet:kv")
    plain, _ = make(tmp_path / "plain", 5)
    assert table_figures(plain.place)["extended"] is None
    assert "extended" not in disk_use(plain.place).volumes
    shutil.copytree(tree, plain.layout.extended(TABLE))
    (found,) = check(plain)
    assert (found.severity, found.path) == ("note", str(plain.layout.extended(TABLE)))


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_leaf_that_another_program_writes_to_is_written_again(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    db, tree = tree_of(tmp_path, kind)
    later = (tree / "_manifest.json").stat().st_mtime_ns + 1
    leaf = next(path for path in files(tree) if DAY in str(path.relative_to(tree)) and path.stat().st_size)
    os.utime(leaf, ns=(later, later))
    read: list[Path] = []

    def counted(fs: Fs, path: Path, start: int, stop: int) -> int:
        read.append(path)
        return checksum(fs, path, start, stop)

    monkeypatch.setattr(extended, "checksum", counted)
    assert (follow(db).written, read) == ((), [leaf]), "sound, though its time is new; no other file is read"
    flip(leaf)
    os.utime(leaf, ns=(later, later))
    assert follow(db).written == (DAY,)
    assert check(db, deep=True) == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_flipped_bit_is_found_after_later_merges_too(tmp_path: Path, kind: str) -> None:
    db, tree = tree_of(tmp_path, kind)
    manifest = decode_manifest((tree / "_manifest.json").read_bytes(), tree)
    leaf = tree / next(each.path for each in manifest.leaves if each.value == DAY)
    before = leaf.stat().st_mtime_ns
    flip(leaf)
    os.utime(leaf, ns=(before, before))  # as by a bad disk
    add(db, Rows(), NEXT, 5)
    merge(db.layout, NEXT)
    follow(db)
    assert [(f.severity, f.path) for f in check(db, deep=True)] == [("error", str(leaf))]
