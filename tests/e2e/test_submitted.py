"""The jobs under spark-submit: packages from a zip, from a directory that is not the repository."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from itertools import islice
from pathlib import Path
from typing import Any

import pyspark
import pytest

from jobs.flights import json_line, rows

REPOSITORY = Path(__file__).resolve().parents[2]
PACKAGES = ("store", "ingest", "writers", "readers", "jobs", "conf")
ROWS = 40


def submit(base: Path, entry: str, *words: str) -> tuple[int, list[dict[str, Any]], str]:
    """Exit code, JSON lines of standard output, standard error."""
    environ = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "SPARKHAVEN_ROOT")}
    environ |= {"PYSPARK_PYTHON": sys.executable, "FLIGHTS_FEED": str(base / "feed")}
    program = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    options = ["--master", "local[2]", "--conf", "spark.ui.enabled=false", "--py-files", str(base / "sparkhaven.zip")]
    done = subprocess.run(
        [program, *options, str(REPOSITORY / "jobs" / f"{entry}.py"), "--root", str(base / "db"), *words, "--json"],
        cwd=base,
        env=environ,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()], done.stderr


@pytest.mark.spark
def test_ingest_and_merge_under_spark_submit(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "sparkhaven.zip", "w") as packed:
        for package in PACKAGES:
            for path in (REPOSITORY / package).rglob("*"):
                if path.is_file() and "__pycache__" not in path.parts:
                    packed.write(path, path.relative_to(REPOSITORY))
    (tmp_path / "feed").mkdir()
    (tmp_path / "feed" / "some.json").write_text("".join(json_line(row) for row in islice(rows(), ROWS)))
    stream = tmp_path / "flights.toml"
    text = (REPOSITORY / "conf/streams/flights.toml").read_text()
    stream.write_text(text.replace("../schemas", str(REPOSITORY / "conf/schemas")))

    code, (taken,), err = submit(tmp_path, "ingest_stream", str(stream), "--once")
    assert (code, taken["rows"], taken["epoch"]) == (0, ROWS, 1), err
    assert "flights epoch 1: 40 rows" in err
    code, (merged,), err = submit(tmp_path, "merge_dates", "Nyc13.Flight", "--date", "2013-01-01")
    assert (code, merged["rows_in"], merged["rows_out"]) == (0, ROWS, ROWS), err
    code, (told,), err = submit(tmp_path, "merge_dates", "Nyc13.Flight", "--date", "../x")
    assert (code, told["error"]["type"]) == (2, "InvalidNameError"), err
