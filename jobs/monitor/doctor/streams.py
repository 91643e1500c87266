"""Streams: the age of the newest epoch, damaged logs, lag, times in the future, locks and rejected rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from sparkhaven.jobs.monitor.doctor.finding import CheckContext, Found, each, told, unread
from sparkhaven.jobs.monitor.epochs import field_words
from sparkhaven.jobs.monitor.rejected import rejected_rows
from sparkhaven.jobs.monitor.streams import failures as last_failures
from sparkhaven.jobs.monitor.streams import lock_mark
from sparkhaven.jobs.monitor.texts import ago, headline
from sparkhaven.jobs.monitor.waiting import other_fields, remarks_of
from sparkhaven.jobs.settings.stream_file import StreamSettings, name_stream
from sparkhaven.jobs.settings.stream_schema import checked_schema
from sparkhaven.readers.checks.findings import Finding
from sparkhaven.readers.checks.stream_files import check_head, check_log, check_positions, stray_stream_files
from sparkhaven.store.epochs.files.lock import lock_owner
from sparkhaven.store.epochs.files.stream_notes import StreamFailure
from sparkhaven.store.epochs.generation import is_other_rule
from sparkhaven.store.epochs.reading.stream_state import list_epochs, list_streams
from sparkhaven.store.epochs.state.file_positions import NO_HORIZON
from sparkhaven.store.epochs.state.replay import StreamState
from sparkhaven.store.epochs.state.resume_rules import rule_words
from sparkhaven.store.errors import SparkhavenError, counted, counted_with
from sparkhaven.store.layout import TableName
from sparkhaven.store.places import StreamPlace, TablePlace
from sparkhaven.store.schema.deployed.deploy import load_history
from sparkhaven.writers.quarantine.row_choice import Chosen

ASK_SECONDS = 5.0
WHOLE_LOG = 16 << 20  # bytes; a larger one is left to `verify`
SLACK_SECONDS = 60.0
CLOCK = "set the clock of this machine (timedatectl)."


def epochs(context: CheckContext) -> Iterator[Found]:
    """The newest epoch of each stream, and when its log was last written to."""
    count = 0
    for table, stream, state in context.streams():
        count += 1
        if isinstance(state, Exception):
            continue  # reported by ``logs``
        stat = context.fs.stat(context.layout.stream_log(table, stream))
        age = f", {ago(context.now_s - stat.mtime_ns / 1e9)} old" if stat is not None and state.epoch else ""
        many = counted(len(state.locations), "intraday location")
        yield f"{table} {stream}: epoch {state.epoch}{age}, durability {state.durability}, {many}"
    if not count:
        yield told("N431", "no stream has run in this database yet", context.command("ingest", "STREAM.toml"))


def lag(context: CheckContext) -> Iterator[Found]:
    """Input that waits at the sources of the named stream files."""
    for settings in context.feeds:
        name = f"{settings.table} {settings.spec.stream}"
        state = next((s for t, n, s in context.streams() if (t, n) == (settings.table, settings.spec.stream)), None)
        if isinstance(state, Exception):
            continue
        if state is not None and state.rule is not None and is_other_rule(state, settings.spec.rule):
            message = f"{name}: its file has another partition rule, {rule_words(state.rule, settings.spec.rule)}"
            yield told("E432", message, f"put it back, or: {context.command('ingest', settings.file, '--accept-rule')}")
        try:
            waiting = settings.feed.waiting(context.fs, state, ASK_SECONDS)
        except (SparkhavenError, OSError) as error:
            name_stream(error, settings)
            yield told("E432", f"{name}: {headline(error)}", getattr(error, "hint", None))
        else:
            yield f"{name}: {waiting.words} wait"
            for remark in remarks_of(waiting.counts, settings.feed.resume.remember_s):
                yield told("N432", f"{name}: {remark}")
            yield from _trial(context, settings, state)


def _trial(context: CheckContext, settings: StreamSettings, state: StreamState | None) -> Iterator[Found]:
    """What becomes of the first rows that wait."""
    name, command = f"{settings.table} {settings.spec.stream}", context.command("ingest", settings.file, "--dry-run")
    try:
        trial = settings.feed.trial(context.fs, state, checked_schema(context.fs, settings))
    except (SparkhavenError, OSError) as error:
        yield told("E432", f"{name}: a run would stop, {headline(error)}", command)
        return
    if trial is not None and trial.rejected:
        yield told(
            "N432", f"{name}: {trial.rejected:,} bad of the first {counted(trial.rows, 'row')} that wait", command
        )
    for line in other_fields(trial, settings.spec.contract):
        yield told("N432", f"{name}: first rows that wait, {line}", command)


def fields(context: CheckContext) -> Iterator[Found]:
    """Fields of the newest epoch of each stream that no column takes, and columns without a field."""
    expected = {
        (settings.table, settings.spec.stream)
        for settings in context.feeds
        if settings.spec.contract == "discard-value"
    }
    sound = True
    for table, stream, state in context.streams():
        if isinstance(state, Exception) or (table, stream) in expected:
            continue
        for result in _fields(context, table, stream):
            sound = False
            yield result
    if sound:
        yield "the newest rows have the fields of the columns, and no others"


def _fields(context: CheckContext, table: TableName, stream: str) -> Iterator[Found]:
    entries = list_epochs(StreamPlace(context.fs, context.layout, table, stream))
    undone = {epoch for entry in entries if entry.live for epoch in entry.undoes}
    commits = [entry for entry in entries if entry.is_commit and entry.rows and entry.epoch not in undone]
    if not commits:
        return
    *before, newest = commits
    command = context.command("epochs", "show", table, stream)
    if unknown := newest.ignored:
        yield told(
            "N433",
            f"{table} {stream}: epoch {newest.epoch} has fields without a column, {field_words(unknown)}",
            command,
        )
    gone = {name: rows for name, rows in newest.absent.items() if rows >= newest.rows}
    versions = load_history(TablePlace(context.fs, context.layout, table))
    columns = {version.version: {column.id: column.name for column in version.columns} for version in versions}
    ids = {name: number for number, name in columns.get(newest.schema_version or 0, {}).items()}
    for name, rows in newest.absent.items():
        last = 0  # the newest epoch whose rows had the field of the column, which may have had another name
        for entry in before:
            former = columns.get(entry.schema_version or 0, {}).get(ids.get(name, -1))
            if former is not None and entry.absent.get(former, 0) < entry.rows:
                last = entry.epoch
        if name in gone and last:
            message = f"{table} {stream}: no row of epoch {newest.epoch} has the field of column {name}"
            yield told(
                "E433",
                f"{message}. Rows had it up to epoch {last}",
                "correct `from` of the column, or the producer. With `required` such rows are refused",
            )
        else:
            words = f"{rows:,} of {counted(newest.rows, 'row')} of epoch {newest.epoch}"
            yield told("N433", f"{table} {stream}: {words} have no field for column {name}", command)


def logs(context: CheckContext) -> Iterator[Found]:
    """Damaged, torn or missing commit logs: the checks of ``verify`` that read no column."""
    sound = 0
    for table in context.tables:
        place = TablePlace(context.fs, context.layout, table)
        yield from of_damage(context, table, list(stray_stream_files(place)))
        streams = list_streams(place)
        if not streams and _has_locations(context, table):
            message = f"{table} has intraday directories and no commit log. Readers see none of its committed rows"
            yield told("E434", message, f"restore {context.layout.streams(table)} from a backup. Delete nothing")
    for table, stream, state in context.streams():
        path = context.layout.stream_log(table, stream)
        if isinstance(state, Exception):
            context.told.add((str(path), getattr(state, "what", str(state))))
            what = f"{table} {stream} cannot be read: {headline(state)}"
            yield unread(state, what, context.command("verify", table))
            continue
        unsettled = list(check_positions(StreamPlace(context.fs, context.layout, table, stream), state))
        context.told.update((finding.path, finding.what) for finding in unsettled)
        yield from (told("E432", f"{table} {stream}: {finding.what}", finding.hint) for finding in unsettled)
        stat = context.fs.stat(path)
        if stat is not None and stat.size > WHOLE_LOG:
            yield told(
                "N435",
                f"{table} {stream}: log of {stat.size >> 20:,} MiB was not checked",
                context.command("verify", table),
            )
            continue
        results = list(
            each(f"{table} {stream}", context.command("verify", table), partial(_of_log, context, table, stream))
        )
        yield from results
        sound += not results and not unsettled
    if sound:
        yield counted_with(sound, "log", "are sound")


def _of_log(context: CheckContext, table: TableName, stream: str) -> Iterator[Found]:
    place = StreamPlace(context.fs, context.layout, table, stream)
    yield from of_damage(context, table, [*check_log(place), *check_head(place)])


def failures(context: CheckContext) -> Iterator[Found]:
    """The last failure of each stream that has not succeeded since, by the note beside its log."""
    failed = False
    for table in context.tables:
        place = TablePlace(context.fs, context.layout, table)
        for stream, failure in last_failures(place):
            failed = True
            if isinstance(failure, StreamFailure):
                yield _failure(context, place.of_stream(stream), failure)
            else:
                yield told("N313", headline(failure), "remove it. Nothing depends on it")
    if not failed:
        yield "no stream has failed since it succeeded last"


def _failure(context: CheckContext, place: StreamPlace, failure: StreamFailure) -> Found:
    """Without what was found: that may be a value of a row."""
    where = f" ({failure.where})" if failure.where else ""
    text = (
        f"{place.table} {place.stream} failed {ago(context.now_s - failure.time_ms / 1000)} ago: {failure.what}{where}"
    )
    since_ms = lock_mark(context.fs, place.stream_lock).since_ms
    running = lock_owner(context.fs, place.stream_lock) is not None
    if running and since_ms is not None and since_ms > failure.time_ms:
        return told("N436", f"{text}. It runs again, and has committed nothing since", failure.hint)
    return told("E436", text, failure.hint or context.command("ingest", failure.file or "STREAM.toml"))


def clock(context: CheckContext) -> Iterator[Found]:
    """Times of files and epochs in the future: this clock, or that of a writer, was wrong."""
    latest = context.now_s + SLACK_SECONDS
    sound = True
    for table, stream, state in context.streams():
        for event, time_s in _times(context, table, stream, state):
            if time_s > latest:
                sound = False
                when = datetime.fromtimestamp(time_s, UTC).isoformat(timespec="seconds")
                yield told(
                    "E437",
                    f"{table} {stream}: {event} {when}, which is in the future",
                    "set the clock of this machine (timedatectl). If it is right, that of another machine was ahead",
                )
    if sound:
        now = datetime.fromtimestamp(context.now_s, UTC)
        yield f"no time is in the future, {now:%Y-%m-%d %H:%M:%S} UTC"


def _times(
    context: CheckContext, table: TableName, stream: str, state: StreamState | Exception
) -> Iterator[tuple[str, float]]:
    stat = context.fs.stat(context.layout.stream_log(table, stream))
    if stat is not None:
        yield "the log was written at", stat.mtime_ns / 1e9
    if isinstance(state, Exception):
        return
    newest = max((location.time_ms for location in state.locations.values()), default=0)
    yield "the newest epoch is of", newest / 1000
    if state.horizon != NO_HORIZON:
        yield "files are ingested only if they were modified after", state.horizon / 1e9


def of_damage(context: CheckContext, table: TableName | str, damage: list[Finding]) -> Iterator[Found]:
    """Damage as findings, each once whatever checks meet it."""
    for finding in damage:
        if finding.severity != "note" and (finding.path, finding.what) not in context.told:
            context.told.add((finding.path, finding.what))
            text = f"{finding.path}: {finding.what}" + (f", {finding.at}" if finding.at else "")
            yield replace(finding, what=text, hint=finding.hint or context.command(*f"verify {table}".split()))


def _has_locations(context: CheckContext, table: TableName) -> bool:
    root = context.layout.intraday(table)
    return any(context.fs.names(root / name) for name in context.fs.names(root) if not name.startswith("."))


def locks(context: CheckContext) -> Iterator[Found]:
    """By stream whether it runs and where, and running merges."""
    for table, stream, _ in context.streams():
        path = context.layout.stream_lock(table, stream)
        yield _lock(context, f"{table} {stream}", path)
    for table in context.tables:
        pid = lock_owner(context.fs, context.layout.merges(table))
        if pid is not None:
            yield f"{table}: a merge or a removal runs, process {pid}"


def _lock(context: CheckContext, name: str, path: Path) -> Found:
    pid, mark = lock_owner(context.fs, path), lock_mark(context.fs, path)
    age = f" since {ago(context.now_s - mark.since_ms / 1000)}" if mark.since_ms is not None else ""
    if pid is not None:
        return f"{name} is being written by process {pid} of {context.host}{age}"
    if mark.host and mark.host != context.host:
        message = f"{name} was last opened by process {mark.pid} on {mark.host}{age}"
        return told("N438", f"{message}. Only that host knows whether it runs", f"on {mark.host}: ps -p {mark.pid}")
    return f"{name} is not being written"


def quarantined(context: CheckContext) -> Iterator[Found]:
    """The number of pending rows by stream."""
    pending = False
    for table, stream, state in context.streams():
        if isinstance(state, Exception):
            continue  # reported by ``logs``
        command = context.command("quarantine", "list", table, stream)
        for result in each(f"{table} {stream}", command, partial(_of_stream, context, table, state, command)):
            pending = True
            yield result
    if not pending:
        yield "no row is pending in quarantine"


def _of_stream(context: CheckContext, table: TableName, state: StreamState, command: str) -> Iterator[Found]:
    rows = rejected_rows(TablePlace(context.fs, context.layout, table), state)
    count = rows.count(Chosen(state="pending")) if rows is not None else 0
    if count:
        yield told("N439", f"{table} {state.stream}: {counted_with(count, 'row', 'are in quarantine')}", command)
