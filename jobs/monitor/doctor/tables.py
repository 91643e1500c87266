"""Tables: their deployed schemas, and what ``verify`` finds without reading every byte."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from sparkhaven.jobs.monitor.doctor.finding import CheckContext, Found, each, told
from sparkhaven.jobs.monitor.doctor.streams import of_damage
from sparkhaven.jobs.monitor.texts import headline
from sparkhaven.jobs.settings.stream_file import StreamSettings
from sparkhaven.jobs.settings.stream_schema import deploy_schema
from sparkhaven.readers.checks.verify import verify, verify_users
from sparkhaven.store.epochs.files.lock import lock_owner
from sparkhaven.store.epochs.reading.stream_state import list_streams
from sparkhaven.store.errors import InvalidNameError, SchemaError, counted_with
from sparkhaven.store.layout import TableName
from sparkhaven.store.places import TablePlace
from sparkhaven.store.schema.deployed.deploy import deployed_tables, load_deployed


def tables(context: CheckContext) -> Iterator[Found]:
    """By table the findings of a shallow ``verify`` that no check before has told.

    Warnings beside a running stream are left out: what is not committed yet is no waste.
    """
    sound = 0
    for table in context.tables:
        results = list(each(table, context.command("verify", table), partial(_of_table, context, table)))
        yield from results
        sound += not results
    if not context.only:
        yield from of_damage(context, "", verify_users(context.fs, context.layout).findings)
    if sound:
        yield counted_with(sound, "table", "are as logs and merge records say")


def _of_table(context: CheckContext, table: TableName) -> Iterator[Found]:
    findings = verify(context.fs, context.layout, table).findings
    reported = [finding for finding in findings if finding.severity == "error" or not _runs(context, table)]
    yield from of_damage(context, table, reported)


def _runs(context: CheckContext, table: TableName) -> bool:
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
