"""The manifests of trees, snapshots and detached dates: their bytes, which have to open for ever."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkhaven.store.errors import CorruptFileError, UnsupportedVersionError
from sparkhaven.store.format.manifest import DETACHED, SNAPSHOT, Manifest, ManifestPart, decode, encode
from sparkhaven.store.format.parquet.trees import (
    ExportedColumn,
    TreeLeaf,
    TreeManifest,
    decode_manifest,
    encode_manifest,
)
from sparkhaven.store.types.committed_columns import UNKNOWN, FileState

GOLDEN = Path(__file__).parent
TREE = TreeManifest(
    table="NS.T",
    layout="hive",
    leaf="parquet",
    codec="SNAPPY",
    id="0123456789ab",
    epochs={"ticks": 7},
    columns=(ExportedColumn("Sym", "String", 1), ExportedColumn("X", "int", 2)),
    rows=3,
    digests={"Sym": "0" * 31 + "3", "X": "f" * 32},
    leaves=(
        TreeLeaf(
            "Date=b/part-0.parquet",
            "b",
            2,
            {"Sym": "0" * 31 + "2", "X": "e" * 32},
            "b" * 32,
            {"Date=b/part-0.parquet": FileState(200, 0xFFFFFFFF)},
            "c" * 32,
        ),
        TreeLeaf(
            "Date=ä/part-0.parquet",
            "ä",
            1,
            {"Sym": "0" * 31 + "1", "X": "1" * 32},
            "a" * 32,
            {"Date=ä/part-0.parquet": FileState(100, 0)},
        ),
    ),
    named={".locations_table/table.size": FileState(17, 5)},
)
SNAP = Manifest(
    SNAPSHOT,
    {"time_ms": 1_700_000_000_000},
    {
        "NS.T": ManifestPart(
            {"rows": 3, "epochs": {"ticks": 7}, "digest": "d" * 32, "partitions": ["0"]},
            {"Intraday/NS/T/a/b/X.dat": FileState(64, 9), "Systems/NS/Partitions/0/b/T/X.dat": FileState(80, UNKNOWN)},
        )
    },
)
AWAY = Manifest(
    DETACHED,
    {"record": "cmVjb3Jk", "columns": [[1, "X", "int"]], "validation": None, "rows": 3},
    {"0.g2": ManifestPart({}, {"locations/0.g2/X.dat": FileState(64, 9)})},
)


def test_a_tree_has_these_bytes_and_opens() -> None:
    data = (GOLDEN / "tree-v1-manifest.json").read_bytes()
    assert encode_manifest(TREE) == data
    assert decode_manifest(data, GOLDEN) == TREE


@pytest.mark.parametrize(("name", "manifest"), [("snapshot-v1.json", SNAP), ("detached-v1.json", AWAY)])
def test_a_snapshot_and_a_detached_date_have_these_bytes_and_open(name: str, manifest: Manifest) -> None:
    data = (GOLDEN / name).read_bytes()
    assert encode(manifest) == data
    assert decode(data, manifest.kind, GOLDEN, lambda opened: opened) == manifest


@pytest.mark.parametrize(
    ("old", "new", "error", "match"),
    [
        (b"[100,0]", b"[101,0]", CorruptFileError, "checksum"),
        (b"exported tree", b"exported trap", CorruptFileError, "checksum"),
        (b'"version":1', b'"version":2', UnsupportedVersionError, "version that this release cannot read"),
        (b"}\n", b"} \n", CorruptFileError, "checksum"),
    ],
)
def test_a_changed_byte_is_seen(old: bytes, new: bytes, error: type[Exception], match: str) -> None:
    data = (GOLDEN / "tree-v1-manifest.json").read_bytes()
    assert old in data
    with pytest.raises(error, match=match):
        decode_manifest(data.replace(old, new), GOLDEN)


def test_a_manifest_of_another_kind_or_with_a_path_that_leads_out_is_damage() -> None:
    with pytest.raises(CorruptFileError, match="manifest of a snapshot"):
        decode(encode(AWAY), SNAPSHOT, GOLDEN, lambda opened: opened)
    for path in ("/etc/passwd", "../x", "a/../../x"):
        data = encode(Manifest(DETACHED, {}, {"0": ManifestPart({}, {path: FileState(1, 1)})}))
        with pytest.raises(CorruptFileError, match="is damaged"):
            decode(data, DETACHED, GOLDEN, lambda opened: opened)
