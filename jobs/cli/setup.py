"""Commands on the installation: ``doctor`` runs every check, ``class-archive`` and ``jars`` get what Spark needs."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated

import typer

from sparkhaven.jobs.cli.context import CliContext
from sparkhaven.jobs.cli.options import TableAndFilesArgument, help_end, table_and_files
from sparkhaven.jobs.monitor.doctor.checks import findings
from sparkhaven.jobs.monitor.doctor.finding import CheckContext, DoctorFinding, line_of, unread
from sparkhaven.jobs.monitor.texts import headline
from sparkhaven.jobs.session.fast_start import AT_EXIT, class_archive, keep_archive
from sparkhaven.jobs.session.jars import DELTA_VERSION, delta_jars
from sparkhaven.jobs.session.spark_session import import_root
from sparkhaven.jobs.settings.stream_file import load_streams
from sparkhaven.store.errors import EXIT_BAD_DATA, SettingsError, counted
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import TableName

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
    lines = "doctor", "doctor Nyc13.Flight conf/streams/flights.toml"
    app.command(epilog=help_end(*lines, done="nothing is wrong", bad_data="something is wrong"))(doctor)
    usage, retry = "no JDK, or the JVM writes no archive", "no space on the disk"
    app.command("class-archive", epilog=help_end("class-archive", usage=usage, retry=retry))(archive)
    app.command(epilog=help_end("jars", usage="the jars cannot be fetched", retry="no space on the disk"))(jars)


def doctor(
    cli: CliContext,
    words: TableAndFilesArgument = None,
    show_all: Annotated[bool, typer.Option("--all", help="Show what is well, too.")] = False,
) -> None:
    """Checks the database and names the next command to run.

    Looks at machine, volumes, streams, dates, logs, and at what `verify` finds without --deep. Shows what is wrong.
    Read-only and without Spark. Works for a database that is empty, damaged or mounted read-only.
    """
    name, files = table_and_files(words)
    only = [TableName.parse(name)] if name is not None else []
    feed_settings, refused = load_streams(files)
    layout = cli.layout()
    if layout.root.exists():
        layout = cli.database()
    context = CheckContext(Fs(), layout, time.time(), socket.gethostname(), os.environ, only, feed_settings)
    results = findings(context)
    for stream in refused:
        refusal = unread(stream.error, headline(stream.error), "correct the file", "E422")
        results.append(line_of("feed", refusal))
    wrong = sum(finding.state == "wrong" for finding in results)
    notes = sum(finding.state == "note" for finding in results)
    record = {"root": str(context.layout.root), "wrong": wrong, "notes": notes}
    record["findings"] = [finding.to_json() for finding in results]
    shown = [finding for finding in results if show_all or finding.state != "ok"]
    well = f", {len(results) - wrong - notes} ok" + ("" if show_all else " (--all shows them)")
    cli.result(record, "\n".join([*map(_line, shown), f"{wrong} wrong, {counted(notes, 'note')}{well}"]))
    if wrong:
        cli.fails(EXIT_BAD_DATA)


def _line(finding: DoctorFinding) -> str:
    code = f"{finding.code}: " if finding.code else ""
    text = f"{finding.state:<6}{finding.check + ':':<13}{code}{finding.what}"
    return text + (f"\n{'':<6}{'':<13}next: {finding.next}" if finding.next else "")


def archive(cli: CliContext) -> None:
    """Creates a class archive, with which Spark starts faster.

    It is the JVM's class-data sharing on this machine. An archive that fits this JDK and this PySpark is kept.
    """
    fs = Fs()
    path = class_archive(fs, os.environ)
    exists = fs.stat(path) is not None
    if not exists:
        cli.note("running a small stream once to record the classes that the JVM loads: half a minute")
        fs.mkdirs(path.parent)
        with tempfile.TemporaryDirectory(dir=path.parent, prefix="classes-") as scratch:
            _run_stream(Path(scratch), written := Path(scratch) / path.name)
            keep_archive(fs, written, path)
    cli.result({"path": str(path), "made": not exists}, str(path))


def small_stream(base: Path, *more: str) -> list[str]:
    """Writes a stream of one row into a directory, and returns the command that runs it there; ``more``: options."""
    (base / "Class.Archive.schema").write_text(SCHEMA, encoding="utf-8")
    (base / "archive.toml").write_text(STREAM, encoding="utf-8")
    (base / "row.json").write_text('{"Id": 1}\n', encoding="utf-8")
    return [sys.executable, "-m", "sparkhaven.jobs.cli.main", "--root", "db", "ingest", "archive.toml", "--once", *more]


def _run_stream(base: Path, target: Path) -> None:
    """Runs the small stream; its JVM writes ``target`` when it ends. SettingsError if it writes none."""
    line = small_stream(base, "--spark")
    environ = {**os.environ, AT_EXIT: str(target), "PYTHONPATH": str(import_root())}
    try:  # the JVM keeps the pipe open until it has written the archive and ended, later than the stream
        done = subprocess.run(
            line, cwd=base, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=SECONDS, check=False
        )
        failed, output = done.returncode != 0 or not target.exists(), done.stdout.decode("utf-8", "replace")
    except subprocess.TimeoutExpired:
        failed, output = True, f"no answer within {SECONDS:.0f} seconds"
    if failed:
        raise SettingsError(
            "the JVM has written no class-data archive",
            where=target.parent.parent,
            expected="a JDK with class-data sharing, and 200 MB of free space",
            found=output[-500:].strip() or "no message",
            hint="Spark starts without it too, in twice the time",
        )


def jars(cli: CliContext) -> None:
    """Fetches Delta's jars, so that Spark reads the quarantine.

    They are those for the Spark that is installed, fetched once. No stream needs them.
    """
    paths = [str(path) for path in delta_jars(Fs(), os.environ)]
    cli.result({"delta": DELTA_VERSION, "paths": paths}, "\n".join(paths))
