"""The contract of a layout of trees: where files lie, which values it takes, and that all readers list the same."""

from __future__ import annotations

import re
from abc import ABC
from pathlib import Path
from typing import Any, ClassVar

import pytest

from sparkhaven.readers import open_table
from sparkhaven.store.errors import InvalidNameError
from sparkhaven.store.format.parquet.trees import TreeLayout, check_value, leaf_path
from sparkhaven.store.io.fs import Fs
from sparkhaven.writers.transfer.trees import find_tree
from tests.support.commands import run
from tests.support.writers.export_cases import NEXT, files, two_days
from tests.support.writers.export_cases import export as export_every
from tests.support.writers.merge_cases import DAY
from tests.support.writers.odd_values import HOSTILE, ODD, by_duckdb, by_pandas, by_polars, by_pyarrow, export, make

READERS: dict[str, Any] = {"pyarrow": by_pyarrow, "duckdb": by_duckdb, "polars": by_polars, "pandas": by_pandas}
EQUALS_AND_PATTERNS = ("a=b", "=", "a=", "=a", "a=b=c", "x?", "*", "a*b", "**", " a", "a ")
ESCAPES = ("2024%2D03", "%41", "__HIVE_DEFAULT_PARTITION__", "_a=b", "x.parquet")


class TreeLayoutContract(ABC):
    """Clauses for every layout."""

    layout: ClassVar[TreeLayout]
    refused: ClassVar[tuple[str, ...]]
    """Of ``HOSTILE`` values, those that it does not take."""
    leaves: ClassVar[tuple[str, ...]]
    """The files of one date and of the next, each of one leaf; ``ID`` stands for the id of the export."""

    @property
    def taken(self) -> list[str]:
        """The values that it takes."""
        return [*ODD, *(value for value in HOSTILE if value not in self.refused)]

    def test_a_leaf_lies_where_the_layout_says(self) -> None:
        numbers = (0, 1) if self.layout == "flat" else (0, 0)
        dates = zip((DAY, NEXT), numbers, strict=True)
        paths = [leaf_path(self.layout, "Every", "Date", value, "ID", number) for value, number in dates]
        assert tuple(map(str, paths)) == self.leaves

    def test_values_that_a_reader_takes_for_others_are_refused_and_the_hint_can_be_followed(self) -> None:
        assert set(self.refused) <= set(HOSTILE)
        for value in self.taken:
            assert check_value(self.layout, value) == value
        for value in self.refused:
            with pytest.raises(InvalidNameError, match="read as another one") as caught:
                check_value(self.layout, value)
            others = re.findall("nested|flat|kv|metadata", str(caught.value.hint).partition(";")[0])
            assert "flat" in others and [check_value(other, value) for other in others] == [value] * len(others)
        for value in ("", ".", "..", ".a", "a/b", "a\0", "x" * 201):
            with pytest.raises(InvalidNameError, match="cannot become a path"):
                check_value(self.layout, value)

    def test_an_export_has_these_files_and_nothing_beside(self, tmp_path: Path) -> None:
        db, rows = two_days(tmp_path / "db")
        done = export_every(db.root, tmp_path / "out", layout=self.layout)
        assert (done.outcome, done.plan.rows) == ("exported", len(rows))
        names = tuple(name.replace(done.plan.id, "ID") for name in files(tmp_path / "out") if name.endswith(".parquet"))
        assert names == self.leaves
        assert sorted(path.name for path in tmp_path.iterdir()) == ["db", "out"]

    @pytest.mark.slow
    def test_readers_of_four_kinds_and_the_import_list_odd_values_as_they_are(self, tmp_path: Path) -> None:
        root = make(tmp_path / "db", self.taken)
        out = export(root, tmp_path / "out", self.layout)
        for name, read in READERS.items():
            assert read(out, self.layout) == sorted((value, value) for value in self.taken), name
        if self.layout != "flat":
            leaves = find_tree(Fs(), out, open_table(root, "N.T").schema).leaves
            assert sorted(str(leaf.value) for leaf in leaves) == sorted(self.taken), "import"

    @pytest.mark.slow
    def test_an_export_refuses_before_anything_is_written(self, tmp_path: Path) -> None:
        root = make(tmp_path / "db", HOSTILE)
        found = run(root, "export", "N.T", "--layout", self.layout, "--out", str(tmp_path / "out"))
        if self.refused:
            assert found.exit_code == 2 and "read as another one" in found.stderr
            assert [path.name for path in tmp_path.iterdir()] == ["db"]
        else:
            assert found.exit_code == 0, found.stderr
