"""What commands that change history do for a table with ``ExtendedStorage``: its tree is brought in step."""

from __future__ import annotations

import time

from jobs.context import CliContext
from readers.arrow.opening import open_table
from store.format.parquet.trees import EXTENDED
from store.io.fs import Fs
from store.layout import Layout
from store.types.model import TableSchema
from writers.exports.extended import follow_history


def follow(cli: CliContext, fs: Fs, layout: Layout, schema: TableSchema) -> None:
    """Writes the leaves of dates that have changed, and says so; nothing for a table without such a tree."""
    if schema.extended not in EXTENDED:
        return
    opened = open_table(layout.root, schema.full_name, fs=fs)
    found = follow_history(fs, layout, opened, now_ms=int(time.time() * 1000), on_progress=cli.note)
    done = f"{len(found.written):,} dates written, {len(found.removed):,} removed"
    cli.note(f"{schema.extended}: {done}, {found.path}")
