"""Storage partitions of a namespace: listed, and made."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sparkhaven.store.errors import TableNotFoundError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import INTERNAL_NAMESPACE, Layout
from sparkhaven.store.schema.deployed.deploy import deployed_tables
from sparkhaven.writers.partitions import Partition, add_partition, list_partitions


@dataclass(frozen=True, slots=True)
class AddedPartition:
    """A storage partition that is there, or with a dry run would be. ``new``: it was not there before.

    ``new_namespace``: it is the first of its namespace, which has no tables yet.
    """

    directory: str
    new: bool
    free_bytes: int | None = None
    new_namespace: bool = False


def partitions(layout: Layout, namespace: str) -> list[Partition]:
    """The storage partitions of a namespace, none of one with tables only; TableNotFoundError: there is neither."""
    listed = list_partitions(Fs(), layout, namespace)
    if not listed and not any(name.namespace == namespace for name in deployed_tables(Fs(), layout)):
        raise TableNotFoundError(
            f"no namespace {namespace}",
            where=layout.partitions(namespace),
            expected="a namespace with tables or storage partitions",
            hint=f"`sparkhaven tables` lists the tables. `sparkhaven partitions add {namespace} 0` creates a partition",
        )
    return listed


def namespaces(layout: Layout) -> set[str]:
    """The namespaces that have tables, and that of the log tables, which every database may have."""
    return {INTERNAL_NAMESPACE, *(name.namespace for name in deployed_tables(Fs(), layout))}


def add(layout: Layout, namespace: str, name: str, volume: Path | None, *, dry_run: bool = False) -> AddedPartition:
    """Makes a storage partition, if it is not there; raises what ``add_partition`` raises."""
    there = {partition.name for partition in list_partitions(Fs(), layout, namespace)}
    new, first = name not in there, not there and namespace not in namespaces(layout)
    partition = add_partition(Fs(), layout, namespace, name, volume=volume, dry_run=dry_run)
    return AddedPartition(partition.directory, new, None if dry_run else partition.free_bytes, first)
