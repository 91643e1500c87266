"""Checks before a commit: the batch continues from exactly the state of the log."""

from __future__ import annotations

from pathlib import Path

from sparkhaven.store.epochs.files.published_size import TABLE_DEFINITION, TABLE_SIZE
from sparkhaven.store.epochs.state.log_values import Batch, LocationReport, LocationState
from sparkhaven.store.epochs.state.replay import StreamState
from sparkhaven.store.errors import EpochConflictError, PositionGapError
from sparkhaven.store.layout import LocationKey, check_partition


def require(state: StreamState, batch: Batch, log: Path) -> None:
    """EpochConflictError: a report or position does not continue from ``state``; nothing landed.

    PositionGapError: a file was taken with other content or is older than the horizon, or offsets do not continue at
    the committed end.
    """
    state.offsets.require_settled(log)
    resolution = state.classify(batch.splits, batch.gaps)
    if resolution.taken:
        raise _conflict("splits of this batch are already committed", resolution.taken[0].path, "new ones", "taken")
    if resolution.cut:
        proposed, rest = resolution.cut[0]
        raise _conflict("a part of this batch is already committed", proposed.path, rest.path, "all of it")
    if resolution.below:
        raise PositionGapError(
            "a file is older than the horizon of the stream",
            where=resolution.below[0].path,
            expected=f"modified at or after {state.horizon} ns",
            found=f"modified at {resolution.below[0].mtime_ns} ns",
            hint="give the file a new modification time",
        )
    seen = set()
    for report in batch.reports:
        if report.key in seen:
            raise _conflict("a location has two reports", report.key, "one", "two")
        seen.add(report.key)
        location = state.locations.get(report.key)
        _require_base(report, location)
        _require_growth(report, location)


def _require_base(report: LocationReport, location: LocationState | None) -> None:
    if location is not None and location.truncated:
        raise _conflict("the location was truncated", report.key, "no rows", f"rows up to {report.rows}")
    expected = (location.epoch, location.rows) if location else (0, 0)
    if (report.base_epoch, report.base_rows) != expected:
        raise _conflict(
            "a task appended to another state than the committed one",
            report.key,
            f"epoch {expected[0]} with {expected[1]} rows",
            f"epoch {report.base_epoch} with {report.base_rows} rows",
        )


def _require_growth(report: LocationReport, location: LocationState | None) -> None:
    check_partition("internal partition", report.key.internal)
    check_partition("partition value", report.key.value)
    if report.rows < report.base_rows:
        raise _conflict("a location shrinks", report.key, f"{report.base_rows} rows or more", report.rows)
    committed = location.files if location else {}
    for name, state in committed.items():
        size = report.files[name].size if name in report.files else None
        if size is None or size < state.size:
            raise _conflict(f"file {name} shrinks", report.key, f"{state.size} bytes or more", size)
    for name, state in report.files.items():
        unfit = "/" in name or "\0" in name or name in ("", TABLE_SIZE, TABLE_DEFINITION) or name.startswith(".")
        if unfit or state.size < 0 or not 0 <= state.crc < 2**32:
            raise _conflict("a report has an impossible file", report.key, "a column file", f"{name!r} {state}")


def _conflict(what: str, where: LocationKey | str, expected: object, found: object) -> EpochConflictError:
    return EpochConflictError(
        what,
        where=where if isinstance(where, str) else f"{where.internal}/{where.value}",
        expected=expected,
        found=found,
        hint="nothing was committed. The tails are truncated when the batch is retried",
    )
