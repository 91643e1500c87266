"""Rows of log tables for tests: written as a job writes them, and read back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sparkhaven.jobs.monitor.logs.log_tables import LogTable
from sparkhaven.jobs.monitor.logs.log_writer import append_rows
from sparkhaven.readers.arrow.opening import open_table
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout
from sparkhaven.store.places import TablePlace

NOW = 1_700_000_000.0  # 2023-11-14
DAY = "2023-11-14"


def rows_of(root: Path, table: LogTable) -> list[dict[str, Any]]:
    """All rows, by time."""
    found = open_table(root, str(table.table)).to_arrow().to_pylist()
    return sorted(found, key=lambda row: row["Timestamp"])


def add(root: Path, table: LogTable, *rows: dict[str, object], fs: Fs | None = None) -> int:
    """Appends rows at ``NOW``; the epoch."""
    whole = [{"Timestamp": int(NOW) * 10**9, "RunId": "r", "Host": "h", **row} for row in rows]
    place = TablePlace(fs or Fs(), Layout(root), table.table)
    return append_rows(place, table, whole, run_id="r", clock=lambda: NOW, warn=pytest.fail)
