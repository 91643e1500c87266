"""Deep checks of indexes over keys that Python's own types do not hold."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from sparkhaven.testing import make_table
from tests.support.commands import run, run_json

SCHEMA = """<Table namespace="N" name="T" storageType="NestedPartitionedOnDisk">
  <Partitions keyFormula="${autobalance_single}"/>
  <Column name="Date" dataType="String" columnType="Partitioning"/>
  <Column name="Key" dataType="%s"/>
  <DataIndex columns="Key"/>
</Table>
"""
KEYS = {
    "LocalDate": pa.array([-719_528, -719_162, 2_932_896, None], pa.int32()).view(pa.date32()),
    "LocalTime": pa.array([0, 1, 999, None], pa.int64()).view(pa.time64("ns")),
    "Instant": pa.array([1 - 2**63, -1, 2**63 - 1, None], pa.timestamp("ns", "UTC")),
}


def merged(root: Path, kind: str) -> None:
    make_table(root, "N.T", pa.table({"Key": KEYS[kind]}), schema=(SCHEMA % kind).encode(), date="2026-11-20")
    for words in (("partitions", "add", "N", "0"), ("merge", "N.T", "--dates", "2026-11-20", "--local")):
        assert run(root, *words).exit_code == 0


@pytest.mark.parametrize("kind", KEYS)
def test_verify_finds_nothing_in_an_index_of_year_0_or_of_nanoseconds(tmp_path: Path, kind: str) -> None:
    merged(tmp_path, kind)
    checked = run(tmp_path, "verify", "--deep")
    assert checked.exit_code == 0, checked.output


@pytest.mark.parametrize("kind", KEYS)
def test_rows_with_such_values_that_differ_are_named(tmp_path: Path, kind: str) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    merged(here, kind)
    merged(there, kind)
    assert run(there, "delete-rows", "N.T", "--where", "Key is null").exit_code == 0
    assert run(here, "delete-rows", "N.T", "--where", "Key is not null").exit_code == 0
    compared = run(here, "compare", str(there), "--whole-rows")
    assert compared.exit_code == 1 and "OverflowError" not in compared.output, compared.output
    code, told = run_json(here, "compare", str(there), "--whole-rows")
    assert code == 1 and np.size(told)
