"""What can be wrong between a Delta table and our position in it: one error for each case, with what to do about it."""

from __future__ import annotations

from pathlib import Path

from sparkhaven.store.epochs.state.resume_rules import ROLL_BACK
from sparkhaven.store.errors import FeedError, PositionGapError, SparkhavenError

_AGAIN = "read it as a new stream (another name), with start_version if rows are in the table already"


def no_table(path: Path) -> SparkhavenError:
    """There is no log, or an empty one."""
    return FeedError(
        "there is no Delta table",
        where=path,
        expected="a directory with a _delta_log in it",
        found="no version of a table",
        hint="correct feed.path, or write the table first",
    )


def recreated(path: Path, our_id: str, their_id: str) -> SparkhavenError:
    return PositionGapError(
        "the Delta table was recreated, or the path is of another table. Its id changed",
        where=path,
        expected=f"table id {our_id}",
        found=f"table id {their_id}",
        hint=f"{_AGAIN}. Its versions have other rows now",
    )


def versions_gone(path: Path, wanted: int, first: int | None) -> SparkhavenError:
    """Log retention has removed versions that were not read."""
    left = "no version" if first is None else f"the first version that is left is {first}"
    return PositionGapError(
        "versions of the Delta table were removed before they were read. Log retention has passed the committed"
        " position",
        where=path,
        expected=f"version {wanted}",
        found=left,
        hint=f"bring the log's files back from a copy, or {_AGAIN}. Raise delta.logRetentionDuration",
    )


def ends_before(path: Path, wanted: int, latest: int) -> SparkhavenError:
    """The table has fewer versions than were read."""
    return PositionGapError(
        "the Delta table ends before the committed position. It has lost versions whose rows are in the table",
        where=path,
        expected=f"version {wanted - 1} or later",
        found=f"version {latest} as the last",
        hint=f"was it restored from a backup? {ROLL_BACK} at or before that version, or read it as a new stream",
    )


def file_gone(path: Path, version: int) -> SparkhavenError:
    return PositionGapError(
        "a data file of the Delta table was removed before it was read",
        where=path,
        expected=f"the file that version {version} has",
        found="nothing",
        hint="was it rewritten, and VACUUM run? Bring the file back from a copy, or read the table as a new stream",
    )


def rewritten(path: Path, version: int, operation: str) -> SparkhavenError:
    """A version removes rows."""
    return FeedError(
        f"version {version} of the Delta table removes or rewrites rows ({operation})",
        where=f"{path}, version {version}",
        expected="a version that only adds files",
        found=operation,
        hint="set ignore_changes = true in [feed] to take the files that such versions add. Removed rows stay in the"
        " table then, and copied rows come twice. Or read the table as a new stream after this version",
    )
