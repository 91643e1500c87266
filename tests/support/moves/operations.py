"""Ordinary file operations on history, and what each leaves: rows, remarks and exit codes, written out by hand."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from sparkhaven.writers.partitions import add_partition
from tests.support.commands import run
from tests.support.writers.import_cases import small, write
from tests.support.writers.merge_runs import FS

TABLE, DAY, NEXT, OTHER = "NS.T", "2024-03-05", "2024-03-06", "2024-03-07"
BOTH = [1, 2, 3, 4, 5]


@dataclass(frozen=True)
class Operation:
    """One row of the table. ``do`` gets the root of the database and another directory; it returns the root to look at.

    ``rows``: values of column X, None: there is no such table. ``told``: what a read says on standard error, empty:
    nothing. Exit codes: ``read``, ``verify``, and ``validate`` of `metadata` before anything is updated; ``update`` of
    `metadata update`; ``verify_updated`` after it; ``adopt`` of `dates adopt --accept-loss`.
    """

    object: str
    operation: str
    do: Callable[[Path, Path], Path]
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


def database(base: Path) -> Path:
    """Two dates of three and two rows in storage partition 0, and another table beside it; no streams."""
    root = base / "db"
    layout = small(root)
    add_partition(FS, layout, "NS", "0")
    tree = base / "tree"
    write(tree / f"Date={DAY}" / "part.parquet", pa.array([1, 2, 3], pa.int32()), ["a", "b", "c"])
    write(tree / f"Date={NEXT}" / "part.parquet", pa.array([4, 5], pa.int32()), ["a", "b"])
    done = run(root, "import", TABLE, "--from", tree)
    assert done.exit_code == 0, done.output
    return root


def partitions(root: Path) -> Path:
    return root / "Systems" / "NS" / "Partitions"


def location(root: Path, day: str = DAY, internal: str = "0") -> Path:
    return partitions(root) / internal / day / "T"


def _with_schema(root: Path, other: Path) -> None:
    shutil.copytree(root / "Schemas", other / "Schemas")


def copied_database(root: Path, other: Path) -> Path:
    shutil.copytree(root, other, symlinks=True)
    return other


def moved_database(root: Path, other: Path) -> Path:
    root.rename(other)
    return other


def removed_database(root: Path, other: Path) -> Path:
    shutil.rmtree(root)
    return root


def copied_namespace(root: Path, other: Path) -> Path:
    shutil.copytree(root / "Systems" / "NS", other / "Systems" / "NS", symlinks=True)
    _with_schema(root, other)
    return other


def moved_namespace(root: Path, other: Path) -> Path:
    (other / "Systems").mkdir(parents=True)
    (root / "Systems" / "NS").rename(other / "Systems" / "NS")
    _with_schema(root, other)
    return other


def removed_namespace(root: Path, other: Path) -> Path:
    shutil.rmtree(root / "Systems" / "NS")
    return root


def copied_partition(root: Path, other: Path) -> Path:
    shutil.copytree(partitions(root) / "0", partitions(root) / "1")
    return root


def copied_partition_to_other_root(root: Path, other: Path) -> Path:
    shutil.copytree(partitions(root) / "0", partitions(other) / "0")
    _with_schema(root, other)
    return other


def moved_partition(root: Path, other: Path) -> Path:
    (partitions(root) / "0").rename(partitions(root) / "1")
    (partitions(root).with_name("WritablePartitions") / "0").unlink()
    return root


def moved_partition_with_link(root: Path, other: Path) -> Path:
    (partitions(root) / "0").rename(partitions(root) / "1")
    (partitions(root) / "0").symlink_to("1")
    return root


def removed_partition(root: Path, other: Path) -> Path:
    shutil.rmtree(partitions(root) / "0")
    (partitions(root).with_name("WritablePartitions") / "0").unlink()
    return root


def emptied_partition(root: Path, other: Path) -> Path:
    for day in (DAY, NEXT):
        shutil.rmtree(partitions(root) / "0" / day)
    return root


def copied_date(root: Path, other: Path) -> Path:
    shutil.copytree(partitions(root) / "0" / DAY, partitions(root) / "0" / OTHER)
    return root


def copied_date_to_other_root(root: Path, other: Path) -> Path:
    shutil.copytree(partitions(root) / "0" / DAY, partitions(other) / "0" / DAY)
    _with_schema(root, other)
    return other


def copied_date_without_schema(root: Path, other: Path) -> Path:
    shutil.copytree(partitions(root) / "0" / DAY, partitions(other) / "0" / DAY)
    return other


def moved_date(root: Path, other: Path) -> Path:
    (partitions(root) / "1").mkdir()
    (partitions(root) / "0" / DAY).rename(partitions(root) / "1" / DAY)
    return root


def moved_date_and_back(root: Path, other: Path) -> Path:
    moved_date(root, other)
    assert run(root, "dates", "adopt", TABLE).exit_code == 0
    (partitions(root) / "1" / DAY).rename(partitions(root) / "0" / DAY)
    return root


def renamed_date(root: Path, other: Path) -> Path:
    (partitions(root) / "0" / DAY).rename(partitions(root) / "0" / OTHER)
    return root


def removed_date(root: Path, other: Path) -> Path:
    shutil.rmtree(partitions(root) / "0" / DAY)
    return root


def copied_table_to_other_root(root: Path, other: Path) -> Path:
    for day in (DAY, NEXT):
        shutil.copytree(location(root, day), location(other, day))
    _with_schema(root, other)
    return other


def moved_table(root: Path, other: Path) -> Path:
    for day in (DAY, NEXT):
        location(root, day, "1").parent.mkdir(parents=True)
        location(root, day).rename(location(root, day, "1"))
    return root


def removed_table(root: Path, other: Path) -> Path:
    for day in (DAY, NEXT):
        shutil.rmtree(location(root, day))
    return root


def copied_location(root: Path, other: Path) -> Path:
    shutil.copytree(location(root), location(root, DAY, "1"))
    return root


def moved_location(root: Path, other: Path) -> Path:
    location(root, DAY, "1").parent.mkdir(parents=True)
    location(root).rename(location(root, DAY, "1"))
    return root


def removed_location(root: Path, other: Path) -> Path:
    shutil.rmtree(location(root))
    return root


def copied_column(root: Path, other: Path) -> Path:
    shutil.copy(location(root) / "X.dat", location(root) / "Y.dat")
    return root


def moved_column(root: Path, other: Path) -> Path:
    (location(root) / "X.dat").rename(location(root) / "Y.dat")
    return root


def removed_column(root: Path, other: Path) -> Path:
    (location(root) / "X.dat").unlink()
    return root


def removed_column_of_a_copy(root: Path, other: Path) -> Path:
    copied_date_to_other_root(root, other)
    (location(other) / "X.dat").unlink()
    return other


UNVOUCHED, GONE = "no merge record vouches for", "were removed by hand"
DAMAGED = {"rows": None, "read": 1, "verify": 1, "verify_updated": 1}

OPERATIONS = (
    Operation("database", "copied", copied_database, BOTH),
    Operation("database", "moved", moved_database, BOTH),
    Operation("database", "removed", removed_database, None, "no such database root", read=2, verify=2,
              validate=2, update=2, adopt=2, verify_updated=2),
    Operation("namespace", "copied to another root", copied_namespace, BOTH),
    Operation("namespace", "moved to another root", moved_namespace, BOTH),
    Operation("namespace", "removed", removed_namespace, []),
    Operation("storage partition", "copied", copied_partition, [1, 1, 2, 2, 3, 3, 4, 4, 5, 5], UNVOUCHED,
              verify=1, validate=1),
    Operation("storage partition", "copied to another root", copied_partition_to_other_root, BOTH, UNVOUCHED,
              validate=1),
    Operation("storage partition", "moved", moved_partition, BOTH, verify=1, validate=1),
    Operation("storage partition", "moved, a link in its place", moved_partition_with_link, BOTH),
    Operation("storage partition", "removed", removed_partition, [], GONE, verify=1, validate=1, update=1,
              verify_updated=1),
    Operation("storage partition", "emptied date by date", emptied_partition, [], GONE, verify=1, validate=1, update=1,
              verify_updated=1),
    Operation("date", "copied", copied_date, [1, 1, 2, 2, 3, 3, 4, 5], UNVOUCHED, verify=1, validate=1),
    Operation("date", "copied to another root", copied_date_to_other_root, [1, 2, 3], UNVOUCHED, validate=1),
    Operation("date", "copied without its schema", copied_date_without_schema, None, "schema deploy", read=2, verify=2,
              validate=1, verify_updated=2, adopt=2),
    Operation("date", "moved", moved_date, BOTH, verify=1, validate=1),
    Operation("date", "moved, adopted and moved back", moved_date_and_back, BOTH, verify=1, validate=1),
    Operation("date", "renamed", renamed_date, BOTH, f"{UNVOUCHED}|{GONE}", verify=1, validate=1, update=1,
              verify_updated=1),
    Operation("date", "removed", removed_date, [4, 5], GONE, verify=1, validate=1, update=1, verify_updated=1),
    Operation("table", "copied to another root", copied_table_to_other_root, BOTH, UNVOUCHED, validate=1),
    Operation("table", "moved", moved_table, BOTH, verify=1, validate=1),
    Operation("table", "removed", removed_table, [], GONE, verify=1, validate=1, update=1, verify_updated=1),
    Operation("location", "copied", copied_location, [1, 1, 2, 2, 3, 3, 4, 5], UNVOUCHED, verify=1, validate=1),
    Operation("location", "moved", moved_location, BOTH, verify=1, validate=1),
    Operation("location", "removed", removed_location, [4, 5], GONE, verify=1, validate=1, update=1, verify_updated=1),
    Operation("column", "copied", copied_column, BOTH),
    Operation("column", "moved", moved_column, None, "X.dat", read=1, verify=1, verify_updated=1),
    Operation("column", "removed", removed_column, None, "X.dat", read=1, verify=1, verify_updated=1),
    Operation("column", "removed from a copy", removed_column_of_a_copy, [None, None, None], f"{UNVOUCHED}|X of 0/",
              validate=1, update=1),
)  # fmt: skip
