"""What every change of history ends with: the tree of ``ExtendedStorage`` is brought in step."""

from __future__ import annotations

import time
from collections.abc import Callable

from sparkhaven.readers.arrow.opening import open_table
from sparkhaven.readers.arrow.table import pinned_of
from sparkhaven.store.errors import SparkhavenError
from sparkhaven.store.format.parquet.trees import EXTENDED
from sparkhaven.store.io.system_errors import as_ours
from sparkhaven.store.places import TablePlace
from sparkhaven.store.schema.deployed.deploy import load_deployed
from sparkhaven.store.types.datatypes import CHAR_NULL


def follow(place: TablePlace, on_progress: Callable[[str], None] = lambda _: None) -> None:
    """Writes the leaves of dates that are not in step with history, and says so; nothing without such a tree.

    It is called, too, where nothing was changed: a command that was killed may have changed history before. Raises
    what ``follow_history`` raises, as an error that says that history is committed.
    """
    schema = load_deployed(place)
    if schema.extended not in EXTENDED:
        return
    from sparkhaven.writers.exports.extended_tree import follow_history  # which few tables need

    opened = pinned_of(open_table(place.layout.root, schema.full_name, null_char=CHAR_NULL, fs=place.fs))
    try:
        changes = follow_history(place, opened, now_ms=int(time.time() * 1000), on_progress=on_progress)
    except (SparkhavenError, OSError) as error:
        failed = as_ours(error)
        failed.what = f"history is committed, and its {schema.extended} tree is not in step: {failed.what}"
        raise failed from error
    done = f"{len(changes.written):,} dates written, {len(changes.removed):,} removed"
    on_progress(f"{schema.extended}: {done}, {changes.path}")
