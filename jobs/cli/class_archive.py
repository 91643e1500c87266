"""The command ``class-archive``: what lets Spark's JVM start faster on this machine, made once."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import typer

from jobs.context import CliContext, Json, Verbose, example
from jobs.session.fast_start import AT_EXIT, class_archive
from jobs.session.spark_session import import_root
from store.errors import SettingsError
from store.io.fs import Fs

SECONDS = 300.0
SCHEMA = """<Table namespace="Class" name="Archive" storageType="NestedPartitionedOnDisk">
  <Partitions keyFormula="${autobalance_single}"/>
  <Column name="Date" dataType="String" columnType="Partitioning"/>
  <Column name="Id" dataType="long"/>
</Table>
"""
STREAM = """name = "archive"
table = "Class.Archive"
schema = "Class.Archive.schema"
[feed]
type = "files"
path = "*.json"
format = "json"
[partition]
internal = { fixed = "one" }
value = { fixed = "2026-01-01" }
"""


def register(app: typer.Typer) -> None:
    """Adds the commands of this module."""
    app.command("class-archive", epilog=example("class-archive"))(archive)


def archive(ctx: typer.Context, as_json: Json = False, verbose: Verbose = False) -> None:
    """Makes the archive of classes with which Spark starts faster here. One for this JDK and PySpark is kept."""
    cli: CliContext = ctx.obj
    fs = Fs()
    path = class_archive(fs, os.environ)
    there = fs.stat(path) is not None
    if not there:
        cli.note("a small stream runs once, and the JVM writes down the classes that it took: half a minute")
        fs.mkdirs(path.parent)
        with tempfile.TemporaryDirectory(dir=path.parent, prefix="classes-") as scratch:
            _run_stream(Path(scratch), made := Path(scratch) / path.name)
            fs.rename(made, path)
    cli.result({"path": str(path), "made": not there}, str(path))


def _run_stream(base: Path, target: Path) -> None:
    """Runs a stream of one row whose JVM writes ``target`` at its end. Raises SettingsError if none comes of it."""
    (base / "Class.Archive.schema").write_text(SCHEMA, encoding="utf-8")
    (base / "archive.toml").write_text(STREAM, encoding="utf-8")
    (base / "row.json").write_text('{"Id": 1}\n', encoding="utf-8")
    line = [sys.executable, "-m", "jobs.cli.main", "--root", str(base / "db"), "ingest", "archive.toml", "--once"]
    environ = {**os.environ, AT_EXIT: str(target), "PYTHONPATH": str(import_root())}
    try:  # the JVM holds the pipe until it has written all and ended, later than the stream
        done = subprocess.run(
            line, cwd=base, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=SECONDS, check=False
        )
        failed, said = done.returncode != 0 or not target.exists(), done.stdout.decode("utf-8", "replace")
    except subprocess.TimeoutExpired:
        failed, said = True, f"nothing after {SECONDS:.0f} seconds"
    if failed:
        raise SettingsError(
            "the JVM wrote no archive of classes",
            where=target.parent.parent,
            expected="a JDK with class-data sharing, and 200 MB of free space",
            found=said[-500:].strip() or "no message",
            hint="Spark starts without one as well, in twice the time",
        )
