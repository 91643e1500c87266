"""Rows of MergeLog, ValidationLog, AdminLog and StorageLog: what one call of the command line has done.

They are made from the results that the command prints as JSON, and from its errors.

Of an epoch they have what the commit log says: who made it, how much it touched, and the digest of its record.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from hashlib import sha256
from threading import Thread, get_ident
from typing import Any

from sparkhaven.jobs.monitor.logs.log_tables import (
    ADMIN,
    EPOCH,
    MERGE,
    STORAGE,
    VALIDATION,
    LogRow,
    LogTable,
    named,
    user_name,
)
from sparkhaven.jobs.monitor.logs.log_writer import LogWriter
from sparkhaven.jobs.monitor.storage import (
    INTRADAY,
    VolumeUse,
    by_date,
    committed_locations,
    committed_use,
    disk_use,
)
from sparkhaven.store.epochs.reading.log_reader import read_files
from sparkhaven.store.epochs.state.log_records import CommitRecord, RollbackRecord
from sparkhaven.store.errors import EXIT_USAGE, InvalidNameError, SparkhavenError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, TableName
from sparkhaven.store.places import StreamPlace, TablePlace

Result = Mapping[str, Any]
Rows = Iterator[tuple[LogTable, LogRow]]
AFFECTED = ("rows", "rows_dropped", "dropped", "sent", "affected", "intraday_rows", "history_rows")  # of a result
LISTED = 100  # locations of a table whose files a merge looks at for its rows of StorageLog


@dataclass(frozen=True, slots=True)
class FinishedCommand:
    """One call of the command line: its command, all of its words, what it prints as JSON, its exit code, its time."""

    command: str
    words: Sequence[str]
    results: Sequence[Result]
    code: int
    seconds: float

    @property
    def dry_run(self) -> bool:
        return "--dry-run" in self.words  # refused and logged like what it announces

    @property
    def milliseconds(self) -> int:
        return round(self.seconds * 1000)


def log_command(layout: Layout, done: FinishedCommand, warn: Callable[[str], None]) -> None:
    """Writes the rows of a finished command; an error of writing them is a warning."""
    results = [result for result in done.results if not _wrong_usage(result)]
    if results or not done.results:  # else its words were refused, and it has done nothing
        with in_order(warn) as told:
            _log(layout, replace(done, results=results), told)


def _log(layout: Layout, done: FinishedCommand, warn: Callable[[str], None]) -> None:
    fs, table, results = Fs(), table_of(done.words), done.results
    writer = LogWriter(fs, layout, warn=warn)
    if done.command == "merge" and not done.dry_run:
        for row in merge_rows(table, results, done.milliseconds):
            writer.add(MERGE, row)
        if table is not None and any("rows_out" in result for result in results):
            with writing(writer):
                try:
                    merged = [result["date"] for result in results if result.get("rows_out")]
                    rows = list(storage_rows(TablePlace(fs, layout, table), dates=merged))
                except (SparkhavenError, OSError) as error:
                    rows = []
                    warn(f"{STORAGE.table} has no row of this merge: {error}")
                for row in rows:
                    writer.add(STORAGE, row)
                writer.flush(STORAGE)
    elif done.command == "validate" and not done.dry_run:
        for row in validation_rows(table, results):
            writer.add(VALIDATION, row)
    removed = any(result.get("phase") == "removal" for result in results)
    if done.dry_run or done.command not in ("merge", "validate") or removed:
        user = user_name()
        for log_table, row in admin_rows(table, done):
            details: LogRow = {"DurationMs": done.milliseconds, "User": user} if log_table is ADMIN else {}
            if log_table is EPOCH and table is not None:
                details = _of_log(TablePlace(fs, layout, table), row, warn)
            writer.add(log_table, {**details, **row} if log_table is EPOCH else {**row, **details})
    writer.flush()


@contextmanager
def in_order(warn: Callable[[str], None]) -> Iterator[Callable[[str], None]]:
    """A ``warn`` for this thread and those that it starts, whose warnings come first: its own wait for the end."""
    own, waiting = get_ident(), list[str]()

    def told(text: str) -> None:
        (waiting.append if get_ident() == own else warn)(text)

    try:
        yield told
    finally:
        for text in waiting:
            warn(text)


@contextmanager
def writing(writer: LogWriter) -> Iterator[None]:
    """Writes the rows that wait in a thread while the body runs: most of it is waiting for the disk."""
    thread = Thread(target=writer.flush, name="log-tables")
    thread.start()
    try:
        yield
    finally:
        thread.join()


def table_of(words: Sequence[str]) -> TableName | None:
    """The table that a command line names, by its first word of the form NS.T."""
    for word in words:
        if word.count(".") == 1 and not word.startswith("-") and not word.endswith(".toml"):
            with suppress(InvalidNameError):
                return TableName.parse(word)
    return None


def merge_rows(table: TableName | None, results: Sequence[Result], all_ms: int) -> Iterator[LogRow]:
    """A row a date, and one for a command that failed before it had dates; ``all_ms``: how long all took.

    Before it a row for each finished phase, with the same rows; their outcome is ``phase``.
    """
    for result in results:
        error = result.get("error")
        rows_in, rows_out, seconds = result.get("rows_in"), result.get("rows_out"), result.get("seconds")
        dropped = None
        if isinstance(rows_in, int) and isinstance(rows_out, int) and not error and result.get("outcome") != "nothing":
            dropped = rows_in - rows_out
        about = {
            **_table(table, result),
            "Partition": result.get("date"),
            "RowsIn": rows_in,
            "RowsOut": rows_out,
            "RowsDropped": dropped,
            "Destinations": len(result.get("destinations") or ()),
            "Generation": result.get("generation"),
        }
        for phase, milliseconds in (result.get("phase_ms") or {}).items():
            yield {**about, "Phase": phase, "DurationMs": milliseconds, "Outcome": "phase"}
        yield {
            **about,
            "Phase": result.get("phase") or None,
            "DurationMs": all_ms if seconds is None else round(seconds * 1000),
            "Outcome": "failed" if error else result.get("outcome"),
            "Message": _message(result),
        }


def validation_rows(table: TableName | None, results: Sequence[Result]) -> Iterator[LogRow]:
    """A row a rule; a date that could not be validated has one row without a rule."""
    for result in results:
        if result.get("phase") == "removal":
            continue
        about = {**_table(table, result), "Partition": result.get("date")}
        if "rules" not in result:
            yield {**about, "Passed": False, "Message": _message(result)}
            continue
        epochs = ", ".join(f"{stream}@{epoch}" for stream, epoch in sorted((result.get("epochs") or {}).items()))
        for rule in result["rules"]:
            yield {
                **about,
                "Mode": rule["mode"],
                "Rule": rule["rule"],
                "Column": rule["column"],
                **{name: _text(rule[name.lower()]) for name in ("Measured", "Lower", "Upper")},
                "Passed": rule["passed"],
                "Epochs": epochs,
                "Message": _text(rule["message"]) or None,
            }


def admin_rows(table: TableName | None, done: FinishedCommand) -> Rows:
    """The row of the command, and a row of EpochLog for each epoch that it has made."""
    command, results = done.command, done.results
    changed = [result for result in results if result.get("phase") == "removal"] if command == "validate" else results
    counted = [result for result in changed if "date" in result] or changed  # else their sum would count, too
    affected = [result[key] for result in counted for key in AFFECTED if isinstance(result.get(key), int)]
    messages = [text for text in map(_message, results) if text]
    yield (
        ADMIN,
        {
            **_table(table, results[0] if results and command == "schema deploy" else {}),
            "Command": command,
            "Arguments": " ".join(done.words[len(command.split()) :]),
            "DryRun": done.dry_run,
            "Affected": sum(affected) if affected else None,
            "Outcome": "failed" if done.code else "done",
            "ExitCode": done.code,
            "Message": "; ".join(messages) or None,
        },
    )
    for result in results:
        if "error" in result or done.dry_run:
            continue
        about = {**_table(table, result), "Stream": result.get("stream")}
        if command == "epochs rollback":
            yield EPOCH, {**about, "Epoch": result["epoch"], "Kind": "rollback", "Rows": -result["rows_dropped"]}
        if command == "epochs undo" and result["epoch"] is not None:
            yield EPOCH, {**about, "Epoch": result["epoch"], "Kind": "withdraw", "Rows": -result["rows"]}
        for stream, epoch in (result["epochs"] if command == "delete-rows" else {}).items():
            yield EPOCH, {**about, "Stream": stream, "Epoch": epoch, "Kind": "withdraw"}
        epochs = result.get("epochs", ()) if command == "quarantine requeue" else ()
        for epoch in epochs:
            yield EPOCH, {**about, "Epoch": epoch, "Kind": "requeue"}


def _of_log(place: TablePlace, row: LogRow, warn: Callable[[str], None]) -> LogRow:
    """What the commit log has of the epoch of a row; nothing, with a warning, if it cannot be read."""
    try:
        records = epoch_records(place.of_stream(str(row["Stream"])), [int(str(row["Epoch"]))])
    except (SparkhavenError, OSError) as error:
        warn(f"{EPOCH.table} lacks what the commit log has of epoch {row['Epoch']}: {error}")
        return {}
    record = records.get(int(str(row["Epoch"])))
    if record is None:
        return {}
    return {
        "Locations": record.locations,
        "Rows": record.rows,
        "Digest": record.digest,
        "SchemaId": record.schema_version,
        "Generation": record.generation,
        "QueryId": record.query_id,
    }


def _wrong_usage(result: Result) -> bool:
    """Whether a command has refused its words."""
    error = result.get("error")
    return isinstance(error, dict) and error["exit_code"] == EXIT_USAGE and "date" not in result


def _table(table: TableName | None, result: Result) -> LogRow:
    name = result.get("table") or table
    return {} if name is None else named(name)


def _message(result: Result) -> str | None:
    error = result.get("error") or result.get("clean_error")
    return f"{error['type']}: {error['what']}" if isinstance(error, dict) else result.get("message")


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def storage_rows(place: TablePlace, listed: int = LISTED, dates: Collection[str] = ()) -> Iterator[LogRow]:
    """A row a volume, and one a volume of each of these dates; raises the errors of reading the table.

    Rows of dates have the committed bytes and files.
    Of a table of more than ``listed`` locations no files are looked at: then ``Bytes`` has the committed bytes,
    ``Files`` and ``WasteBytes`` are null.
    """
    locations = committed_locations(place)
    for date, of_date in by_date([location for location in locations if location.key.value in dates]).items():
        for volume, use in sorted(committed_use(of_date).items()):
            about = {**named(place.table), "Partition": date, "Volume": volume}
            yield {**about, "Bytes": use.bytes, "Files": use.files}
    if len(locations) > listed and place.fs.stat(place.extended) is None:
        for volume, use in sorted(({INTRADAY: VolumeUse()} | committed_use(locations)).items()):
            yield {**named(place.table), "Volume": volume, "Bytes": use.bytes}
        return
    usage = disk_use(place, most=listed, partly=False)
    for volume, use in sorted(usage.volumes.items()):
        looked_at = {} if usage.unlisted else {"Files": use.files, "WasteBytes": use.waste}
        yield {**named(place.table), "Volume": volume, "Bytes": use.bytes, **looked_at}


@dataclass(frozen=True, slots=True)
class EpochRecord:
    """One epoch. ``digest``: SHA-256, in hex, of the frame of its record.

    A rollback has no rows of its own, and neither schema nor query: those are None.
    """

    generation: int
    locations: int
    digest: str
    rows: int | None = None
    schema_version: int | None = None
    query_id: str | None = None


def epoch_records(place: StreamPlace, epochs: Collection[int]) -> dict[int, EpochRecord]:
    """Those of these epochs that the log still has, by number; raises the errors of reading the log."""
    files = read_files(place)
    by_epoch: dict[int, EpochRecord] = {}
    for record, (start, end) in zip(files.records, files.places, strict=True):
        if not isinstance(record, CommitRecord | RollbackRecord) or record.epoch not in epochs:
            continue
        digest = sha256(files.opened.source.read(start, end - start)).hexdigest()
        if isinstance(record, RollbackRecord):
            by_epoch[record.epoch] = EpochRecord(record.generation, len(record.changed), digest)
            continue
        full = files.full(record)
        batch = full.batch if isinstance(full, CommitRecord) else record.batch
        about = batch.rows, batch.schema_version, batch.query_id
        by_epoch[record.epoch] = EpochRecord(record.generation, len(batch.reports), digest, *about)
    return by_epoch
