"""A table whose schema asks for a tree beside its history."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from sparkhaven.readers.arrow.opening import open_table
from sparkhaven.readers.arrow.snapshot import pinned_of
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.places import TablePlace
from sparkhaven.writers.transfer.extended import Followed, follow_history
from tests.support.tables.intraday_rows import IntradayRows
from tests.support.writers.merge_cases import SCHEMA, TABLE, as_table, random_row
from tests.support.writers.merge_runs import FS

KINDS = {"parquet:flat": "flat", "parquet:kv": "kv", "parquet:metadata": "metadata", "coreplus:hive": "hive"}
Rows = list[tuple[str, dict[str, Any]]]


def table(root: Path, kind: str) -> IntradayRows:
    """A table of every type with the ``ExtendedStorage`` of a type."""
    return IntradayRows(root, SCHEMA.replace(b"</Table>", f'<ExtendedStorage type="{kind}"/></Table>'.encode()), fs=FS)


def add(db: IntradayRows, rows: Rows, day: str, number: int) -> None:
    """Commits ``number`` rows of a date, and adds them to ``rows``."""
    rng = random.Random(number)
    fresh = [random_row(rng) for _ in range(number)]
    db.commit({("a", day): as_table(fresh)})
    rows += [(day, row) for row in fresh]


def follow(db: IntradayRows, fs: Fs = FS) -> Followed:
    """Brings the tree in step with history."""
    return follow_history(
        TablePlace(fs, db.layout, TABLE), pinned_of(open_table(db.root, str(TABLE), fs=fs)), now_ms=1_700_000_000_000
    )
