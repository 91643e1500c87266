"""A stream's settings against the schema that they name, and the partition rule of the rows that are stored.

Deployments of schemas by commands and streams: as ``store`` does them, with the rows that a refused change costs.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sparkhaven.ingest.targets import resolve_targets
from sparkhaven.jobs.settings.stream_file import StreamSettings, names_of
from sparkhaven.store.epochs.generation import require_rule
from sparkhaven.store.epochs.reading.stream_state import list_streams, load_stream
from sparkhaven.store.errors import SchemaChangeError, SettingsError, SparkhavenError, counted, replaced
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, TableName
from sparkhaven.store.places import StreamPlace, TablePlace
from sparkhaven.store.scan.column_file import filled
from sparkhaven.store.scan.ranges import Snapshot, make_plan
from sparkhaven.store.schema.deployed.deploy import Deployment, deployment, load_deployed
from sparkhaven.store.schema.deployed.schema_changes import ADDITIONS, Consent
from sparkhaven.store.schema.document.schema_file import load_schema
from sparkhaven.store.types.model import TableSchema


def checked_schema(fs: Fs, settings: StreamSettings) -> TableSchema:
    """The schema that the stream file names, if it is of the table that it names and all its settings fit."""
    schema = load_schema(fs, settings.schema_file).schema
    if schema.full_name != settings.spec.table:
        raise SettingsError(
            "the schema is of another table than the stream",
            where=settings.file,
            expected=settings.spec.table,
            found=f"{schema.full_name} in {settings.schema_file}",
            hint="correct `table` or `schema` in the stream file",
        )
    with names_of(settings.file):
        targets = resolve_targets(settings.spec, schema)
    settings.feed.check_columns(targets)  # what a decoder refuses is said here, not in a task
    return schema


def require_same_rule(place: StreamPlace, settings: StreamSettings) -> None:
    """SettingsError: by the partition rule of the file rows would go elsewhere than those that are stored."""
    if place.fs.stat(place.stream_log) is None:
        return
    try:
        require_rule(place, load_stream(place), settings.spec.rule)
    except SettingsError as error:
        hint = f"put the rule back, or accept the new one: `sparkhaven ingest {settings.file} --accept-rule`"
        raise replaced(error, hint=f"{hint}. Rows that are stored stay where they are") from None


def deploy_schema(
    fs: Fs, layout: Layout, source: Path | bytes, *, consent: Consent = ADDITIONS, dry_run: bool = False
) -> Deployment:
    """Deploys a schema, or with ``dry_run`` says what would be done. Raises what ``deploy`` raises.

    A SchemaChangeError names the rows that have values in the columns that would go.
    """
    try:
        return deployment(fs, layout, source, consent=consent, dry_run=dry_run)
    except SchemaChangeError as error:
        if error.columns is None:
            raise
        names, table = str(error.columns).split(", "), TableName.parse(str(error.table))
        counted = counted_columns(TablePlace(fs, layout, table), names)
        raise replaced(error, columns=counted) from None


def counted_columns(place: TablePlace, names: Sequence[str]) -> str:
    """Columns with the rows that have values in them, as text; where rows cannot be read, it says so."""
    try:
        rows = filled_rows(place, names)
    except (SparkhavenError, OSError) as error:
        return f"{', '.join(names)} (values not counted: {str(error).splitlines()[0]})"
    return ", ".join(f"{name} ({counted(count, 'row')} with values)" for name, count in rows.items())


def filled_rows(place: TablePlace, names: Sequence[str]) -> dict[str, int]:
    """In how many rows of the table each column has a value. Raises what reading the table raises."""
    schema = load_deployed(place)
    states = [load_stream(place.of_stream(stream)) for stream in list_streams(place)]
    slices = make_plan(place, Snapshot(place.table, schema, tuple(states))).slices
    columns = [column for column in (*schema.stored, *schema.retired) if column.name in names]
    return {
        column.name: sum(
            filled(
                place.fs,
                slice_.directory,
                column.at(slice_.named_by),
                slice_.files,
                slice_.stats.get(column.name, ()),
                (slice_.start, slice_.stop, slice_.rows),
            )
            for slice_ in slices
        )
        for column in columns
    }
