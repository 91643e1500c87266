"""The log of a Delta table: the names of its files, the actions that they have, and the errors of both.

A version ``N`` is the file ``N.json`` of JSON lines, one action each. A checkpoint has the actions that are in force at
a version: as Parquet, in one file or in parts, or (version 2) as Parquet or JSON with a UUID in its name, whose files
are then in sidecars.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa

from sparkhaven.store.errors import CorruptFileError, SparkhavenError, UnsupportedVersionError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.io.local_path import file_of_url

LOG = "_delta_log"
SIDECARS = "_sidecars"
LAST_CHECKPOINT = "_last_checkpoint"
BATCH_ROWS = 4096
READ_FEATURES = frozenset(  # of readers; those that change nothing for us, or are looked at where they are used
    {
        "columnMapping",
        "deletionVectors",
        "timestampNtz",
        "typeWidening",
        "typeWidening-preview",
        "v2Checkpoint",
        "vacuumProtocolCheck",
    }
)
_VERSION = re.compile(r"(\d{20})\.json\Z")
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint(?:\.(\d{10})\.(\d{10}))?\.parquet\Z")
_CHECKPOINT_2 = re.compile(r"(\d{20})\.checkpoint\.[0-9A-Fa-f-]{36}\.(?:json|parquet)\Z")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):/")

Body = Mapping[str, Any]
Action = tuple[str, Body]

# What an action must have, and of which type. Without it nothing can be said of the table
_NEEDED: Mapping[str, Mapping[str, type]] = {
    "add": {"path": str, "size": int, "modificationTime": int},
    "remove": {"path": str},
    "metaData": {"id": str},
    "protocol": {"minReaderVersion": int},
    "txn": {"appId": str},
    "domainMetadata": {"domain": str},
    "sidecar": {"path": str},
}
_OBJECTS = {"add": ("partitionValues", "deletionVector"), "remove": ("deletionVector",), "metaData": ("configuration",)}


def unreadable(path: Path, what: str, hint: str) -> SparkhavenError:
    return UnsupportedVersionError(
        "the Delta table has a feature that is not read",
        where=path,
        expected=f"a table without reader features, or with some of {', '.join(sorted(READ_FEATURES))}",
        found=what,
        hint=hint,
    )


def damaged(path: Path, content: object) -> SparkhavenError:
    return CorruptFileError(
        "a file of the Delta log is damaged",
        where=path,
        expected="actions as Delta writes them",
        found=content,
        hint="restore it from a copy. Nothing was committed",
    )


@dataclass(frozen=True, slots=True)
class Listing:
    """Versions with a file of their own, and checkpoints that are complete: version -> names of their files."""

    versions: frozenset[int]
    checkpoints: Mapping[int, tuple[str, ...]]

    @property
    def latest(self) -> int | None:
        return max((*self.versions, *self.checkpoints), default=None)

    def first_after(self, version: int) -> int | None:
        """The first later version that has a file."""
        return min((later for later in self.versions if later > version), default=None)

    def files(self, version: int) -> tuple[list[str], range]:
        """What says what a table is at a version: the newest checkpoint before it, and the versions after that."""
        base = max((number for number in self.checkpoints if number <= version), default=-1)
        return list(self.checkpoints.get(base, ())), range(base + 1, version + 1)


def list_log(fs: Fs, table: Path) -> Listing:
    versions: set[int] = set()
    parts: dict[tuple[int, int], list[str]] = {}
    complete: dict[int, tuple[str, ...]] = {}
    for name in sorted(fs.names(table / LOG)):
        if match := _VERSION.match(name):
            versions.add(int(match[1]))
        elif match := _CHECKPOINT.match(name):
            parts.setdefault((int(match[1]), int(match[3] or 1)), []).append(name)
        elif match := _CHECKPOINT_2.match(name):
            complete[int(match[1])] = (name,)
    complete |= {version: tuple(names) for (version, count), names in parts.items() if len(names) == count}
    return Listing(frozenset(versions), complete)


def is_table(fs: Fs, table: Path) -> bool:
    """Whether a directory has a Delta table: at least one version was committed."""
    return list_log(fs, table).latest is not None


def version_file(table: Path, version: int) -> Path:
    return table / LOG / f"{version:020d}.json"


def data_path(table: Path, text: str) -> str:
    """Where a data file is: a path in the table, or a URI, both with percent signs for special characters."""
    scheme = _SCHEME.match(text)
    if scheme is None:
        return str(table / unquote(text))
    if scheme[1] != "file":
        raise unreadable(
            table, f"a data file at {text}", "mount the disk of the file, and write its path into the table"
        )
    return file_of_url(text)


def require_readable(table: Path, protocol: Body) -> None:
    """UnsupportedVersionError for a table whose reader rules are not supported."""
    reader = protocol["minReaderVersion"]
    unknown = sorted(set(map(str, protocol.get("readerFeatures") or ())) - READ_FEATURES)
    if unknown or reader > 3:
        what = f"reader feature {', '.join(unknown)}" if unknown else f"reader version {reader}"
        raise unreadable(table, what, "ALTER TABLE ... DROP FEATURE, or let another job copy the rows into a table")


def read_json(path: Path, data: bytes, kinds: Sequence[str] = ()) -> Iterator[Action]:
    """The actions of a file of JSON lines; ``kinds``: only these, other lines are only looked at.

    CorruptFileError: a line is no action, or there is none.
    """
    marks = [f'"{kind}"'.encode() for kind in kinds]
    if not data.strip():
        raise damaged(path, "no action")
    for number, line in enumerate(data.split(b"\n"), 1):
        whole = line.startswith(b"{") and line.endswith(b"}")
        if not line.strip() or (whole and marks and not any(mark in line for mark in marks)):
            continue
        try:
            for kind, body in json.loads(line).items():
                if not kinds or kind in kinds:
                    yield kind, _checked(kind, body)
        except (ValueError, TypeError, AttributeError, RecursionError) as error:
            raise damaged(path, f"line {number}: {error or type(error).__name__}") from error


def read_parquet(path: Path, data: bytes, wanted: Mapping[str, Sequence[str]]) -> Iterator[Action]:
    """The actions of a file of Parquet, each kind with its ``wanted`` fields. CorruptFileError: it is damaged."""
    import pyarrow.parquet as pq  # most tables have no checkpoint yet

    try:
        file = pq.ParquetFile(pa.BufferReader(data))
        columns = []
        for kind, names in wanted.items():
            if kind in file.schema_arrow.names:
                stored = file.schema_arrow.field(kind).type
                there = {stored.field(number).name for number in range(stored.num_fields)}
                columns += [f"{kind}.{name}" for name in names if name in there]
        for batch in file.iter_batches(batch_size=BATCH_ROWS, columns=columns, use_threads=False) if columns else ():
            for kind, column in zip(batch.schema.names, batch.columns, strict=True):
                for body in column.filter(column.is_valid()).to_pylist(maps_as_pydicts="lossy"):
                    if any(value is not None for value in body.values()):
                        yield kind, _checked(kind, _without_nulls(body, column.type))
    except (pa.ArrowException, ValueError, TypeError, AttributeError, NotImplementedError, OSError) as error:
        raise damaged(path, str(error).partition("\n")[0] or type(error).__name__) from error


def _checked(kind: str, body: object) -> Body:
    """The body of an action. TypeError or ValueError: it lacks something, or has it otherwise."""
    if kind not in _NEEDED:
        return body if isinstance(body, dict) else {}
    if not isinstance(body, dict):
        raise TypeError(f"{kind} is no object")
    for name, kind_of in _NEEDED[kind].items():
        if not isinstance(body.get(name), kind_of):
            raise TypeError(f"{kind} without {name}" if name not in body else f"{kind}.{name}: {body[name]!r}")
    for name in _OBJECTS.get(kind, ()):
        if not isinstance(body.get(name, {}), dict | None):
            raise TypeError(f"{kind}.{name}: {body[name]!r}")
    return body


def _without_nulls(body: Body, kind: pa.StructType) -> dict[str, Any]:
    """The body as the JSON log has it: what is null is left out, except of maps."""
    plain: dict[str, Any] = {}
    for name, value in body.items():
        if value is not None and pa.types.is_struct(kind.field(name).type):
            plain[name] = _without_nulls(value, kind.field(name).type)
        elif value is not None:
            plain[name] = value
    return plain
