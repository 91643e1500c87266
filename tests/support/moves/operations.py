"""Ordinary file operations on history, and what each leaves: rows, remarks and exit codes, written out by hand."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pyarrow as pa

from sparkhaven.store.layout import TableName
from sparkhaven.writers.partitions import add_partition
from tests.support.commands import run
from tests.support.writers.import_cases import small, write
from tests.support.writers.merge_runs import FS

TABLE, DAY, NEXT, OTHER = "NS.T", "2024-03-05", "2024-03-06", "2024-03-07"
BOTH = [1, 2, 3, 4, 5]
NAME = TableName.parse(TABLE)


@dataclass(frozen=True)
class Spot:
    """Where an operation is done: below ``root``, at a storage partition and date of a table, at a column of it.

    ``other``: a directory for another root. ``free``: a storage partition that has nothing of the table, ``free_day`` a
    date of which nothing has anything.
    """

    root: Path
    other: Path = Path("other")
    table: TableName = NAME
    day: str = DAY
    internal: str = "0"
    column: str = "X"
    free: str = "1"
    free_day: str = OTHER

    @property
    def namespace(self) -> Path:
        return self.root / "Systems" / self.table.namespace

    @property
    def partition(self) -> Path:
        """The directory of the storage partition."""
        return self.namespace / "Partitions" / self.internal

    @property
    def freed(self) -> Path:
        """The directory of the storage partition that is free."""
        return self.partition.with_name(self.free)

    @property
    def link(self) -> Path:
        """By which merges find the storage partition."""
        return self.namespace / "WritablePartitions" / self.internal

    @property
    def date(self) -> Path:
        return self.partition / self.day

    @property
    def location(self) -> Path:
        return self.date / self.table.table

    @property
    def locations(self) -> list[Path]:
        """Those of all dates of the storage partition."""
        return sorted(self.partition.glob(f"*/{self.table.table}"))

    @property
    def file(self) -> Path:
        """The column file."""
        return self.location / f"{self.column}.dat"

    def elsewhere(self, path: Path) -> Path:
        """The same path below the other root."""
        return self.other / path.relative_to(self.root)

    def in_free(self, path: Path) -> Path:
        """The same path in the storage partition that is free."""
        return self.freed / path.relative_to(self.partition)


Effect = Literal[
    "same", "moved", "doubled", "copied", "renamed", "removed", "damaged", "whole", "copy", "copy with nulls", "others"
]
"""What becomes of the locations: they stand as before, elsewhere, twice, also under the free date, under that alone, no
more, or cannot be read. What the other root has: all that this one had, the locations alone, or these without a column.
``others``: none of these.
"""


@dataclass(frozen=True)
class Operation:
    """One row of the table. ``do`` gets where it is done and returns the root to look at.

    ``rows``: values of column X, None: there is no such table. ``told``: what a read says on standard error, empty:
    nothing. Exit codes: ``read``, ``verify``, and ``validate`` of `metadata` before anything is updated; ``update`` of
    `metadata update`; ``verify_updated`` after it; ``adopt`` of `dates adopt --accept-loss`.
    """

    object: str
    operation: str
    do: Callable[[Spot], Path]
    effect: Effect
    rows: list[int | None] | None
    told: str = ""
    read: int = 0
    verify: int = 0
    validate: int = 0
    update: int = 0
    verify_updated: int = 0
    adopt: int = 0

    @property
    def name(self) -> str:
        return f"{self.object}, {self.operation}"


def database(base: Path, *partitions: str) -> Path:
    """Two dates of three and two rows in storage partition 0, or in one of these, and no streams."""
    root = base / "db"
    layout = small(root)
    for partition in partitions or ("0",):
        add_partition(FS, layout, "NS", partition)
    tree = base / "tree"
    write(tree / f"Date={DAY}" / "part.parquet", pa.array([1, 2, 3], pa.int32()), ["a", "b", "c"])
    write(tree / f"Date={NEXT}" / "part.parquet", pa.array([4, 5], pa.int32()), ["a", "b"])
    done = run(root, "import", TABLE, "--from", tree)
    assert done.exit_code == 0, done.output
    return root


def _with_schema(spot: Spot) -> Path:
    shutil.copytree(spot.root / "Schemas", spot.other / "Schemas")
    return spot.other


def copied_database(spot: Spot) -> Path:
    shutil.copytree(spot.root, spot.other, symlinks=True)
    return spot.other


def moved_database(spot: Spot) -> Path:
    spot.root.rename(spot.other)
    return spot.other


def removed_database(spot: Spot) -> Path:
    shutil.rmtree(spot.root)
    return spot.root


def copied_namespace(spot: Spot) -> Path:
    shutil.copytree(spot.namespace, spot.elsewhere(spot.namespace), symlinks=True)
    return _with_schema(spot)


def moved_namespace(spot: Spot) -> Path:
    spot.elsewhere(spot.namespace).parent.mkdir(parents=True)
    spot.namespace.rename(spot.elsewhere(spot.namespace))
    return _with_schema(spot)


def removed_namespace(spot: Spot) -> Path:
    shutil.rmtree(spot.namespace)
    return spot.root


def copied_partition(spot: Spot) -> Path:
    shutil.copytree(spot.partition, spot.freed)
    return spot.root


def copied_partition_to_other_root(spot: Spot) -> Path:
    shutil.copytree(spot.partition, spot.elsewhere(spot.partition))
    return _with_schema(spot)


def moved_partition(spot: Spot) -> Path:
    spot.partition.rename(spot.freed)
    spot.link.unlink(missing_ok=True)
    return spot.root


def moved_partition_with_link(spot: Spot) -> Path:
    spot.partition.rename(spot.freed)
    spot.partition.symlink_to(spot.free)
    return spot.root


def removed_partition(spot: Spot) -> Path:
    shutil.rmtree(spot.partition)
    spot.link.unlink(missing_ok=True)
    return spot.root


def emptied_partition(spot: Spot) -> Path:
    for date in spot.partition.iterdir():
        shutil.rmtree(date)
    return spot.root


def copied_date(spot: Spot) -> Path:
    shutil.copytree(spot.date, spot.partition / spot.free_day)
    return spot.root


def copied_date_to_other_root(spot: Spot) -> Path:
    copied_date_without_schema(spot)
    return _with_schema(spot)


def copied_date_without_schema(spot: Spot) -> Path:
    shutil.copytree(spot.date, spot.elsewhere(spot.date))
    return spot.other


def moved_date(spot: Spot) -> Path:
    spot.freed.mkdir(exist_ok=True)
    spot.date.rename(spot.in_free(spot.date))
    return spot.root


def moved_date_and_back(spot: Spot) -> Path:
    moved_date(spot)
    adopted = run(spot.root, "dates", "adopt", str(spot.table), "--dates", spot.day)
    assert adopted.exit_code == 0, adopted.output
    spot.in_free(spot.date).rename(spot.date)
    return spot.root


def renamed_date(spot: Spot) -> Path:
    spot.date.rename(spot.partition / spot.free_day)
    return spot.root


def removed_date(spot: Spot) -> Path:
    shutil.rmtree(spot.date)
    return spot.root


def copied_table_to_other_root(spot: Spot) -> Path:
    for location in spot.locations:
        shutil.copytree(location, spot.elsewhere(location))
    return _with_schema(spot)


def moved_table(spot: Spot) -> Path:
    for location in spot.locations:
        spot.in_free(location).parent.mkdir(parents=True, exist_ok=True)
        location.rename(spot.in_free(location))
    return spot.root


def removed_table(spot: Spot) -> Path:
    for location in spot.locations:
        shutil.rmtree(location)
    return spot.root


def copied_location(spot: Spot) -> Path:
    shutil.copytree(spot.location, spot.in_free(spot.location))
    return spot.root


def moved_location(spot: Spot) -> Path:
    spot.in_free(spot.date).mkdir(parents=True, exist_ok=True)
    spot.location.rename(spot.in_free(spot.location))
    return spot.root


def removed_location(spot: Spot) -> Path:
    shutil.rmtree(spot.location)
    return spot.root


def copied_column(spot: Spot) -> Path:
    shutil.copy(spot.file, spot.location / "Other.dat")
    return spot.root


def moved_column(spot: Spot) -> Path:
    spot.file.rename(spot.location / "Other.dat")
    return spot.root


def removed_column(spot: Spot) -> Path:
    spot.file.unlink()
    return spot.root


def removed_column_of_a_copy(spot: Spot) -> Path:
    copied_date_to_other_root(spot)
    spot.elsewhere(spot.file).unlink()
    return spot.other


UNVOUCHED, GONE = "no merge record vouches for", "were removed by hand"
DAMAGED = {"rows": None, "read": 1, "verify": 1, "verify_updated": 1}

OPERATIONS = (
    Operation("database", "copied", copied_database, "whole", BOTH),
    Operation("database", "moved", moved_database, "whole", BOTH),
    Operation("database", "removed", removed_database, "others", None, "no such database root", read=2, verify=2,
              validate=2, update=2, adopt=2, verify_updated=2),
    Operation("namespace", "copied to another root", copied_namespace, "copy", BOTH),
    Operation("namespace", "moved to another root", moved_namespace, "others", BOTH),
    Operation("namespace", "removed", removed_namespace, "others", []),
    Operation("storage partition", "copied", copied_partition, "doubled", [1, 1, 2, 2, 3, 3, 4, 4, 5, 5], UNVOUCHED,
              verify=1, validate=1),
    Operation("storage partition", "copied to another root", copied_partition_to_other_root, "copy", BOTH, UNVOUCHED,
              validate=1),
    Operation("storage partition", "moved", moved_partition, "moved", BOTH, verify=1, validate=1),
    Operation("storage partition", "moved, a link in its place", moved_partition_with_link, "same", BOTH),
    Operation("storage partition", "removed", removed_partition, "removed", [], GONE, verify=1, validate=1, update=1,
              verify_updated=1),
    Operation("storage partition", "emptied date by date", emptied_partition, "removed", [], GONE, verify=1, validate=1,
              update=1, verify_updated=1),
    Operation("date", "copied", copied_date, "copied", [1, 1, 2, 2, 3, 3, 4, 5], UNVOUCHED, verify=1,
              validate=1),
    Operation("date", "copied to another root", copied_date_to_other_root, "copy", [1, 2, 3], UNVOUCHED, validate=1),
    Operation("date", "copied without its schema", copied_date_without_schema, "others", None, "schema deploy", read=2,
              verify=2, validate=1, verify_updated=2, adopt=2),
    Operation("date", "moved", moved_date, "moved", BOTH, verify=1, validate=1),
    Operation("date", "moved, adopted and moved back", moved_date_and_back, "moved", BOTH, verify=1,
              validate=1),
    Operation("date", "renamed", renamed_date, "renamed", BOTH, f"{UNVOUCHED}|{GONE}", verify=1, validate=1, update=1,
              verify_updated=1),
    Operation("date", "removed", removed_date, "removed", [4, 5], GONE, verify=1, validate=1, update=1,
              verify_updated=1),
    Operation("table", "copied to another root", copied_table_to_other_root, "copy", BOTH, UNVOUCHED, validate=1),
    Operation("table", "moved", moved_table, "moved", BOTH, verify=1, validate=1),
    Operation("table", "removed", removed_table, "removed", [], GONE, verify=1, validate=1, update=1,
              verify_updated=1),
    Operation("location", "copied", copied_location, "doubled", [1, 1, 2, 2, 3, 3, 4, 5], UNVOUCHED, verify=1,
              validate=1),
    Operation("location", "moved", moved_location, "moved", BOTH, verify=1, validate=1),
    Operation("location", "removed", removed_location, "removed", [4, 5], GONE, verify=1, validate=1, update=1,
              verify_updated=1),
    Operation("column", "copied", copied_column, "same", BOTH),
    Operation("column", "moved", moved_column, "damaged", None, "X.dat", read=1, verify=1, verify_updated=1),
    Operation("column", "removed", removed_column, "damaged", None, "X.dat", read=1, verify=1, verify_updated=1),
    Operation("column", "removed from a copy", removed_column_of_a_copy, "copy with nulls", [None, None, None],
              f"{UNVOUCHED}|X of 0/", validate=1, update=1),
)  # fmt: skip
