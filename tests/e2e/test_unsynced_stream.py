"""A stream that did not sync each epoch was killed: merge says what is missing, recover makes it good. No Spark."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from sparkhaven.jobs.cli.main import app
from sparkhaven.readers import open_table
from tests.support.places import REPOSITORY
from tests.support.writers.merge_cases import DAY, TABLE

pytestmark = pytest.mark.slow
WRITER = """
import os, random, sys
from pathlib import Path
from tests.support.tables.intraday_rows import IntradayRows
from tests.support.writers.merge_cases import DAY, SCHEMA, as_table, random_row

rng = random.Random(7)
db = IntradayRows(Path(sys.argv[1]), SCHEMA, durability=sys.argv[2])
for number, synced in enumerate(sys.argv[3:]):
    db.commit({("a", DAY): as_table([random_row(rng) for _ in range(10 + number)])})
    if synced == "synced":
        db.log.sync_now()
os._exit(9)
"""


def write(root: Path, durability: str, *epochs: str) -> None:
    """A process that commits 10, 11, ... rows and dies."""
    found = subprocess.run(
        [sys.executable, "-c", WRITER, str(root), durability, *epochs], cwd=REPOSITORY, check=False, capture_output=True
    )
    assert found.returncode == 9, found.stderr.decode()


def run_json(root: Path, *words: str) -> tuple[int, dict[str, Any], str]:
    """Exit code, the JSON object on standard output, and what is said beside it."""
    found = CliRunner().invoke(app, ["--root", str(root), *words, "--json"], env={"SPARKHAVEN_ROOT": ""})
    return found.exit_code, json.loads(found.stdout), found.stderr


MERGE = ("merge", str(TABLE), "--date", DAY, "--local", "--workers", "1")


@pytest.mark.parametrize("durability", ["periodic", "none"])
def test_rows_that_were_never_synced(tmp_path: Path, durability: str) -> None:
    write(tmp_path, durability, "left")
    assert open_table(tmp_path, str(TABLE)).count() == 10
    for words in (MERGE, (*MERGE, "--dry-run")):
        code, value, said = run_json(tmp_path, *words)
        assert (code, value["error"]["what"].split(";")[0]) == (3, "the rows of this date are not synced yet")
        assert f"If the stream is stopped, run `sparkhaven --root {tmp_path} recover {TABLE}`" in said
    code, value, _ = run_json(tmp_path, "recover", str(TABLE))
    assert (code, value["streams"][0]["epoch"], value["streams"][0]["lost_epochs"]) == (0, 1, [])
    code, value, _ = run_json(tmp_path, *MERGE)
    assert (code, value["outcome"], value["rows_out"], value["waiting_rows"]) == (0, "merged", 10, 0)
    assert open_table(tmp_path, str(TABLE)).count() == 10
    assert open_table(tmp_path, str(TABLE)).count(tier="history") == 10


def test_a_part_of_the_rows_was_synced(tmp_path: Path) -> None:
    write(tmp_path, "periodic", "synced", "left")
    for outcome, rows in (("merged", 10), ("nothing", 0)):
        code, value, said = run_json(tmp_path, *MERGE)
        assert (code, value["outcome"], value["rows_out"], value["waiting_rows"]) == (0, outcome, rows, 11)
        assert (
            f"{DAY}: 11 rows are not synced to disk yet and are left out. To do: wait for the stream's next sync"
            in said
        )
        assert f"run `sparkhaven --root {tmp_path} recover {TABLE}`, then merge again" in said
    assert run_json(tmp_path, "recover")[0] == 0
    code, value, said = run_json(tmp_path, *MERGE)
    assert (code, value["outcome"], value["rows_out"], value["waiting_rows"]) == (0, "supplement", 11, 0)
    assert "not synced" not in said
    assert open_table(tmp_path, str(TABLE)).count() == 21
