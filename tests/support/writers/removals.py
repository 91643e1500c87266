"""Dates that are emptied and unlinked."""

from __future__ import annotations

from typing import Any

from sparkhaven.store.places import TablePlace
from sparkhaven.writers.removal.removal_proof import States, prove
from sparkhaven.writers.removal.row_removal import Removed, delete, truncate
from tests.support.tables.intraday_rows import IntradayRows
from tests.support.writers.merge_cases import DAY, TABLE
from tests.support.writers.merge_runs import FS

NOW = 1_700_000_000.0


def empty(db: IntradayRows, **options: Any) -> Removed:
    proof = options.pop("proof", None) or prove(db.place, DAY)
    chosen: dict[str, Any] = {"fs": FS, "clock": lambda: NOW} | options
    return truncate(States(TablePlace(chosen.pop("fs"), db.layout, TABLE)), proof=proof, **chosen)


def unlink(db: IntradayRows, *, now: float = NOW + 3601, **options: Any) -> Removed:
    chosen: dict[str, Any] = {"fs": FS} | options
    proof = prove(db.place, DAY)
    return delete(States(TablePlace(chosen.pop("fs"), db.layout, TABLE)), proof=proof, clock=lambda: now, **chosen)
