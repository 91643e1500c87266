"""The manifest of an exported tree: its bytes, which have to open for ever."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from sparkhaven.store.errors import CorruptFileError
from sparkhaven.store.format.parquet.manifest import (
    ExportedColumn,
    Manifest,
    TreeLeaf,
    decode_manifest,
    encode_manifest,
)
from sparkhaven.store.types.committed_columns import FileState

GOLDEN = Path(__file__).with_name("export-v1-manifest.json")
GOLDEN_2 = GOLDEN.with_name("export-v2-manifest.json")
MANIFEST = Manifest(
    table="NS.T",
    layout="kv",
    leaf="parquet",
    codec="SNAPPY",
    id="0123456789ab",
    epochs={"ticks": 7},
    columns=(ExportedColumn("Sym", "String", 1), ExportedColumn("X", "int", 2)),
    rows=3,
    digests={"Sym": "0" * 31 + "3", "X": "f" * 32},
    files=(
        TreeLeaf(
            "Date=ä/part-0123456789ab-00000.parquet", "ä", 1, 100, {"Sym": "0" * 31 + "1", "X": "1" * 32}, "a" * 32
        ),
        TreeLeaf(
            "Date=b/part-0123456789ab-00000.parquet",
            "b",
            2,
            200,
            {"Sym": "0" * 31 + "2", "X": "e" * 32},
            "b" * 32,
            "c" * 32,
        ),
    ),
)


def test_version_1_has_these_bytes_and_opens() -> None:
    data = GOLDEN.read_bytes()
    assert encode_manifest(MANIFEST) == data
    assert decode_manifest(data, GOLDEN) == MANIFEST


def test_version_2_has_these_bytes_and_opens() -> None:
    sums = {leaf.path: FileState(leaf.bytes, 0xFFFFFFFF - leaf.rows) for leaf in MANIFEST.files}
    manifest, data = replace(MANIFEST, sums=sums), GOLDEN_2.read_bytes()
    assert encode_manifest(manifest) == data
    assert decode_manifest(data, GOLDEN_2) == manifest


def test_version_2_shows_a_changed_number() -> None:
    data = GOLDEN_2.read_bytes()
    with pytest.raises(CorruptFileError, match="checksum"):
        decode_manifest(data.replace(b'"bytes": 100', b'"bytes": 101'), GOLDEN_2)
