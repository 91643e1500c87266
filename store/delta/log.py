"""The log of a Delta table: the names of its files, the actions of one version, and the errors of both.

A version ``N`` is the file ``N.json`` of JSON lines, one action each. A checkpoint has the table's state at a version.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from sparkhaven.store.errors import CorruptFileError, SparkhavenError, UnsupportedVersionError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.io.local_path import file_of_url


def unreadable(path: Path, what: str, hint: str) -> SparkhavenError:
    return UnsupportedVersionError(
        "the Delta table has a feature that is not read",
        where=path,
        expected="a table of reader version 1, or newer without column mapping, deletion vectors or features unknown",
        found=what,
        hint=hint,
    )


def unwritable(path: Path, what: object) -> SparkhavenError:
    return UnsupportedVersionError(
        "the Delta table has a feature that is not written without Spark",
        where=path,
        expected="a table of writer version 2 without partitions, constraints and column mapping",
        found=what,
        hint="ALTER TABLE ... DROP FEATURE, or move the table away. The next rejected row creates a new one",
    )


def damaged(path: Path, content: object) -> SparkhavenError:
    return CorruptFileError(
        "a file of the Delta log is damaged",
        where=path,
        expected="actions as Delta writes them",
        found=content,
        hint="restore it from a copy. Nothing was committed",
    )


LOG = "_delta_log"
LAST_CHECKPOINT = "_last_checkpoint"
READ_FEATURES = frozenset(  # of readers; those that change nothing for us, or are looked at where they are used
    {
        "columnMapping",  # by the metadata's mode
        "deletionVectors",  # by each file
        "timestampNtz",
        "typeWidening",
        "typeWidening-preview",
        "vacuumProtocolCheck",
    }
)
_VERSION = re.compile(r"(\d{20})\.json\Z")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):/")
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint(?:\.(\d{10})\.(\d{10}))?\.parquet\Z")


@dataclass(frozen=True, slots=True)
class Listing:
    """Versions with a file of their own, and checkpoints that are complete: version -> names of their files."""

    versions: frozenset[int]
    checkpoints: Mapping[int, tuple[str, ...]]

    @property
    def latest(self) -> int | None:
        return max((*self.versions, *self.checkpoints), default=None)

    def checkpoint_before(self, version: int) -> int:
        """The newest checkpoint at or before a version; -1 if there is none."""
        return max((number for number in self.checkpoints if number <= version), default=-1)


def list_log(fs: Fs, table: Path) -> Listing:
    versions: set[int] = set()
    parts: dict[tuple[int, int], list[str]] = {}
    for name in fs.names(table / LOG):
        if match := _VERSION.match(name):
            versions.add(int(match[1]))
        elif match := _CHECKPOINT.match(name):
            parts.setdefault((int(match[1]), int(match[3] or 1)), []).append(name)
    complete = {version: tuple(sorted(names)) for (version, count), names in parts.items() if len(names) == count}
    return Listing(frozenset(versions), complete)


def is_table(fs: Fs, table: Path) -> bool:
    """Whether a directory has a Delta table: at least one version was committed."""
    return list_log(fs, table).latest is not None


def version_file(table: Path, version: int) -> Path:
    return table / LOG / f"{version:020d}.json"


def parse_actions(path: Path, data: bytes) -> Iterator[tuple[int, str, dict[str, Any]]]:
    """Line, kind and body of each action in the file of a version. CorruptFileError: a line is no JSON object."""
    for number, line in enumerate(data.split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            for kind, body in json.loads(line).items():
                yield number, kind, body
        except (ValueError, AttributeError, RecursionError) as error:
            raise damaged(path, f"line {number}: {error or type(error).__name__}") from error


def data_path(table: Path, text: str) -> Path:
    """Where a data file is: a path in the table, or a URI, both with percent signs for special characters."""
    scheme = _SCHEME.match(text)
    if scheme is None:
        return table / unquote(text)
    if scheme[1] != "file":
        raise unreadable(
            table, f"a data file at {text}", "mount the disk of the file, and write its path into the table"
        )
    return Path(file_of_url(text))


def require_features(table: Path, configuration: Mapping[str, str], reader: int, features: frozenset[str]) -> None:
    """UnsupportedVersionError for a table whose reader rules are not supported."""
    mode = configuration.get("delta.columnMapping.mode", "none")
    if mode != "none":
        raise unreadable(
            table,
            f"column mapping by {mode}",
            "copy the rows into a table without it (CREATE TABLE ... AS SELECT) and follow that one",
        )
    unknown = sorted(features - READ_FEATURES)
    if unknown or reader > 3:
        what = f"reader feature {', '.join(unknown)}" if unknown else f"reader version {reader}"
        raise unreadable(table, what, "ALTER TABLE ... DROP FEATURE, or let another job copy the rows into a table")


def deleted_rows(path: Path) -> SparkhavenError:
    """The error for a data file with a deletion vector: to read it would bring its deleted rows back."""
    return unreadable(
        path,
        "a data file with a deletion vector",
        "run REORG TABLE ... APPLY (PURGE) on the table, and set delta.enableDeletionVectors = false",
    )
