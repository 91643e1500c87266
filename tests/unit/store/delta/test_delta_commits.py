"""Versions of a Delta table: each has one writer, checkpoints say what the log says, and the log stays small."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from sparkhaven.store.delta.commit import DAY_MS, checkpoint, clean_log, commit, is_checkpoint_due, require_writable
from sparkhaven.store.delta.log import LAST_CHECKPOINT, LOG, Action, is_table, list_log, version_file
from sparkhaven.store.delta.snapshot import NO_VERSION, DeltaSnapshot, read_snapshot
from sparkhaven.store.errors import CorruptFileError, UnsupportedVersionError
from sparkhaven.store.io.fs import Fs
from tests.support.disks.model_fs import FaultFs
from tests.support.ingest.delta.tables import unpack

FS = Fs()
PROTOCOL = {"minReaderVersion": 1, "minWriterVersion": 2}
METADATA: dict[str, Any] = {
    "id": "t",
    "format": {"provider": "parquet", "options": {}},
    "schemaString": '{"type":"struct","fields":[]}',
    "partitionColumns": [],
    "configuration": {"a": "b"},
    "createdTime": 1,
}
FIRST: list[Action] = [("protocol", PROTOCOL), ("metaData", METADATA)]


def add(name: str, time: int = 1) -> Action:
    body = {"path": name, "partitionValues": {}, "size": 1, "modificationTime": time, "dataChange": True}
    return "add", {**body, "stats": '{"numRecords": 1}'}


def remove(name: str, time: int) -> Action:
    body = {"path": name, "deletionTimestamp": time, "dataChange": True, "extendedFileMetadata": True}
    return "remove", {**body, "partitionValues": {}, "size": 1}


@pytest.fixture
def table(tmp_path: Path) -> Path:
    (tmp_path / LOG).mkdir()
    return tmp_path


def names(snapshot: DeltaSnapshot) -> list[str]:
    return [path.name for path in snapshot.paths()]


def test_a_version_is_never_written_over(table: Path) -> None:
    assert not is_table(FS, table) and read_snapshot(FS, table).version == NO_VERSION
    assert commit(FS, table, 0, [*FIRST, add("a")])
    said = version_file(table, 0).read_bytes()
    assert not commit(FS, table, 0, [*FIRST, add("b")])
    assert version_file(table, 0).read_bytes() == said and FS.names(table / LOG) == [version_file(table, 0).name]
    assert version_file(table, 0).stat().st_nlink == 1
    assert is_table(FS, table) and names(read_snapshot(FS, table)) == ["a"]


def test_without_hard_links_a_version_is_renamed_into_its_place(table: Path) -> None:
    import errno

    for code in (errno.EPERM, errno.ENOTSUP):
        fs = FaultFs("nothing")

        def refuse(source: object, target: object, code: int = code) -> None:
            raise OSError(code, os.strerror(code))

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, "link", refuse)
            version = read_snapshot(FS, table).version + 1
            assert commit(fs, table, version, [*FIRST, add("a")])
            assert not commit(fs, table, version, [*FIRST, add("b")])
        assert names(read_snapshot(FS, table)) == ["a"]
    assert len(FS.names(table / LOG)) == 2


def test_what_a_killed_commit_left_is_removed(table: Path) -> None:
    commit(FS, table, 0, FIRST)
    (table / LOG / f".{1:020}.json.tmp-77").write_text("{")
    (table / LOG / f".{1:020}.json.5f.tmp").write_text("{")  # of Spark, which may be at work
    clean_log(FS, table)
    assert FS.names(table / LOG) == [f".{1:020}.json.5f.tmp", f"{0:020}.json"]


def test_a_checkpoint_says_what_the_log_says(table: Path) -> None:
    txn: Action = ("txn", {"appId": "x", "version": 3, "lastUpdated": 4})
    gone: Action = ("domainMetadata", {"domain": "e", "configuration": "{}", "removed": True})
    domain: Action = ("domainMetadata", {"domain": "d", "configuration": "{}", "removed": False})
    commit(FS, table, 0, [*FIRST, txn, domain, gone, add("a b%20c"), add("old"), add("older")])
    commit(FS, table, 1, [remove("old", 50), remove("older", 10), ("commitInfo", {"operation": "X"})])
    before = read_snapshot(FS, table)
    now = 10 + 7 * DAY_MS
    checkpoint(FS, before, now)
    pointer = json.loads((table / LOG / LAST_CHECKPOINT).read_text())
    assert pointer == {"version": 1, "size": 6} and list_log(FS, table).checkpoints == {
        1: (f"{1:020}.checkpoint.parquet",)
    }
    for version in (0, 1):
        version_file(table, version).unlink()
    after = read_snapshot(FS, table)
    assert (after.metadata, after.protocol, after.transactions) == (METADATA, PROTOCOL, before.transactions)
    assert list(after.domains) == ["d"] and names(after) == ["a b c"]
    assert [body["path"] for body in after.removed] == ["old"]  # the older one is past the time for which it is kept
    (body,) = after.files.values()
    assert body == {**add("a b%20c")[1], "dataChange": False}


def test_checkpoints_are_written_as_often_as_the_table_says(table: Path) -> None:
    def due(version: int, **configuration: str) -> bool:
        return is_checkpoint_due(DeltaSnapshot(table, version, metadata={"configuration": configuration}), 10)

    assert [version for version in range(31) if due(version)] == [10, 20, 30]
    assert [version for version in range(10) if due(version, **{"delta.checkpointInterval": "3"})] == [3, 6, 9]


@pytest.mark.parametrize("own", [False, True])
def test_versions_that_are_too_old_are_removed_as_far_as_a_checkpoint_has_them(table: Path, own: bool) -> None:
    metadata = {**METADATA, "configuration": {"delta.logRetentionDuration": "interval 1 day"}} if own else METADATA
    for version in range(31):
        commit(FS, table, version, [("protocol", PROTOCOL), ("metaData", metadata), add(str(version))])
        if version and version % 10 == 0:
            checkpoint(FS, read_snapshot(FS, table), 1)
    day = 86400
    for version in range(31):
        os.utime(version_file(table, version), (version * day, version * day))
    (table / LOG / f"{7:020}.crc").write_text("")
    checkpoint(FS, read_snapshot(FS, table), (25 + 30) * DAY_MS)
    listing = list_log(FS, table)
    assert min(listing.versions) == (0 if own else 20)
    assert sorted(listing.checkpoints) == ([10, 20, 30] if own else [20, 30])
    assert (table / LOG / f"{7:020}.crc").exists() == own
    assert len(read_snapshot(FS, table).files) == 31


def test_a_table_of_spark_is_read_with_its_checkpoint(tmp_path: Path) -> None:
    snapshot = read_snapshot(FS, unpack(tmp_path))
    assert snapshot.version == 9 and [path.name[:20] for path in snapshot.read] == [f"{n:020}" for n in range(5, 10)]
    assert snapshot.metadata["partitionColumns"] == ["day"] and len(snapshot.removed) > 0
    with pytest.raises(UnsupportedVersionError, match="not written"):
        require_writable(snapshot)


@pytest.mark.parametrize(
    ("protocol", "metadata"),
    [
        ({"minWriterVersion": 3}, {}),
        ({"minWriterVersion": 7, "writerFeatures": ["appendOnly", "rowTracking"]}, {}),
        ({}, {"configuration": {"delta.appendOnly": "true"}}),
        ({}, {"partitionColumns": ["Epoch"]}),
        ({}, {"schemaString": '{"fields":[{"name":"x","metadata":{"delta.invariants":"{}"}}]}'}),
    ],
)
def test_a_table_with_rules_that_we_do_not_have_is_not_written(
    table: Path, protocol: dict[str, Any], metadata: dict[str, Any]
) -> None:
    commit(FS, table, 0, [("protocol", {**PROTOCOL, **protocol}), ("metaData", {**METADATA, **metadata})])
    with pytest.raises(UnsupportedVersionError, match="not written without Spark") as caught:
        require_writable(read_snapshot(FS, table))
    assert caught.value.hint
    features = {"minWriterVersion": 7, "writerFeatures": ["appendOnly", "invariants"]}
    commit(FS, table, 1, [("protocol", {**PROTOCOL, **features}), ("metaData", METADATA)])
    require_writable(read_snapshot(FS, table))


@pytest.mark.parametrize(
    ("number", "content", "found"),
    [
        (1, b"", "no action"),
        (1, b'{"add"', "line 1"),
        (1, b"[]\n", "line 1"),
        (1, b'{"commitInfo":{}}\n{"remove":{}}\n', "line 2"),
        (0, b'{"commitInfo":{}}\n', "no metaData"),
        (2, None, "no such file"),
    ],
)
def test_damage_of_the_log_is_named(table: Path, number: int, content: bytes | None, found: str) -> None:
    for version in range(4):
        commit(FS, table, version, [*(FIRST if version == 0 else ()), add(str(version))])
    if content is None:
        version_file(table, number).unlink()
    else:
        version_file(table, number).write_bytes(content)
    with pytest.raises(CorruptFileError) as caught:
        read_snapshot(FS, table)
    assert found in str(caught.value.found)


def test_a_checkpoint_that_is_damaged_is_named(table: Path) -> None:
    commit(FS, table, 0, FIRST)
    checkpoint(FS, read_snapshot(FS, table), 1)
    path = table / LOG / f"{0:020}.checkpoint.parquet"
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(CorruptFileError) as caught:
        read_snapshot(FS, table)
    assert caught.value.where == str(path)


@pytest.mark.parametrize(
    ("action", "what"),
    [
        (("add", {**add("x")[1], "deletionVector": {"storageType": "u"}}), "deletion vector"),
        (("metaData", {**METADATA, "configuration": {"delta.columnMapping.mode": "name"}}), "column mapping"),
        (
            ("protocol", {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["v2Checkpoint"]}),
            "checkpoints of version 2",
        ),
        (("add", {**add("x")[1], "path": "s3://bucket/x"}), "s3://"),
    ],
)
def test_a_table_that_has_to_be_read_by_other_rules_is_refused(table: Path, action: Action, what: str) -> None:
    commit(FS, table, 0, [*FIRST, action])
    with pytest.raises(UnsupportedVersionError, match="not read") as caught:
        read_snapshot(FS, table)
    assert what in str(caught.value.found)
