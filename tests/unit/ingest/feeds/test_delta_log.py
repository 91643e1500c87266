"""The log of a real Delta table as plain data: versions, checkpoints, snapshots, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sparkhaven.ingest.feeds.delta.log import Actions, AddedFile, read_version
from sparkhaven.ingest.feeds.delta.snapshot import look, snapshot
from sparkhaven.store.delta.log import data_path, list_log, version_file
from sparkhaven.store.errors import CorruptFileError, FeedError, PositionGapError, UnsupportedVersionError
from sparkhaven.store.io.fs import Fs
from tests.support.ingest.delta.tables import TABLE_ID, actions_of, change_metadata, checkpoint, put_version, unpack

FS = Fs()


def read(table: Path, version: int) -> Actions:
    found = read_version(FS, table, version)
    assert found is not None
    return found


def ids(files: list[AddedFile]) -> list[int]:
    """The ids in data files, sorted."""
    return sorted(value for file in files for value in pq.read_table(file.path, columns=["id"])["id"].to_pylist())


def test_what_versions_say(tmp_path: Path) -> None:
    table = unpack(tmp_path)
    made, append, optimize, delete = (read(table, version) for version in (0, 1, 8, 9))
    assert made.metadata is not None and made.metadata.id == TABLE_ID and made.added == []
    assert made.protocol is not None and made.protocol.reader == 1
    assert [(file.rows, dict(file.values)) for file in append.added] == [(1, {"day": None}), (2, {"day": "2026-11-21"})]
    assert all(Path(file.path).stat().st_size == file.size for file in append.added)
    assert (append.operation, append.changes) == ("WRITE", False)
    assert (optimize.operation, optimize.changes, optimize.added, len(optimize.moved)) == ("OPTIMIZE", False, [], 2)
    assert (delete.operation, delete.changes, len(delete.added), len(delete.removed)) == ("DELETE", True, 1, 1)
    assert read_version(FS, table, 10) is None


def test_snapshots_are_the_same_with_a_checkpoint_and_without(tmp_path: Path) -> None:
    table = unpack(tmp_path)
    view = look(FS, table)
    assert (view.latest, view.metadata.id, set(view.listing.checkpoints)) == (9, TABLE_ID, {5})
    with_it = {version: snapshot(FS, table, version) for version in range(10)}
    assert [ids(with_it[version]) for version in (0, 4)] == [[], list(range(12))]
    assert ids(with_it[7]) == ids(with_it[8]) == list(range(21)) and len(with_it[8]) == 2
    assert ids(with_it[9]) == [number for number in range(21) if number != 4]
    checkpoint(table).unlink()
    assert {version: snapshot(FS, table, version) for version in range(10)} == with_it


def test_a_log_whose_old_versions_were_removed_begins_at_its_checkpoint(tmp_path: Path) -> None:
    table = unpack(tmp_path)
    for version in range(5):
        version_file(table, version).unlink()
    assert look(FS, table).metadata.id == TABLE_ID
    assert ids(snapshot(FS, table, 6)) == list(range(18))
    with pytest.raises(PositionGapError, match="Log retention") as caught:
        snapshot(FS, table, 4)
    assert (caught.value.expected, caught.value.found) == ("version 0", "the first version that is left is 5")


def test_a_checkpoint_in_parts_counts_when_all_parts_are_there(tmp_path: Path) -> None:
    table = unpack(tmp_path)
    expected = snapshot(FS, table, 7)
    whole = pq.read_table(checkpoint(table))
    for version in range(5):
        version_file(table, version).unlink()
    checkpoint(table).unlink()
    parts = [table / "_delta_log" / f"{5:020d}.checkpoint.{n:010d}.{2:010d}.parquet" for n in (1, 2)]
    pq.write_table(whole.slice(0, 5), parts[0])
    assert list_log(FS, table).checkpoints == {}
    pq.write_table(whole.slice(5), parts[1])
    assert snapshot(FS, table, 7) == expected


@pytest.mark.parametrize("damage", [b'{"add":{"path":', b'{"add":{"size":1}}', b"[1]", b'{"metaData":null}'])
def test_a_damaged_version_is_reported_with_its_line(tmp_path: Path, damage: bytes) -> None:
    table = unpack(tmp_path)
    version_file(table, 3).write_bytes(b'{"commitInfo":{}}\n' + damage)
    with pytest.raises(CorruptFileError) as caught:
        read_version(FS, table, 3)
    assert caught.value.found is not None and caught.value.found.startswith("line 2: ")
    assert caught.value.where == str(version_file(table, 3))


def test_a_damaged_checkpoint_is_reported(tmp_path: Path) -> None:
    table = unpack(tmp_path)
    checkpoint(table).write_bytes(b"PAR1 nothing")
    with pytest.raises(CorruptFileError) as caught:
        look(FS, table)
    assert caught.value.where == str(checkpoint(table))
    pq.write_table(pa.table({"txn": [1]}), checkpoint(table))
    with pytest.raises(CorruptFileError, match="damaged"):
        look(FS, table)


def test_no_table_is_reported(tmp_path: Path) -> None:
    with pytest.raises(FeedError, match="no Delta table"):
        look(FS, tmp_path)


def test_features_that_are_not_read_are_refused_by_name(tmp_path: Path) -> None:
    table = unpack(tmp_path, until=4)
    change_metadata(table, configuration={"delta.columnMapping.mode": "name"})
    with pytest.raises(UnsupportedVersionError) as caught:
        look(FS, table)
    assert caught.value.found == "column mapping by name"
    change_metadata(table, configuration={})
    put_version(table, 5, {"protocol": {"minReaderVersion": 3, "readerFeatures": ["timestampNtz", "catalogManaged"]}})
    with pytest.raises(UnsupportedVersionError) as caught:
        look(FS, table)
    assert caught.value.found == "reader feature catalogManaged"
    put_version(table, 5, {"protocol": {"minReaderVersion": 4}})
    with pytest.raises(UnsupportedVersionError, match="feature"):
        look(FS, table)
    put_version(table, 5, {"protocol": {"minReaderVersion": 3, "readerFeatures": ["deletionVectors", "columnMapping"]}})
    assert len(snapshot(FS, table, look(FS, table).latest)) == 8  # features that no file makes use of
    actions = actions_of(table, 2)
    actions[1]["add"]["deletionVector"] = {
        "storageType": "u",
        "pathOrInlineDv": "x",
        "sizeInBytes": 1,
        "cardinality": 1,
    }
    put_version(table, 2, *actions)
    with pytest.raises(UnsupportedVersionError) as caught:
        snapshot(FS, table, 5)
    assert caught.value.found == "a data file with a deletion vector"


def test_paths_of_data_files() -> None:
    table = Path("/data/t")
    assert data_path(table, "day=a%20b%25/part.parquet") == Path("/data/t/day=a b%/part.parquet")
    assert data_path(table, "file:/other/x%23.parquet") == data_path(table, "file:///other/x%23.parquet")
    assert data_path(table, "file:/other/x%23.parquet") == Path("/other/x#.parquet")
    assert data_path(table, "/abs/x.parquet") == Path("/abs/x.parquet")
    assert data_path(table, "at=2026-11-21 10%3A00%3A00/x") == Path("/data/t/at=2026-11-21 10:00:00/x")
    with pytest.raises(UnsupportedVersionError, match="feature"):
        data_path(table, "s3a://bucket/x.parquet")


def test_an_empty_text_is_a_null_partition(tmp_path: Path) -> None:
    table = unpack(tmp_path)
    actions = actions_of(table, 1)
    actions[1]["add"]["partitionValues"] = {"day": ""}
    version_file(table, 1).write_text("\n".join(json.dumps(action) for action in actions))
    assert read(table, 1).added[0].values == (("day", None),)
