"""A stream's settings against the schema that they name."""

from __future__ import annotations

from sparkhaven.ingest.targets.target_columns import resolve_targets
from sparkhaven.jobs.settings.stream_file import StreamSettings, names_of
from sparkhaven.store.errors import SettingsError
from sparkhaven.store.io.fs import Fs
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
