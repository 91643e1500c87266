"""Errors of a Delta table: a feature that is not supported, a damaged file of the log."""

from __future__ import annotations

from pathlib import Path

from sparkhaven.store.errors import CorruptFileError, SparkhavenError, UnsupportedVersionError


def unreadable(path: Path, what: str, hint: str) -> SparkhavenError:
    """A feature of the table that readers must know and we do not."""
    return UnsupportedVersionError(
        "the Delta table has a feature that is not read",
        where=path,
        expected="a table of reader version 1, or newer without column mapping, deletion vectors or features unknown",
        found=what,
        hint=hint,
    )


def unwritable(path: Path, what: object) -> SparkhavenError:
    """A feature of the table that writers must know and we do not."""
    return UnsupportedVersionError(
        "the Delta table has a feature that is not written without Spark",
        where=path,
        expected="a table of writer version 2 without partitions, constraints and column mapping",
        found=what,
        hint="ALTER TABLE ... DROP FEATURE, or move the table away. The next rejected row creates a new one",
    )


def damaged(path: Path, content: object) -> SparkhavenError:
    """A file of the log is not what Delta writes."""
    return CorruptFileError(
        "a file of the Delta log is damaged",
        where=path,
        expected="actions as Delta writes them",
        found=content,
        hint="restore it from a copy. Nothing was committed",
    )
