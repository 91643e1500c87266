"""A stream's settings against the schema that they name, and the partition rule of the rows that are stored."""

from __future__ import annotations

from sparkhaven.ingest.targets.target_columns import resolve_targets
from sparkhaven.jobs.settings.stream_file import StreamSettings, names_of
from sparkhaven.store.epochs.generation import require_rule
from sparkhaven.store.epochs.reading.stream_state import load_stream
from sparkhaven.store.errors import SettingsError, replaced
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.places import StreamPlace
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
