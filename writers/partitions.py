"""Storage partitions of a namespace's history: what readers see in ``Partitions``, what a merge may fill.

``WritablePartitions`` holds relative links into ``Partitions``; taking a link away closes a full volume for new dates
and changes nothing for readers. A partition on another volume is a directory there, linked from ``Partitions``.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from store.errors import InvalidNameError, SettingsError, TableExistsError, TableNotFoundError
from store.io.fs import Fs
from store.layout import Layout, check_identifier, check_partition, without_generation
from store.schema.formula.evaluation import sort_partitions

DEFAULT_PARTITION = "0"


@dataclass(frozen=True, slots=True)
class Partition:
    """One storage partition: where its data lie, whether a merge may write there, free bytes of its volume."""

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
    found = []
    for name in sort_partitions([*{*fs.names(base), *writable}]):
        path = base / name if fs.stat(base / name, follow=False) else layout.writable_partitions(namespace) / name
        target = fs.resolve(path)
        stat = fs.stat(target)
        free = fs.free_bytes(target) if stat else 0
        found.append(Partition(name, str(target), name in writable, stat is None, free))
    return found


def add_partition(fs: Fs, layout: Layout, namespace: str, name: str, *, volume: Path | None = None) -> Partition:
    """Makes a storage partition that readers see and a merge may fill; ``volume`` is a directory to keep it in.

    Adding one that is there in the same place is no error. A name that is no path, or one that a merge made for a
    later generation (``.g2``, ``.s2``), is refused.
    """
    check_identifier("namespace", namespace)
    check_partition("storage partition", name)
    if without_generation(name) != name:
        raise InvalidNameError(
            "storage partition has a name that merges give",
            expected="no ending like .g2 or .s2",
            found=repr(name),
            hint="choose another name: re-merges and supplements of partition 0 are called 0.g2, 0.s3, ...",
        )
    base, writable = layout.partitions(namespace), layout.writable_partitions(namespace)
    target = (volume.resolve() / namespace / name) if volume is not None else base / name
    if volume is not None and fs.stat(volume) is None:
        raise SettingsError("volume is not there", where=volume, expected="a directory", hint="mount it first")
    seen = fs.stat(base / name, follow=False)
    if seen is not None:
        found = fs.resolve(base / name)
        if volume is not None and found != fs.resolve(target):
            raise TableExistsError(
                "partition exists in another place",
                where=base / name,
                expected=target,
                found=found,
                hint="choose another name; data do not move with a link",
            )
        if fs.stat(found) is None:
            raise TableNotFoundError(
                "partition points to nothing", where=base / name, found=found, hint="mount its volume"
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
    """Names of the writable partitions in formula order; makes the default one if there is none."""
    names = writable_names(fs, layout, namespace)
    if not names:
        add_partition(fs, layout, namespace, DEFAULT_PARTITION)
        names = [DEFAULT_PARTITION]
    return names
