"""What commands that change history do for a table with ``ExtendedStorage``: its tree is brought in step."""

from __future__ import annotations

from sparkhaven.jobs.cli.context import CliContext
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, TableName
from sparkhaven.store.places import TablePlace
from sparkhaven.store.types.model import TableSchema
from sparkhaven.writers.exports.extended_tree import follow_table


def follow(cli: CliContext, fs: Fs, layout: Layout, schema: TableSchema) -> None:
    """Writes the leaves of dates that have changed, and says so; nothing for a table without such a tree."""
    follow_table(TablePlace(fs, layout, TableName(schema.namespace, schema.name)), schema, cli.note)
