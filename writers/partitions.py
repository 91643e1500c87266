"""Storage partitions of a namespace's history: readers see those in ``Partitions``, merges write to the writable ones.

``WritablePartitions`` holds relative links into ``Partitions``; removing a link stops new dates on a full volume and
changes nothing for readers. A storage partition on another volume is a directory there, linked from ``Partitions``.
"""

from __future__ import annotations

from pathlib import Path

from sparkhaven.store.errors import InvalidNameError, SettingsError, TableExistsError, TableNotFoundError
from sparkhaven.store.expressions.formula.evaluation import sort_partitions
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, check_identifier, check_partition, without_generation
from sparkhaven.store.types.frozen import frozen

DEFAULT_PARTITION = "0"


@frozen
class Partition:
    """One storage partition: its data directory, whether a merge may write there, free bytes of its volume."""

    name: str
    directory: str
    writable: bool
    dangling: bool
    free_bytes: int


def writable_names(fs: Fs, layout: Layout, namespace: str) -> list[str]:
    """Names in ``WritablePartitions`` in formula order."""
    return sort_partitions(fs.names(layout.writable_partitions(check_identifier("namespace", namespace))))


def list_partitions(fs: Fs, layout: Layout, namespace: str) -> list[Partition]:
    """Every storage partition of a namespace, in formula order."""
    base, writable = layout.partitions(namespace), set(writable_names(fs, layout, namespace))
    partitions = []
    for name in sort_partitions([*{*fs.names(base), *writable}]):
        path = base / name if fs.stat(base / name, follow=False) else layout.writable_partitions(namespace) / name
        target = fs.resolve(path)
        stat = fs.stat(target)
        free = fs.free_bytes(target) if stat else 0
        partitions.append(Partition(name, str(target), name in writable, stat is None, free))
    return partitions


def add_partition(fs: Fs, layout: Layout, namespace: str, name: str, *, volume: Path | None = None) -> Partition:
    """Makes a storage partition that readers see and merges write to; ``volume`` is the directory to keep it in.

    Idempotent. SettingsError: a name like those of later generations (``.g2``, ``.s2``), or the partition exists
    elsewhere. InvalidNameError: the name cannot be a directory.
    """
    check_identifier("namespace", namespace)
    check_partition("storage partition", name)
    if without_generation(name) != name:
        raise InvalidNameError(
            "storage partition name is reserved for merges",
            expected="no ending like .g2 or .s2",
            found=repr(name),
            hint="choose another name. Re-merges and supplements of partition 0 are called 0.g2, 0.s3, ...",
        )
    base, writable = layout.partitions(namespace), layout.writable_partitions(namespace)
    target = (volume.resolve() / namespace / name) if volume is not None else base / name
    if volume is not None and fs.stat(volume) is None:
        raise SettingsError("volume does not exist", where=volume, expected="a directory", hint="mount it first")
    seen = fs.stat(base / name, follow=False)
    if seen is not None:
        kept_in = fs.resolve(base / name)
        if volume is not None and kept_in != fs.resolve(target):
            raise TableExistsError(
                "storage partition exists in another place",
                where=base / name,
                expected=target,
                found=kept_in,
                hint="choose another name. A link does not move data",
            )
        if fs.stat(kept_in) is None:
            raise TableNotFoundError(
                "the link of a storage partition is broken", where=base / name, found=kept_in, hint="mount its volume"
            )
    fs.keep_dirs(base, layout.root)
    fs.keep_dirs(writable, layout.root)
    fs.keep_dirs(fs.resolve(target), volume.resolve() if volume is not None else fs.resolve(base))
    if seen is None and volume is not None:
        fs.symlink(str(target), base / name)
    if fs.stat(writable / name, follow=False) is None:
        fs.symlink(f"../{base.name}/{name}", writable / name)
    fs.sync_dirs([base, writable])
    resolved = fs.resolve(base / name)
    return Partition(name, str(resolved), True, False, fs.free_bytes(resolved))


def ensure_writable(fs: Fs, layout: Layout, namespace: str) -> list[str]:
    """Names of the writable partitions in formula order; creates the default one if there is none."""
    names = writable_names(fs, layout, namespace)
    if not names:
        add_partition(fs, layout, namespace, DEFAULT_PARTITION)
        names = [DEFAULT_PARTITION]
    return names
