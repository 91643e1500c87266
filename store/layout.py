"""Every path of the tree, built and parsed here and nowhere else; every name checked before it is a path."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from sparkhaven.store.errors import InvalidNameError, SettingsError

INTERNAL_NAMESPACE = "SparkhavenInternal"  # of the log tables
USER_INTRADAY = "SPARKHAVEN_USER_INTRADAY"  # the setting that names the directory of intraday data of user tables
MAX_NAME = 200  # bytes; leaves room for suffixes below the 255 of common file systems
PARQUET = "table.parquet"  # a location in Parquet format: its rows, and indexes beside them
SIDECARS = ".dh_metadata/indexes"
INDEX = "Index-"
ROW_SET, BEGIN, END = "dh_row_set", "dh_begin_pos", "dh_end_pos"  # columns of an index in Parquet format
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_STREAM = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*\Z")
_GENERATION = re.compile(r"(\.[gs][0-9]+)+\Z")
_OTHERS = ("Intraday", "Schemas", "Systems", "Users")  # directories below the root with other content
_FORBIDDEN = re.compile(r"[/\\\x00-\x1f\x7f-\x9f]")


def _refuse(kind: str, name: str, expected: str) -> InvalidNameError:
    return InvalidNameError(
        f"{kind} cannot become a path",
        expected=expected,
        found=repr(name),
        hint=f"choose another {kind}, or map the value before it reaches the table",
    )


def check_identifier(kind: str, name: str) -> str:
    """A namespace, table or column name: an ASCII identifier of at most 200 characters."""
    if not _IDENTIFIER.match(name) or len(name) > MAX_NAME:
        raise _refuse(kind, name, "a letter or _, then letters, digits, _ (at most 200)")
    return name


def check_stream(name: str) -> str:
    """A stream name: letters, digits, ``- _ .``, not starting with a dot or dash."""
    if not _STREAM.match(name) or len(name) > MAX_NAME:
        raise _refuse("stream name", name, "letters, digits, - _ . (at most 200, no leading dot or dash)")
    return name


def check_partition(kind: str, name: str) -> str:
    """An internal partition or partition value that becomes a directory name unchanged."""
    bad = not name or name in (".", "..") or name.startswith(".") or _FORBIDDEN.search(name)
    if bad or len(name.encode("utf-8", "surrogatepass")) > MAX_NAME:
        raise _refuse(kind, name, "1 to 200 bytes without separator, control character or leading dot")
    return name


def encode_internal(value: str) -> str:
    """A value from the data as internal partition name: letters, digits, ``. _ - =`` stay, the rest becomes %XX.

    A leading dot is encoded too. Empty and over-long values raise InvalidNameError.
    """
    try:
        name = quote(value, safe="=").replace("~", "%7E")  # quote leaves letters, digits, _ . - ~ alone
    except UnicodeEncodeError:
        raise _refuse("internal partition", value, "text without lone surrogates") from None
    if name.startswith("."):
        name = "%2E" + name[1:]
    return check_partition("internal partition", name)


def stream_of(path: Path) -> tuple[str, str]:
    """Table and stream, as commands take them, of the commit log or another file of a stream."""
    return ".".join(path.parts[-4:-2]), path.stem


def table_of(location: Path) -> str:
    """``NS.T`` of the directory of a location, intraday or in history."""
    return f"{location.parts[-5]}.{location.name}"


def staged(location: Path, save: int) -> Path:
    """Where a save of this number writes what becomes a location: beside it, below a hidden name."""
    return location.with_name(f".{location.name}.stage-{save}")


def replaced(location: Path, since: int) -> Path:
    """Where a location goes that was made by save ``since``, once another one has its place."""
    return location.with_name(f".{location.name}.old-{since}")


def saves_beside(location: Path, names: Iterable[str], kind: str) -> list[int]:
    """The numbers in names that ``staged`` (``stage``) or ``replaced`` (``old``) gave, ascending."""
    start = f".{location.name}.{kind}-"
    ends = (name.removeprefix(start) for name in names if name.startswith(start))
    return sorted(int(end) for end in ends if end.isascii() and end.isdecimal())


def without_generation(internal: str) -> str:
    """The storage partition that a merge has made a later generation (``0.g2``) or a supplement (``0.s3``) of.

    Also of one of several locations that were moved together (``0.g4.s1``).
    """
    return _GENERATION.sub("", internal)


@dataclass(frozen=True, slots=True, order=True)
class TableName:
    """Namespace and table, both identifiers."""

    namespace: str
    table: str

    @staticmethod
    def parse(text: str) -> TableName:
        """``NS.T``; anything else is an InvalidNameError."""
        namespace, dot, table = text.partition(".")
        if not dot:
            raise InvalidNameError(
                "table name has no namespace",
                expected="Namespace.Table",
                found=repr(text),
                hint="write it like Nyc13.Flight. `sparkhaven tables` lists what is there",
            )
        return TableName(check_identifier("namespace", namespace), check_identifier("table name", table))

    def __str__(self) -> str:
        return f"{self.namespace}.{self.table}"


class LocationKey(NamedTuple):
    """One location of a table in one tier: internal partition and value of the partitioning column.

    A tuple, since reads of many locations look each of them up several times.
    """

    internal: str
    value: str


def _stream_file(suffix: str) -> Callable[[Layout, TableName, str], Path]:
    """The path of a file of a stream, beside its commit log."""

    def path(layout: Layout, table: TableName, stream: str) -> Path:
        return layout.streams(table) / f"{stream}.{suffix}"

    return path


def chosen_user_intraday(asked: str | None, environ: Mapping[str, str]) -> str | None:
    """The directory of intraday data of user tables that a caller or the environment names; None: neither does.

    SettingsError: it cannot be one.
    """
    name = asked if asked is not None else environ.get(USER_INTRADAY) or None
    if name is not None and (not _STREAM.match(name) or name in _OTHERS):
        raise SettingsError(
            "this directory cannot have intraday data of user tables",
            where=USER_INTRADAY if asked is None else "userIntraday",
            expected=f"a name of letters, digits, - _ . other than {', '.join(_OTHERS)}",
            found=repr(name),
            hint="name a directory below the root of the database",
        )
    return name


@dataclass(frozen=True, slots=True)
class Layout:
    """All paths below one database root.

    ``user_intraday_name``: the directory of intraday data of user tables; None: there is none.
    """

    root: Path
    user_intraday_name: str | None = field(default_factory=lambda: chosen_user_intraday(None, os.environ))

    # --- definitions
    def schemas(self) -> Path:
        return self.root / "Schemas"

    def schema(self, table: TableName) -> Path:
        return self.schemas() / f"{table}.schema"

    def schema_history(self, table: TableName) -> Path:
        """Versions of a table's schema, with the column ids that were given."""
        return self.schemas() / f"{table}.history.json"

    # --- intraday
    def intraday(self, table: TableName) -> Path:
        return self.root.joinpath("Intraday", table.namespace, table.table)

    def intraday_location(self, table: TableName, key: LocationKey) -> Path:
        parts = "Intraday", table.namespace, table.table, key.internal, key.value, table.table
        return self.root.joinpath(*parts)  # in one step: a start makes ten thousands of them

    def intraday_path(self, table: TableName, key: LocationKey) -> str:
        """The directory of an intraday location as a text, in a tenth of the time."""
        root = str(self.root).rstrip("/")
        return f"{root}/Intraday/{table.namespace}/{table.table}/{key.internal}/{key.value}/{table.table}"

    def set_aside(self, table: TableName) -> Path:
        return self.intraday(table) / ".set-aside"

    def streams(self, table: TableName) -> Path:
        """Directory of commit logs, checkpoints and locks; plain files only."""
        return self.intraday(table) / ".streams"

    stream_log = _stream_file("log")
    stream_checkpoint = _stream_file("checkpoint")  # compacted state at the rollback floor
    stream_head = _stream_file("head")  # cached state at a recent epoch, safe to delete
    stream_lock = _stream_file("lock")
    stream_removals = _stream_file("removals")  # truncated and deleted locations, written by maintenance
    stream_quarantine = _stream_file("quarantine")  # ledger: its place, and changes of the log not applied to it yet
    stream_failure = _stream_file("failure")  # note of its last failure, until it succeeds again
    stream_removed = _stream_file("removed")  # note about a stream that was removed: the numbers that it had used

    # --- history
    def system(self, namespace: str) -> Path:
        return self.root / "Systems" / namespace

    def partitions(self, namespace: str) -> Path:
        """Where readers find the storage partitions of history."""
        return self.system(namespace) / "Partitions"

    def writable_partitions(self, namespace: str) -> Path:
        """Where a merge may write: links into ``Partitions``."""
        return self.system(namespace) / "WritablePartitions"

    def history_location(self, table: TableName, key: LocationKey) -> Path:
        parts = "Systems", table.namespace, "Partitions", key.internal, key.value, table.table
        return self.root.joinpath(*parts)

    def metadata_index(self, table: TableName) -> Path:
        """Location index (``.tlmi``) of a table's history."""
        return self.system(table.namespace) / "MetadataIndex" / f"{table.table}.tlmi"

    def extended(self, table: TableName) -> Path:
        """Tree of a table's history in the extended layout of its schema."""
        return self.system(table.namespace) / "Extended" / table.table

    def merges(self, table: TableName) -> Path:
        """Merge plans, records, proofs and tombstones of a table, one directory a date below it."""
        return self.system(table.namespace) / "MetadataIndex" / f".{table.table}.merges"

    # --- user tables
    def users(self) -> Path:
        return self.root / "Users"

    def user_definitions(self, namespace: str) -> Path:
        return self.users() / namespace / "Definitions"

    def user_definition(self, table: TableName) -> Path:
        return self.user_definitions(table.namespace) / f"{table.table}.tbl"

    def user_lock(self, table: TableName) -> Path:
        """The hidden lock file of a user table: never deleted, never replaced."""
        return self.user_definitions(table.namespace) / f".{table.table}-LOCKFILE"

    def user_locations(self, table: TableName) -> Path:
        """What is committed of a partitioned user table: its definition, locations and lengths."""
        return self.user_definitions(table.namespace) / f".{table.table}.locations"

    def user_first(self, table: TableName) -> Path:
        """An empty file while a user table is saved for the first time: until it has a definition, it has no rows."""
        return self.user_definitions(table.namespace) / f".{table.table}-FIRST"

    def splayed(self, table: TableName) -> Path:
        """The one location of a user table without partitions."""
        return self.users() / table.namespace / "Tables" / table.table

    def user_partitions(self, table: TableName) -> Path:
        return self.users() / table.namespace / "Partitions"

    def user_location(self, table: TableName, key: LocationKey) -> Path:
        return self.user_partitions(table) / key.internal / key.value / table.table

    def user_intraday(self, table: TableName) -> Path | None:
        """Intraday data of a user table, in the shape of ``intraday``; None where no directory is named."""
        name = self.user_intraday_name
        return None if name is None else self.root.joinpath(name, table.namespace, table.table)

    # --- beside the trees
    def restores(self) -> Path:
        """Tables that a restore has not moved into place yet, one directory each."""
        return self.root / ".restore"

    def all_drops(self) -> Path:
        """Records of tables that were dropped, a directory a table."""
        return self.root / ".dropped"

    def drops(self, table: TableName) -> Path:
        return self.all_drops() / str(table)

    def scrub(self) -> Path:
        """Where a scrub of the database is; a cache, safe to delete."""
        return self.root / ".scrub"

    def scratch(self, table: TableName, stream: str) -> Path:
        """Scratch files of running batches; removed at start."""
        return self.root / ".scratch" / str(table) / stream

    def spark_checkpoint(self, table: TableName, stream: str) -> Path:
        """Spark's own checkpoint of a stream: a cache, safe to delete."""
        return self.root / ".spark" / str(table) / stream

    def quarantine(self, stream: str) -> Path:
        """Default place of a stream's quarantine table."""
        return self.root / ".quarantine" / stream

    def requeues(self, table: TableName, stream: str) -> Path:
        """Files of requeued rows; empty except for an interrupted requeue."""
        return self.root / ".requeue" / str(table) / stream


def in_parquet(files: Collection[str]) -> bool:
    """Whether the rows of a location with these committed files are read from ``table.parquet``.

    Where column files lie beside it, they are read, and ``table.parquet`` is for others.
    """
    return PARQUET in files and not any(name.endswith(".dat") for name in files)


def sidecar_of(columns: tuple[str, ...]) -> str:
    """Path of the index over some columns that Deephaven's Parquet reader takes."""
    name = ",".join(columns)
    return f"{SIDECARS}/{name}/index_{name}_{PARQUET}"


def index_of(columns: tuple[str, ...]) -> str:
    return INDEX + ",".join(columns)
