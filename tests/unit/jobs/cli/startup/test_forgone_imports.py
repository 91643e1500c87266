"""Commands do not wait for the import of pandas, which PyArrow would start, and programs still have it."""

from __future__ import annotations

import subprocess
import sys

import pytest

CODE = """import sys
from sparkhaven.jobs.cli.startup.forgone_imports import forgo_pandas
import sparkhaven.jobs.cli.main
forgo_pandas()
import pyarrow as pa
table = pa.table({"a": pa.array([1.5, None])})
print("pandas" in sys.modules)
frame = table.to_pandas()
print(type(frame).__name__, pa.Table.from_pandas(frame)["a"].to_pylist(), pa.array(frame["a"]).null_count)
forgo_pandas()
print("pandas" in sys.modules)
"""


@pytest.mark.slow
def test_arrays_do_not_bring_pandas_and_frames_do() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["False", "DataFrame [1.5, None] 1", "True"]
