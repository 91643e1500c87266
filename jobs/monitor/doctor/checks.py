"""Every check, in the order in which they are reported, and those of tables and of their dates.

Tables: their deployed schemas, and what ``verify`` finds without reading every byte. Dates: the next step of each from
intraday to history.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import date as day
from datetime import timedelta
from functools import partial
from zoneinfo import ZoneInfo

from sparkhaven.jobs.date_choice import CLOSED_GRACE_S, end_of, recorded_zone
from sparkhaven.jobs.monitor.dates import DateStatus, DateValidation
from sparkhaven.jobs.monitor.doctor.finding import (
    Check,
    CheckContext,
    DoctorFinding,
    Found,
    checked,
    each,
    line_of,
    told,
)
from sparkhaven.jobs.monitor.doctor.machine import file_systems, free_space, jdk, permissions, spark, versions
from sparkhaven.jobs.monitor.doctor.streams import (
    clock,
    epochs,
    failures,
    fields,
    lag,
    locks,
    logs,
    of_damage,
    quarantined,
)
from sparkhaven.jobs.monitor.texts import headline, named
from sparkhaven.jobs.settings.stream_file import StreamSettings
from sparkhaven.jobs.settings.stream_schema import deploy_schema
from sparkhaven.readers.checks.verify import verify, verify_users
from sparkhaven.store.epochs.files.lock import lock_owner
from sparkhaven.store.epochs.files.removals import read_removals
from sparkhaven.store.epochs.reading.stream_state import list_streams
from sparkhaven.store.epochs.state.removed_locations import RemovalPhase
from sparkhaven.store.epochs.state.replay import StreamState
from sparkhaven.store.errors import (
    InvalidNameError,
    SchemaError,
    SettingsError,
    TableNotFoundError,
    counted,
    counted_with,
)
from sparkhaven.store.io.fs import stats_below
from sparkhaven.store.layout import INTERNAL_NAMESPACE, TableName
from sparkhaven.store.merges.merge_run import MergePhase
from sparkhaven.store.places import StreamPlace, TablePlace
from sparkhaven.store.scan.selection import is_well_formed
from sparkhaven.store.schema.deployed.deploy import deployed_tables, load_deployed
from sparkhaven.writers.merge.publish.publish_phase import GRACE_S

UTC = ZoneInfo("UTC")
LEAST_RUN, DAY_SIGNS = 3, len("2026-01-01")  # days, and signs of one
UNVALIDATED = (DateValidation.MISSING, DateValidation.STALE)
STEPS: tuple[tuple[str, str, str, Callable[[DateStatus, bool], object]], ...] = (
    ("N451", "have an unfinished merge, which runs or was interrupted", "merge --dates",
     lambda date, ended: date.unfinished and date.unfinished is not MergePhase.RECORD),
    ("N451", "are published, but files that their merge has left behind were not removed", "merge --dates",
     lambda date, ended: date.unfinished is MergePhase.RECORD),
    ("N451", "have ended and are not merged", "merge --dates",
     lambda date, ended: date.unmerged and not date.generation and ended),
    ("N451", "have rows that came after their merge", "merge --rewrite --dates",
     lambda date, ended: date.generation and date.unmerged),
    ("E452", "have failed their validation", "validate --dates",
     lambda date, ended: date.generation and date.validation is DateValidation.FAILED),
    ("E452", "have a damaged validation", "validate --dates",
     lambda date, ended: date.generation and date.validation is DateValidation.DAMAGED),
    ("N451", "are merged and not validated", "validate --dates",
     lambda date, ended: date.generation and date.validation in UNVALIDATED and date.untruncated),
    ("N451", "are validated, and their intraday data not truncated", "truncate --dates",
     lambda date, ended: date.generation and date.validation is DateValidation.PASSED and date.untruncated),
)  # fmt: skip
"""Steps that dates wait for: code, statement, command, and which dates do, by status and whether they have ended."""


def tables(context: CheckContext) -> Iterator[Found]:
    """By table the findings of a shallow ``verify`` that no check before has told.

    Warnings beside a running stream are left out: what is not committed yet is no waste.
    """
    sound = 0
    for table in context.tables:
        results = list(each(table, context.command("verify", table), partial(_damage_of, context, table)))
        yield from results
        sound += not results
    if not context.only:
        yield from of_damage(context, "", verify_users(context.fs, context.layout).findings)
    if sound:
        yield counted_with(sound, "table", "are as logs and merge records say")


def _damage_of(context: CheckContext, table: TableName) -> Iterator[Found]:
    findings = verify(context.fs, context.layout, table).findings
    reported = [finding for finding in findings if finding.severity == "error" or not _is_running(context, table)]
    yield from of_damage(context, table, reported)


def _is_running(context: CheckContext, table: TableName) -> bool:
    locks = (
        context.layout.stream_lock(table, name) for name in list_streams(TablePlace(context.fs, context.layout, table))
    )
    return any(lock_owner(context.fs, lock) is not None for lock in locks)


def schemas(context: CheckContext) -> Iterator[Found]:
    """What is not well with a deployed schema, or with the schema of a named stream file."""
    deployed = set(deployed_tables(context.fs, context.layout))
    for table in context.tables:
        if table in deployed:  # a lost one is reported by ``logs``
            command = context.command("schema", "show", table)
            yield from each(table, command, partial(_of_schema, context, table))
            twins = [twin for twin in deployed if str(twin).lower() == str(table).lower() and twin > table]
            if twins:
                names = f"{table} and {', '.join(map(str, twins))}"
                yield told(
                    "N421", f"{names} differ in case only. No query of SQL takes both", context.command("tables")
                )
    for settings in context.feeds:
        yield from _of_stream(context, settings)


def _of_schema(context: CheckContext, table: TableName) -> Iterator[Found]:
    schema = load_deployed(TablePlace(context.fs, context.layout, table))
    gone = [column.name for column in schema.retired if column.id not in schema.dropped]
    if gone:
        message = f"{table}: no command dropped {', '.join(gone)}. A merge of a date with values of it is refused"
        yield told("N421", message, context.command("schema", "history", table))
    if schema.case_twins is not None:
        kept, twin = schema.case_twins
        message = f"{table}: {kept} and {twin} differ in case only. SQL, Spark and exports refuse the table"
        yield told("N421", message, context.command("schema", "deploy", "FILE", "--rename", f"{twin}=NEW"))


def _of_stream(context: CheckContext, settings: StreamSettings) -> Iterator[Found]:
    name = f"{settings.table} {settings.spec.stream}"
    try:
        done = deploy_schema(context.fs, context.layout, settings.schema_file, dry_run=True)
    except (SchemaError, InvalidNameError) as error:
        columns = error.extra.get("columns")
        yield told("E421", f"{name}: {headline(error)}" + (f"; {columns}" if columns else ""), error.hint)
    else:
        if done.written and done.before is not None:
            message = f"{name}: a start deploys schema version {done.schema.version}, which {done.change.words()}"
            yield told("N421", message, context.command("schema", "diff", settings.table, settings.schema_file))


def dates(context: CheckContext) -> Iterator[Found]:
    """By table the ended dates that are not merged, validated or truncated, and merges that are unfinished.

    Log tables may be left unmerged: they are looked at only by name.
    """
    for table in context.tables:
        if table.namespace == INTERNAL_NAMESPACE and table not in context.only:
            continue
        yield from each(table, context.command("verify", table), partial(_steps_of, context, table))


def _steps_of(context: CheckContext, table: TableName) -> Iterator[Found]:
    statuses, zone = context.dates(table), _zone(context, table)
    ended = {date.value for date in statuses if _has_ended(date.value, zone, context.now_s)}
    waiting = [
        (code, statement, words, [date.value for date in statuses if holds(date, date.value in ended)])
        for code, statement, words, holds in STEPS
    ]
    emptied, due_s = _emptied(context, table)
    due = [value for value in emptied if value not in due_s]
    waste = f"are truncated, and {counted(sum(emptied[value] for value in due), 'byte')} of their files not deleted"
    waiting.append(("N453", waste, "delete --dates", due))
    pending = False
    for code, statement, words, values in waiting:
        if values:
            pending = True
            command, *options = words.split()
            text = f"{table}: {counted_with(len(values), 'date', statement)} ({named(values)})"
            yield told(code, text, context.command(command, table, *options, *asked_dates(values)))
    if due_s:
        pending = True
        truncated = counted_with(len(due_s), "date", "are truncated")
        text = f"{table}: {truncated} ({named(list(due_s))}). Readers may still use the files"
        yield told("N453", f"{text}: `delete` removes them in {max(due_s.values()):,.0f} s")
    old = [location for date in statuses for location in date.replaced]
    if old:
        size = sum(location.size for location in old)
        text = f"{table}: {counted(len(old), 'replaced location')} of history still on disk, {counted(size, 'byte')}"
        yield told("N453", text, context.command("clean", table))
    if not pending:
        merged = sum(bool(date.generation) for date in statuses)
        yield f"{table}: {counted_with(merged, 'date', 'are merged')}, none is pending"


def asked_dates(values: list[str]) -> list[str]:
    """What follows ``--dates`` for all of some dates; a text that is no date has an option of its own."""
    if all(map(is_well_formed, values)):
        return [",".join(_runs(values))]
    first, *others = values
    return [first, *(word for value in others for word in ("--dates", value))]


def _runs(values: list[str]) -> Iterator[str]:
    """Three days or more that follow each other as one range: no table has another date between them."""
    run: list[str] = []
    for value in (*sorted(values), ""):
        if run and not _follows(value, run[-1]):
            yield from [f"{run[0]}..{run[-1]}"] if len(run) >= LEAST_RUN else run
            run = []
        run.append(value)


def _follows(value: str, before: str) -> bool:
    """Whether both are days, not hours of one, and the second of them comes next."""
    try:
        days = [day.fromisoformat(text) for text in (before, value)]
    except ValueError:
        return False
    return len(value) == len(before) == DAY_SIGNS and days[0] + timedelta(days=1) == days[1]


def _emptied(context: CheckContext, table: TableName) -> tuple[dict[str, int], dict[str, float]]:
    """By date the bytes of truncated locations; and the seconds until they may be deleted, where some are left."""
    bytes_of: dict[str, int] = {}
    due_s: dict[str, float] = {}
    for of, stream, state in context.streams():
        if of != table or isinstance(state, Exception):
            continue
        truncated = [item for item in sorted(state.locations.items()) if item[1].truncated]
        place = StreamPlace(context.fs, context.layout, table, stream)
        removals = [removal for _, removal in read_removals(place).entries] if truncated else []
        for key, location in truncated:
            sizes = stats_below(context.fs, context.layout.intraday_location(table, key))
            bytes_of[key.value] = bytes_of.get(key.value, 0) + sum(stat.size for _, stat in sizes)
            since = [r.time_ms / 1000 for r in removals if r.phase == RemovalPhase.TRUNCATE and r.means(location)]
            if (left := max(since, default=0.0) + GRACE_S - context.now_s) > 0:
                due_s[key.value] = max(left, due_s.get(key.value, 0.0))
    return dict(sorted(bytes_of.items())), dict(sorted(due_s.items()))


def _zone(context: CheckContext, table: TableName) -> ZoneInfo:
    try:
        states = (state for of, _, state in context.streams() if of == table and isinstance(state, StreamState))
        return ZoneInfo(recorded_zone(table, states))
    except SettingsError:
        return UTC


def _has_ended(date: str, zone: ZoneInfo, now_s: float) -> bool:
    """Whether a date has ended in its time zone, UTC where none is known; a value that is no date never ends."""
    end = end_of(date, zone)
    return end is not None and end + CLOSED_GRACE_S <= now_s


CHECKS: dict[str, Check] = {
    "versions": versions,
    "spark": spark,
    "jdk": jdk,
    "file system": file_systems,
    "free space": free_space,
}
OF_DATA: dict[str, Check] = {
    "schemas": schemas,
    "permissions": permissions,
    "logs": logs,
    "streams": epochs,
    "failures": failures,
    "locks": locks,
    "lag": lag,
    "clock": clock,
    "fields": fields,
    "dates": dates,
    "quarantine": quarantined,
}


def findings(context: CheckContext) -> list[DoctorFinding]:
    return [*of_machine(context), *of_data(context, verified=True)]


def of_machine(context: CheckContext) -> list[DoctorFinding]:
    """The findings about machine and volumes; they start the JDK to ask its version."""
    return [finding for name, check in CHECKS.items() for finding in checked(name, check, context)]


def of_data(context: CheckContext, *, verified: bool = False) -> list[DoctorFinding]:
    """The findings about the root, its streams and dates. ``verified``: also of tables, which takes longest."""
    if context.fs.stat(context.layout.root) is None:
        message = f"{context.layout.root} does not exist. Ingest creates it"
        return [line_of("root", told("N414", message, context.command("ingest", "STREAM.toml")))]
    findings = checked("root", _root, context)
    if not any(finding.state == "wrong" for finding in findings):
        checks = OF_DATA | ({"tables": tables} if verified else {})
        findings += [finding for name, check in checks.items() for finding in checked(name, check, context)]
    return findings


def _root(context: CheckContext) -> list[Found]:
    tables = deployed_tables(context.fs, context.layout)
    missing = [name for name in context.only if name not in tables]
    if missing:
        raise TableNotFoundError(
            f"no table {missing[0]}", where=context.layout.root, found=", ".join(map(str, tables)) or "no table",
            hint=context.command("stats"),
        )  # fmt: skip
    return [f"{context.layout.root} has {counted(len(tables), 'table')}"]
