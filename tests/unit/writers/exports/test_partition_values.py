"""Odd partition values in trees: every reader reads them as they are, or the layout refuses them and names another."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from sparkhaven.readers import open_table
from sparkhaven.store.errors import InvalidNameError
from sparkhaven.store.format.parquet.trees import LAYOUTS, TreeLayout, check_value
from sparkhaven.store.io.fs import Fs
from sparkhaven.writers.imports.tree_leaves import find_tree
from tests.support.commands import run
from tests.support.writers.odd_values import HOSTILE, ODD, by_duckdb, by_pandas, by_polars, by_pyarrow, export, make

READERS: dict[str, Any] = {"pyarrow": by_pyarrow, "duckdb": by_duckdb, "polars": by_polars, "pandas": by_pandas}
BEHIND_EQUALS: tuple[TreeLayout, ...] = ("kv", "metadata", "hive")
REFUSED: dict[str, tuple[TreeLayout, ...]] = {
    **dict.fromkeys(["a=b", "=", "a=", "=a", "a=b=c", "x?", "*", "a*b", "**", " a", "a "], BEHIND_EQUALS),
    **dict.fromkeys(
        ["2024%2D03", "%41", "__HIVE_DEFAULT_PARTITION__", "_a=b", "x.parquet"], (*BEHIND_EQUALS, "nested")
    ),
    "_x": ("nested",),
    **dict.fromkeys(["a:b", "2026-11-20 07:00", "2026-11-20T07:00:00Z"], ("metadata",)),
}


def taken(layout: TreeLayout) -> list[str]:
    """The values that a layout takes."""
    return [*ODD, *(value for value in HOSTILE if layout not in REFUSED[value])]


@pytest.mark.slow
@pytest.mark.parametrize("layout", LAYOUTS)
def test_readers_of_four_kinds_read_odd_values_as_they_are(tmp_path: Path, layout: TreeLayout) -> None:
    values = taken(layout)
    root = make(tmp_path / "db", values)
    out = export(root, tmp_path / "out", layout)
    for name, read in READERS.items():
        assert read(out, layout) == sorted((value, value) for value in values), name
    if layout != "flat":
        leaves = find_tree(Fs(), out, open_table(root, "N.T").schema).leaves
        assert sorted(str(leaf.value) for leaf in leaves) == sorted(values), "import"


@pytest.mark.parametrize("value", REFUSED)
def test_values_that_a_reader_takes_for_others_are_refused_and_the_hint_can_be_followed(value: str) -> None:
    assert value in HOSTILE
    for layout in LAYOUTS:
        if layout not in REFUSED[value]:
            assert check_value(layout, value) == value
            continue
        with pytest.raises(InvalidNameError, match="read as another one") as caught:
            check_value(layout, value)
        for other in re.findall("nested|flat|kv|metadata", str(caught.value.hint).partition(";")[0]):
            assert check_value(other, value) == value
    assert all(check_value(layout, each) == each for layout in LAYOUTS for each in ODD)


@pytest.mark.slow
def test_export_refuses_before_anything_is_written_and_flat_takes_everything(tmp_path: Path) -> None:
    root = make(tmp_path / "db", HOSTILE)
    for layout in ("kv", "metadata", "hive", "nested"):
        found = run(root, "export", "N.T", "--layout", layout, "--out", str(tmp_path / layout))
        assert found.exit_code == 2 and "read as another one" in found.stderr
        assert [path.name for path in tmp_path.iterdir()] == ["db"]
    out = export(root, tmp_path / "flat", "flat")
    for name, read in READERS.items():
        assert read(out, "flat") == sorted((value, value) for value in HOSTILE), name
