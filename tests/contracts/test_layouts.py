"""Every layout of trees passes one suite."""

from __future__ import annotations

from sparkhaven.store.format.parquet.trees import LAYOUTS
from tests.contracts.layouts import EQUALS_AND_PATTERNS, ESCAPES, TreeLayoutContract

COLONS = ("a:b", "2026-11-20 07:00", "2026-11-20T07:00:00Z")
BEHIND_EQUALS = "Date=2024-03-05/part-ID-00000.parquet", "Date=2024-03-06/part-ID-00000.parquet"


class TestNested(TreeLayoutContract):
    layout = "nested"
    refused = (*ESCAPES, "_x")
    leaves = "0/2024-03-05/Every/table.parquet", "0/2024-03-06/Every/table.parquet"


class TestFlat(TreeLayoutContract):
    layout = "flat"
    refused = ()
    leaves = "part-ID-00000.parquet", "part-ID-00001.parquet"


class TestKeyValue(TreeLayoutContract):
    layout = "kv"
    refused = (*EQUALS_AND_PATTERNS, *ESCAPES)
    leaves = BEHIND_EQUALS


class TestMetadata(TreeLayoutContract):
    layout = "metadata"
    refused = (*EQUALS_AND_PATTERNS, *ESCAPES, *COLONS)
    leaves = BEHIND_EQUALS


class TestHive(TreeLayoutContract):
    layout = "hive"
    refused = (*EQUALS_AND_PATTERNS, *ESCAPES)
    leaves = BEHIND_EQUALS


def test_no_layout_is_without_its_class() -> None:
    assert {suite.layout for suite in TreeLayoutContract.__subclasses__()} == {*LAYOUTS}
