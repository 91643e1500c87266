"""Volumes of storage partitions: whether what lies behind ``Partitions/<name>`` is there, or only its place."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from store.errors import RetryableStorageError
from store.io.fs import Fs
from store.layout import Layout, LocationKey, TableName
from store.merges.records import MergeRecord, all_values, newest
from store.schema.deployed.deploy import deployed_tables


def absent_volume(fs: Fs, partition: Path) -> RetryableStorageError | None:
    """The error for a storage partition whose volume is not mounted; None if something is there.

    ``partition`` is its entry in ``Partitions`` or ``WritablePartitions``: a link that leads nowhere, or, for a mount
    point, a directory that is empty. Ask only where something should be in it.
    """
    entry = fs.stat(partition, follow=False)
    if entry is None or fs.names(partition):
        return None
    target = fs.resolve(partition)
    there = fs.stat(target) is not None
    shown = f"{partition} -> {target}" if entry.is_link else partition
    return RetryableStorageError(
        f"the volume of storage partition {partition.name} is not there",
        where=shown,
        expected="the directory with the merged dates",
        found="an empty directory" if there else "nothing behind the link",
        hint="mount the volume and run it again; nothing is lost or changed meanwhile",
    )


def require_filled(fs: Fs, layout: Layout, namespace: str, names: Iterable[str]) -> None:
    """Raises RetryableStorageError if one of these storage partitions is empty and merged dates should lie in it.

    Whoever wrote to such a mount point would hide the new data behind the volume once it is mounted again. Merge
    records are read only where a partition is empty.
    """
    for name in names:
        partition = layout.partitions(namespace) / name
        found = fs.stat(partition)
        if found is None or found.links > 2:  # subdirectories, where the file system counts them
            continue
        error = absent_volume(fs, partition)
        if error is not None and (missing := _named(fs, layout, namespace, name)):
            raise RetryableStorageError(
                error.what,
                where=error.where,
                expected=f"the merged dates that records name, among them {missing}",
                found=error.found,
                hint=error.hint,
            )


def _named(fs: Fs, layout: Layout, namespace: str, name: str) -> str | None:
    """A table and date whose newest merge has a location in a storage partition."""
    for table in deployed_tables(fs, layout):
        if table.namespace == namespace:
            for value in all_values(fs, layout, table):
                record = newest(fs, layout, table, value)
                if record is not None and any(output.internal == name for output in record.outputs):
                    return f"{value} of {table}"
    return None


def require_volume(fs: Fs, location: Path) -> None:
    """Raises RetryableStorageError if a location of history is missing because its volume is."""
    if fs.stat(location) is None and (error := absent_volume(fs, location.parent.parent)) is not None:
        raise error


def require_named(fs: Fs, layout: Layout, table: TableName, key: LocationKey) -> None:
    """The same where the newest merge of the date still has that location: else it has gone to another one's place."""
    record = newest(fs, layout, table, key.value)
    if record is not None and any(output.internal == key.internal for output in record.outputs):
        require_volume(fs, layout.history_location(table, key))


def require_volumes(fs: Fs, layout: Layout, table: TableName, record: MergeRecord) -> None:
    """The same for every location of a merge record."""
    for output in record.outputs:
        require_volume(fs, layout.history_location(table, LocationKey(output.internal, record.value)))
