"""Dates that ``merge_frame`` made: compared, copied, restored, dropped and merged again as any other."""

from __future__ import annotations

from pathlib import Path

import pandas
import polars
import pyarrow as pa
import pytest

import sparkhaven
from sparkhaven.errors import LockLostError, SettingsError, TableExistsError
from sparkhaven.store.layout import TableName
from sparkhaven.store.merges.merge_records import lock_table
from sparkhaven.store.places import TablePlace
from tests.support.commands import run
from tests.support.tables.intraday_rows import IntradayRows
from tests.support.writers.import_cases import SMALL, small
from tests.support.writers.merge_runs import FS, merge

D1, D2 = "2026-11-20", "2026-11-21"
NS_T = TableName("NS", "T")
ROWS = pa.table({"Sym": ["b", "a", None], "X": pa.array([1, None, 3], pa.int32())})


def same(root: Path, other: Path) -> int:
    return run(root, "compare", other, "NS.T").exit_code


def test_a_given_date_is_that_of_a_stream(tmp_path: Path) -> None:
    root = small(tmp_path / "given").root
    sparkhaven.merge_frame(ROWS.append_column("Date", pa.array([D1, D1, D2])), root, "NS.T")
    fed = IntradayRows(tmp_path / "fed", SMALL % b"int", fs=FS)
    fed.commit({("s", D1): ROWS.slice(0, 2), ("s", D2): ROWS.slice(2)})
    merge(fed.layout, D1, D2, table=NS_T)
    assert same(root, fed.layout.root) == 0
    assert run(root, "snapshot", "NS.T", "--out", tmp_path / "copy").exit_code == 0
    assert run(tmp_path / "restored", "restore", tmp_path / "copy").exit_code == 0
    assert same(tmp_path / "restored", fed.layout.root) == 0
    changed = sparkhaven.merge_frame(ROWS.slice(0, 1), root, "NS.T", D1, rewrite=True, format="parquet")
    assert [(d.outcome, d.rows_out, d.format) for d in changed] == [("replaced", 1, "parquet")]
    assert same(root, tmp_path / "restored") == 1
    assert run(root, "restore", tmp_path / "copy", "--dry-run").exit_code == 2  # the table is there
    assert run(root, "dates", "drop", "NS.T", "--dates", D2, "--reason", "wrong").exit_code == 0
    assert sparkhaven.open_table(root, "NS.T").count() == 1
    assert run(root, "merge", "NS.T", "--dates", D1, "--rewrite", "--format", "deephaven").exit_code == 0
    assert run(root, "verify", "NS.T", "--deep").exit_code == 0


def test_frames_of_other_libraries_and_wrong_calls(tmp_path: Path) -> None:
    root = small(tmp_path).root
    table = ROWS.to_pandas(types_mapper={pa.int32(): pandas.Int32Dtype()}.get)
    sparkhaven.merge_frame(table, root, "NS.T", D1)
    frame = polars.from_arrow(ROWS)
    assert [d.outcome for d in sparkhaven.merge_frame(frame, root, "NS.T", D1)] == ["unchanged"]
    with pytest.raises(TableExistsError):
        sparkhaven.merge_frame(frame[:1], root, "NS.T", D1)
    with pytest.raises(SettingsError, match="cannot be read as Arrow"):
        sparkhaven.merge_frame([1, 2], root, "NS.T", D1)
    with pytest.raises(SettingsError, match="unknown format"):
        sparkhaven.merge_frame(frame, root, "NS.T", D1, format="orc")  # type: ignore[arg-type]
    with pytest.raises(SettingsError, match="not an amount of memory"):
        sparkhaven.merge_frame(frame, root, "NS.T", D1, memory="much")
    with pytest.raises(SettingsError, match="options contradict each other"):
        sparkhaven.merge_frame(frame, root, "NS.T", D1, dedupe=["X"], upsert=["X"])
    with lock_table(TablePlace(FS, small(tmp_path / "x"), NS_T)), pytest.raises(LockLostError):
        sparkhaven.merge_frame(frame, tmp_path / "x", "NS.T", D1)
