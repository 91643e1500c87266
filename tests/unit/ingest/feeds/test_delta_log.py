"""The log of a real Delta table as plain data: versions, checkpoints, snapshots, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sparkhaven.ingest.feeds.delta.versions import AddedFile, Changes, changes_of, look, snapshot
from sparkhaven.store.delta.log import data_path, list_log, version_file
from sparkhaven.store.errors import CorruptFileError, FeedError, PositionGapError, UnsupportedVersionError
from sparkhaven.store.io.fs import Fs
from tests.support.ingest.delta.tables import TABLE_ID, actions_of, change_metadata, checkpoint, put_version, unpack

FS = Fs()


def read(table: Path, version: int) -> Changes:
    found = changes_of(FS, table, version)
    assert found is not None
    return found


def ids(files: list[AddedFile]) -> list[int]:
    """The ids in data files, sorted."""
    return sorted(value for file in files for value in pq.read_table(file.path, columns=["id"])["id"].to_pylist())


def test_what_versions_say(tmp_path: Path) -> None:
    table = unpack(tmp_path)
    made, append, optimize, delete = (read(table, version) for version in (0, 1, 8, 9))
    assert made.metadata is not None and made.metadata["id"] == TABLE_ID and made.added == []
    assert made.protocol is not None and made.protocol["minReaderVersion"] == 1
    assert [(file.rows, dict(file.values)) for file in append.added] == [(1, {"day": None}), (2, {"day": "2026-11-21"})]
    assert all(Path(file.path).stat().st_size == file.size for file in append.added)
    assert (append.operation, append.changes) == ("WRITE", False)
    assert (optimize.operation, optimize.changes, optimize.added) == ("OPTIMIZE", False, [])
    assert (delete.operation, delete.changes, len(delete.added)) == ("DELETE", True, 1)
    assert changes_of(FS, table, 10) is None


def test_snapshots_are_the_same_with_a_checkpoint_and_without(tmp_path: Path) -> None:
    table = unpack(tmp_path)
    view = look(FS, table)
    assert (view.latest, view.id, set(view.listing.checkpoints)) == (9, TABLE_ID, {5})
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
    assert look(FS, table).id == TABLE_ID
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
        changes_of(FS, table, 3)
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


def test_a_table_that_was_seen_is_read_from_there_on(tmp_path: Path) -> None:
    table = unpack(tmp_path, until=8)
    seen = look(FS, table)
    version_file(table, 8).rename(tmp_path / "8")
    (tmp_path / "8").rename(version_file(table, 8))
    for version in range(8):
        version_file(table, version).write_bytes(b"damaged")
    assert look(FS, table, seen) == seen
    (made,) = (action for action in actions_of(unpack(tmp_path / "other"), 0) if "metaData" in action)
    put_version(table, 9, {"metaData": {**made["metaData"], "schemaString": '{"fields":[{"name":"z"}]}'}})
    later = look(FS, table, seen)
    assert (later.latest, list(later.columns.types), later.protocol) == (9, ["z"], seen.protocol)
    version_file(table, 8).write_bytes(version_file(table, 8).read_bytes() + b"\n")  # another one, of another table
    with pytest.raises(CorruptFileError):
        look(FS, table, seen)


def test_no_table_is_reported(tmp_path: Path) -> None:
    with pytest.raises(FeedError, match="no Delta table"):
        look(FS, tmp_path)


def test_features_that_are_not_read_are_refused_by_name(tmp_path: Path) -> None:
    table = unpack(tmp_path, until=4)
    change_metadata(table, configuration={"delta.columnMapping.mode": "other"})
    with pytest.raises(UnsupportedVersionError) as caught:
        look(FS, table)
    assert caught.value.found == "column mapping by other"
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


@pytest.mark.parametrize(
    ("vector", "what"),
    [
        ({"storageType": "x", "pathOrInlineDv": "", "sizeInBytes": 1, "cardinality": 1}, "storageType x"),
        ({"storageType": "u", "pathOrInlineDv": "short", "sizeInBytes": 1, "cardinality": 1}, "deletion vector"),
        ({"storageType": "i", "pathOrInlineDv": "12~45", "sizeInBytes": 1, "cardinality": 1}, "no sign of Z85"),
        ({"storageType": "i", "pathOrInlineDv": "", "cardinality": 1}, "sizeInBytes"),
    ],
)
def test_a_deletion_vector_that_is_described_wrongly_is_damage(
    tmp_path: Path, vector: dict[str, Any], what: str
) -> None:
    table = unpack(tmp_path, until=4)
    actions = actions_of(table, 2)
    actions[1]["add"]["deletionVector"] = vector
    put_version(table, 2, *actions)
    for read_it in (lambda: snapshot(FS, table, 4), lambda: changes_of(FS, table, 2)):
        with pytest.raises(CorruptFileError, match="damaged") as caught:
            read_it()
        assert what in str(caught.value.found)


def test_a_file_that_comes_with_another_vector_is_another_one_in_whatever_order_the_log_says_it(
    tmp_path: Path,
) -> None:
    table = unpack(tmp_path, until=4)
    (add,) = (action["add"] for action in actions_of(table, 1)[1:2])
    vector = {"storageType": "i", "pathOrInlineDv": "", "sizeInBytes": 0, "cardinality": 1}
    changed = {"add": {**add, "deletionVector": vector}}, {"remove": {"path": add["path"], "dataChange": True}}
    for number, actions in ((5, changed), (6, (changed[1], changed[0]))):
        put_version(table, number, *actions)
        assert changes_of(FS, table, number) == Changes(number, changes=True)  # no row can come back
    files = snapshot(FS, table, 5)
    assert [file.vector is not None for file in files].count(True) == 1 and len(files) == 8
    assert snapshot(FS, table, 6) == files
    back = {"add": add}, {"remove": {"path": add["path"], "dataChange": True, "deletionVector": vector}}
    put_version(table, 7, *back)
    (file,) = read(table, 7).added  # what it deleted has come back
    assert file.vector is None and file.before is not None
    assert snapshot(FS, table, 7) == snapshot(FS, table, 4)


def test_paths_of_data_files() -> None:
    table = Path("/data/t")
    assert data_path(table, "day=a%20b%25/part.parquet") == "/data/t/day=a b%/part.parquet"
    assert data_path(table, "file:/other/x%23.parquet") == data_path(table, "file:///other/x%23.parquet")
    assert data_path(table, "file:/other/x%23.parquet") == "/other/x#.parquet"
    assert data_path(table, "/abs/x.parquet") == "/abs/x.parquet"
    assert data_path(table, "at=2026-11-21 10%3A00%3A00/x") == "/data/t/at=2026-11-21 10:00:00/x"
    with pytest.raises(UnsupportedVersionError, match="feature"):
        data_path(table, "s3a://bucket/x.parquet")


def test_an_empty_text_is_a_null_partition(tmp_path: Path) -> None:
    table = unpack(tmp_path)
    actions = actions_of(table, 1)
    actions[1]["add"]["partitionValues"] = {"day": ""}
    version_file(table, 1).write_text("\n".join(json.dumps(action) for action in actions))
    assert read(table, 1).added[0].values == (("day", None),)
