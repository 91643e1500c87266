"""What commands that change history do for a table with ``ExtendedStorage``: its tree is brought in step."""

from __future__ import annotations

import time

from sparkhaven.jobs.cli.context import CliContext
from sparkhaven.readers.arrow.opening import open_table
from sparkhaven.readers.arrow.table import pinned_of
from sparkhaven.store.format.parquet.trees import EXTENDED
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout
from sparkhaven.store.places import TablePlace
from sparkhaven.store.types.datatypes import CHAR_NULL
from sparkhaven.store.types.model import TableSchema
from sparkhaven.writers.exports.extended_tree import follow_history


def follow(cli: CliContext, fs: Fs, layout: Layout, schema: TableSchema) -> None:
    """Writes the leaves of dates that have changed, and says so; nothing for a table without such a tree."""
    if schema.extended not in EXTENDED:
        return
    opened = pinned_of(open_table(layout.root, schema.full_name, null_char=CHAR_NULL, fs=fs))
    place = TablePlace(fs, layout, opened.snapshot.table)
    changes = follow_history(place, opened, now_ms=int(time.time() * 1000), on_progress=cli.note)
    done = f"{len(changes.written):,} dates written, {len(changes.removed):,} removed"
    cli.note(f"{schema.extended}: {done}, {changes.path}")
