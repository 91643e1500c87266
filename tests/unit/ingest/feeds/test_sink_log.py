"""A feed on the output of Spark's streaming file sink has the files that the sink's log names, and no others."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from sparkhaven.ingest.feeds.files.listing import GONE, HIDDEN
from sparkhaven.ingest.feeds.files.options import FilesOptions
from sparkhaven.ingest.feeds.files.planner import FilePlanner
from sparkhaven.store.epochs.state.file_positions import FileWindow
from sparkhaven.store.errors import CorruptFileError, SettingsError, UnsupportedVersionError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.managed_trees import OTHER_SIZE, UNCOMMITTED, refuse_managed

NOW = 1_800_000_000
NAMES = {"1": "part-1.json", "2": "part-2.json", "3": "part-3.json"}


def put(path: Path, size: int = 10, age_s: float = 1000) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * (size - 1) + b"\n")
    os.utime(path, (NOW - age_s, NOW - age_s))
    for directory in path.parents[:3]:
        os.utime(directory, (NOW - 500, NOW - 500))  # as if it had rested for long: it is not listed without need
    return path


def entry(path: Path, action: str = "add", uri: str | None = None, **more: Any) -> str:
    size = path.stat().st_size if path.exists() else 10
    body = {"path": uri or f"file://{quote(str(path))}", "size": size, "isDir": False, "modificationTime": 1}
    return json.dumps({**body, "blockReplication": 1, "blockSize": 33554432, "action": action, **more})


def batch(directory: Path, name: str, lines: Sequence[str]) -> Path:
    """A file of the log, by the name of its batch."""
    log = directory / "_spark_metadata" / name
    log.parent.mkdir(exist_ok=True)
    log.write_text("\n".join(["v1", *lines]))
    return log


def planner(path: Path) -> FilePlanner:
    return FilePlanner(Fs(), FilesOptions(str(path)), FileWindow(), lambda: NOW)


def names(found: FilePlanner) -> list[str]:
    return sorted(Path(file.path).name for file in found.plan().files)


@pytest.fixture
def out(tmp_path: Path) -> Path:
    for number in range(5):
        put(tmp_path / "out" / f"part-{number}.json")
    return tmp_path / "out"


def test_only_committed_files_are_taken_and_the_others_are_told(out: Path) -> None:
    batch(out, "0", [entry(out / "part-1.json")])
    batch(out, "1", [])
    batch(out, "2", [entry(out / "part-3.json"), ""])
    (out / "_spark_metadata" / ".2.crc").write_bytes(b"crc")
    (out / "_spark_metadata" / ".3.1c2d.tmp").write_bytes(b"v1\n{")
    found = planner(out)
    assert names(found) == ["part-1.json", "part-3.json"]
    assert found.passed().counts == {HIDDEN: 1, UNCOMMITTED: 3}
    assert found.passed().names[UNCOMMITTED] == [str(out / f"part-{n}.json") for n in (0, 2, 4)]


def test_new_entries_are_seen_while_the_directory_rests(out: Path) -> None:
    batch(out, "0", [entry(out / "part-1.json")])
    os.utime(out, (NOW - 500, NOW - 500))
    found = planner(out)
    assert names(found) == ["part-1.json"] and names(found) == []
    batch(out, "1", [entry(out / "part-2.json")])
    os.utime(out, (NOW - 500, NOW - 500))
    assert names(found) == ["part-2.json"] and names(found) == []
    batch(out, "2.compact", [entry(out / f"part-{n}.json") for n in (1, 2, 4)])
    os.utime(out, (NOW - 500, NOW - 500))
    assert names(found) == ["part-4.json"]
    (out / "_spark_metadata" / "0").unlink()  # the sink removes what it has compacted
    (out / "_spark_metadata" / "1").unlink()
    batch(out, "3", [entry(out / "part-0.json")])
    os.utime(out, (NOW - 500, NOW - 500))
    assert names(found) == ["part-0.json"]
    assert found.passed().counts[UNCOMMITTED] == 1


def test_a_compact_batch_stands_for_all_before_and_deleted_files_are_not_taken(out: Path) -> None:
    batch(out, "8", ["damaged, and of no meaning any more"])
    batch(out, "9.compact", [entry(out / "part-0.json"), entry(out / "part-1.json")])
    batch(out, "10", [entry(out / "part-0.json", "delete"), entry(out / "part-2.json")])
    assert names(planner(out)) == ["part-1.json", "part-2.json"]


def test_directories_of_partitions_odd_names_and_nested_logs(tmp_path: Path) -> None:
    out = tmp_path / "a b%" / "out"
    kept = [put(out / "At=2026-11-20 10%3A00" / "part-ä.json"), put(out / "At=x" / "hour=1" / "part-b.json")]
    put(out / "At=x" / "hour=1" / "part-left.json")
    inner = put(out / "At=inner" / "part-c.json")
    put(out / "At=inner" / "part-d.json")
    batch(out, "0", [entry(path) for path in kept])
    batch(inner.parent, "0", [entry(inner)])
    assert names(planner(out / "**" / "*.json")) == ["part-b.json", "part-c.json", "part-ä.json"]
    assert names(planner(out / "At=x" / "hour=1")) == ["part-b.json"], "the log of a directory above"
    assert names(planner(out / "At=x" / "hour=1" / "part-left.json")) == []
    assert names(planner(kept[1])) == ["part-b.json"]


@pytest.mark.parametrize("base", ["s3a://bucket/x=1", "hdfs://host:8020/out", "file:/elsewhere"])
def test_a_directory_that_was_moved_or_is_mounted(tmp_path: Path, base: str) -> None:
    out = tmp_path / "mounted"
    kept = [put(out / "part-a.json"), put(out / "k=1" / "part-b.json")]
    put(out / "part-left.json"), put(out / "k=2" / "part-b.json")
    batch(out, "0", [entry(path, uri=f"{base}/{quote(str(path.relative_to(out)))}") for path in kept])
    found = planner(out / "**" / "*.json")
    assert sorted(file.path for file in found.plan().files) == sorted(map(str, kept))
    assert found.passed().counts[GONE] == 0


def test_files_of_another_size_wait_and_missing_ones_are_told(out: Path) -> None:
    batch(out, "0", [entry(out / "part-1.json", size=11), entry(out / "part-2.json"), entry(out / "gone.json")])
    os.utime(out, (NOW - 500, NOW - 500))
    found = planner(out)
    assert names(found) == ["part-2.json"]
    assert (found.passed().counts[OTHER_SIZE], found.passed().names[GONE]) == (1, [str(out / "gone.json")])
    put(out / "part-1.json", 11)
    assert names(found) == ["part-1.json"] and OTHER_SIZE not in found.passed().counts


def test_an_empty_log_commits_nothing_and_none_is_no_log(out: Path) -> None:
    (out / "_spark_metadata").mkdir()
    found = planner(out)
    assert names(found) == [] and found.passed().counts[UNCOMMITTED] == 5
    shutil.rmtree(out / "_spark_metadata")
    assert len(names(found)) == 5, "the directory has changed, and has no log any more"
    put(out / "_spark_metadata")  # a file of that name is no log
    assert len(names(planner(out))) == 5


DAMAGES: dict[str, tuple[str, type[Exception], str]] = {
    "": ("0", CorruptFileError, "'' in line 1, for v1"),
    "v1\n{": ("0", CorruptFileError, "line 2"),
    'v1\n{"path": "/x"}': ("0", CorruptFileError, "line 2: 'size'"),
    'v1\n{"path": "/x", "size": "1", "action": "add"}': ("0", CorruptFileError, "line 2: action 'add', size '1'"),
    'v1\n{"path": "/x", "size": 1, "action": "move"}': ("0", CorruptFileError, "line 2: action 'move'"),
    "v1\n[1]": ("0", CorruptFileError, "line 2"),
    '{"path": "/x", "size": 1, "action": "add"}': ("0", CorruptFileError, "in line 1, for v1"),
    "v2\n": ("0", UnsupportedVersionError, "v2"),
    "v1": ("1", CorruptFileError, "nothing"),  # batch 0 is missing
}


@pytest.mark.parametrize("text", DAMAGES)
def test_a_damaged_or_short_log_is_refused_by_name(out: Path, text: str) -> None:
    name, kind, found = DAMAGES[text]
    log = batch(out, name, [])
    log.write_text(text)
    with pytest.raises(kind) as caught:
        planner(out).plan()
    assert str(out / "_spark_metadata" / "0") in str(caught.value) and found in str(caught.value)


def test_batches_missing_behind_a_compact_one(out: Path) -> None:
    batch(out, "9.compact", [entry(out / "part-1.json")])
    batch(out, "11", [entry(out / "part-2.json")])
    with pytest.raises(CorruptFileError, match="lacks a batch") as caught:
        planner(out).plan()
    assert caught.value.where == str(out / "_spark_metadata" / "10")


ICEBERG = "00003-7f2ab1c5-90aa-4ee2-a2a9-04e1d9d9c0f1.metadata.json"
MANAGED = {
    "_delta_log/00000000000000000000.json": 'with type = "delta" and path = ',
    ".hoodie/hoodie.properties": "tables of Hudi are not read",
    ".hoodie_partition_metadata": "tables of Hudi are not read",
    "snapshot/snapshot-1": "tables of Paimon are not read",
    "metadata/v1.metadata.json": "tables of Iceberg are not read",
    f"metadata/{ICEBERG}": "tables of Iceberg are not read",
    "metadata/00001-7f2ab1c5-90aa-4ee2-a2a9-04e1d9d9c0f1.gz.metadata.json": "tables of Iceberg are not read",
}


@pytest.mark.parametrize("marker", MANAGED)
def test_tables_of_other_formats_are_refused_from_wherever_they_are_entered(tmp_path: Path, marker: str) -> None:
    table = tmp_path / "lake" / "t"
    put(table / "data" / "part-1.json"), put(table / "part-2.json")
    put(table / marker)
    for path in (table, table / "*.json", tmp_path / "lake" / "*" / "*.json", table / "data", table / "part-2.json"):
        with pytest.raises(SettingsError, match="whose log says which files count") as caught:
            planner(path).plan()
        assert caught.value.where == str(table) and MANAGED[marker] in str(caught.value.hint)


@pytest.mark.parametrize("target", ["t/data", "t/data/part-1.json"])
def test_links_do_not_lead_around_the_log_of_a_table(tmp_path: Path, target: str) -> None:
    put(tmp_path / "t" / "data" / "part-1.json"), put(tmp_path / "t" / "_delta_log" / f"{0:020}.json")
    put(tmp_path / "feed" / "part-0.json")
    link = tmp_path / "feed" / "x.json"
    link.symlink_to(tmp_path / target)
    for path in (link, tmp_path / "feed" / "**" / "*.json"):
        with pytest.raises(SettingsError, match="a table of Delta"):
            planner(path).plan()


def test_links_do_not_lead_around_the_log_of_a_sink(tmp_path: Path, out: Path) -> None:
    kept = put(out / "k=1" / "part-a.json")
    put(out / "k=1" / "part-left.json")
    batch(out, "0", [entry(kept), entry(out / "part-1.json")])
    (tmp_path / "feed").mkdir()
    (tmp_path / "feed" / "k").symlink_to(out / "k=1")
    for number in (1, 2):
        (tmp_path / "feed" / f"x-{number}.json").symlink_to(out / f"part-{number}.json")
    found = planner(tmp_path / "feed" / "**" / "*.json")
    assert names(found) == ["part-a.json", "x-1.json"]
    assert found.passed().counts[UNCOMMITTED] == 2


def test_a_table_that_appears_later_and_names_that_are_no_tables(out: Path) -> None:
    put(out / "metadata" / "a.metadata.json"), put(out / "metadata" / "x.json")
    put(out / "_delta_log2" / "x"), put(out / ".hoodie")
    found = planner(out)
    assert len(names(found)) == 5
    refuse_managed(Fs(), out)
    (out / "_delta_log").mkdir()
    with pytest.raises(SettingsError, match="a table of Delta"):
        found.plan()
