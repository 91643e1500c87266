"""The distribution without extras: small, and enough to ingest files, merge, read and ask by SQL; no Spark, no JVM."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.installed_wheel import build_wheel

MOST = 350 << 20  # bytes of all files that are installed
SCHEMA = """<Table namespace="Test" name="Tick" storageType="NestedPartitionedOnDisk">
  <Partitions keyFormula="${autobalance_single}"/>
  <Column name="Day" dataType="String" columnType="Partitioning"/>
  <Column name="Id" dataType="long"/>
</Table>"""
STREAM = """name = "ticks"
table = "Test.Tick"
schema = "Test.Tick.schema"
[feed]
{feed}
[partition]
internal = {{ fixed = "a" }}
value = {{ fixed = "2026-01-02" }}
[bad_rows]
max_rows = 1
max_fraction = 1.0
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment that has the wheel and what that asks for."""
    base = tmp_path_factory.mktemp("light")
    wheel = build_wheel(base)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", base / "environment"], check=True)
    inner = base / "environment" / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(inner), "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, str(wheel)], check=True)
    return inner


@pytest.mark.slow
def test_it_is_small(python: Path) -> None:
    (site,) = (python.parents[1] / "lib").glob("python*/site-packages")
    assert sum(path.lstat().st_size for path in site.rglob("*")) <= MOST
    assert not (site / "pyspark").exists() and not (site / "kafka").exists()


@pytest.mark.slow
def test_a_day_without_spark(python: Path, tmp_path: Path) -> None:
    """With a bad row, and packed input."""
    environ = {name: value for name, value in os.environ.items() if name in ("HOME", "LANG")} | {"PATH": "/nowhere"}

    def run(*words: str, code: int = 0) -> list[dict[str, object]]:
        command = [str(python), "-m", "sparkhaven", "--root", "db", *words, "--json"]
        done = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=120)
        assert done.returncode == code, done.stdout + done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    (tmp_path / "Test.Tick.schema").write_text(SCHEMA)
    files, kafka = tmp_path / "files.toml", tmp_path / "kafka.toml"
    files.write_text(STREAM.format(feed='type = "files"\npath = "feed/*.json"'))
    kafka.write_text(STREAM.format(feed='type = "kafka"\ntopics = ["t"]\nbootstrap = "127.0.0.1:1"'))
    (tmp_path / "feed").mkdir()
    (tmp_path / "feed" / "1.json").write_text('{"Id": 1}\n{"Id": "x"}\n{"Id": 3}\n')
    (done,) = run("ingest", "files.toml", "--once")
    assert (done["rows"], done["rejected"]) == (2, 1)
    assert [row["position"] for row in run("quarantine", "list", "Test.Tick", "ticks")] == [2]
    run("merge", "Test.Tick", "--dates", "2026-01-02")
    (read,) = run("read", "Test.Tick", "--columns", "Id")
    assert read["first"] == [{"Id": 1}, {"Id": 3}]
    (asked,) = run("sql", 'select sum("Id") as s from "Test"."Tick"')
    assert asked["first"] == [{"s": 4}]
    found = run("doctor", "--all")[-1]
    assert found["wrong"] == 0 and "the extra kafka is not installed" in json.dumps(found)
    for words, extra in (
        (("ingest", "kafka.toml", "--once"), "kafka"),
        (("ingest", "files.toml", "--once", "--spark"), "spark"),
        (("merge", "Test.Tick", "--dates", "2026-01-02", "--spark"), "spark"),
    ):
        (failed, *_) = run(*words, code=2)
        assert f"pip install 'sparkhaven[{extra}]'" in json.dumps(failed), words
    told = run("doctor", code=1)[-1]
    assert told["wrong"] == 1 and "No module named 'kafka'" in json.dumps(told)
