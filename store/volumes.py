"""Checks that the volumes of storage partitions are mounted."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from sparkhaven.store.errors import RetryableStorageError, replaced
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, LocationKey
from sparkhaven.store.merges.merge_records import MergeRecord, all_values, newest
from sparkhaven.store.places import TablePlace
from sparkhaven.store.schema.deployed.deploy import deployed_tables


def absent_volume(fs: Fs, partition: Path) -> RetryableStorageError | None:
    """The error for a storage partition whose volume is not mounted, else None.

    ``partition`` is its entry in ``Partitions``, which for another volume is a link. Without the volume the link is
    broken, or leads to an empty directory on the file system of the root: the one that it is mounted over. A directory
    that is no link lies on the volume of the root. It is empty where its dates were removed by hand.
    """
    entry = fs.stat(partition, follow=False)
    if entry is None or not entry.is_link:
        return None
    target = fs.resolve(partition)
    there, beside = fs.stat(target), fs.stat(partition.parent)
    if there is not None and (fs.names(target) or beside is None or there.device != beside.device):
        return None
    return RetryableStorageError(
        f"the volume of storage partition {partition.name} is not mounted",
        where=f"{partition} -> {target}",
        expected="the directory with the merged dates",
        found="a broken link" if there is None else "an empty directory on the volume of the root",
        hint="mount the volume and run it again. Nothing was lost or changed. If its dates were removed by hand, "
        "remove the link",
    )


def require_filled(fs: Fs, layout: Layout, namespace: str, names: Iterable[str]) -> None:
    """RetryableStorageError: one of these storage partitions is empty although it should have merged dates.

    Data written to such a mount point would be hidden once the volume is mounted. Merge records are read only if a
    partition is empty.
    """
    for name in names:
        partition = layout.partitions(namespace) / name
        if fs.stat(partition) is None:
            continue
        error = absent_volume(fs, partition)
        if error is not None and (missing := _named(fs, layout, namespace, name)):
            raise replaced(error, expected=f"the merged dates that records name, among them {missing}")


def _named(fs: Fs, layout: Layout, namespace: str, name: str) -> str | None:
    """A table and date whose newest merge has a location in a storage partition."""
    for table in deployed_tables(fs, layout):
        if table.namespace == namespace:
            place = TablePlace(fs, layout, table)
            for value in all_values(place):
                record = newest(place, value)
                if record is not None and any(output.internal == name for output in record.outputs):
                    return f"{value} of {table}"
    return None


def require_volume(fs: Fs, location: Path) -> None:
    """RetryableStorageError: a location of history is missing because its volume is not mounted."""
    if fs.stat(location) is None and (error := absent_volume(fs, location.parent.parent)) is not None:
        raise error


def require_named(place: TablePlace, key: LocationKey) -> None:
    """Requires the volume of a location if the date's newest merge has it; else a newer merge has replaced it."""
    record = newest(place, key.value)
    if record is not None and any(output.internal == key.internal for output in record.outputs):
        require_volume(place.fs, place.history_location(key))


def require_volumes(place: TablePlace, record: MergeRecord) -> None:
    """Requires the volume of every location of a merge record."""
    for output in record.outputs:
        require_volume(place.fs, place.history_location(LocationKey(output.internal, record.value)))
