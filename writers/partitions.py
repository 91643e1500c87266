"""Storage partitions of a namespace's history: readers see those in ``Partitions``, merges write to the writable ones.

``WritablePartitions`` holds relative links into ``Partitions``; removing a link stops new dates on a full volume and
changes nothing for readers. A storage partition on another volume is a directory there, linked from ``Partitions``.

The output of a merge goes to such a partition, by way of a staging directory on the same volume.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from sparkhaven.store.errors import (
    InvalidNameError,
    MergeError,
    NotPermittedError,
    SettingsError,
    TableExistsError,
    TableNotFoundError,
)
from sparkhaven.store.expressions.formula.evaluation import sort_partitions
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, TableName, check_identifier, check_partition, without_generation
from sparkhaven.store.merges.merge_run import Destination
from sparkhaven.store.volumes import absent_volume

DEFAULT_PARTITION = "0"


@dataclass(frozen=True, slots=True)
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


def partition_names(fs: Fs, layout: Layout, namespace: str) -> list[str]:
    """Names of the storage partitions that readers see, without the later generations that merges made."""
    names = fs.names(layout.partitions(check_identifier("namespace", namespace)))
    return [name for name in names if without_generation(name) == name]


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


@dataclass(frozen=True, slots=True)
class Volume:
    """An entry of ``WritablePartitions``: its name, the directory behind it, and where to stage for it."""

    name: str
    target: Path
    staging: Path


def volumes(fs: Fs, layout: Layout, namespace: str, order: Sequence[str]) -> list[Volume]:
    """The writable partitions in the given order, each checked: reachable by readers, staging on its file system."""
    writable = layout.writable_partitions(namespace)
    return [_volume(fs, layout, namespace, writable / check_partition("writable partition", name)) for name in order]


def chosen_volume(fs: Fs, layout: Layout, namespace: str, name: str) -> Volume:
    """A storage partition that a command names, whether merges write to it or not; checked in the same way.

    TableNotFoundError: the namespace has no partition of that name.
    """
    entry = layout.partitions(namespace) / check_partition("storage partition", name)
    if without_generation(name) != name or fs.stat(entry, follow=False) is None:
        names = [other for other in fs.names(entry.parent) if without_generation(other) == other]
        raise TableNotFoundError(
            f"namespace {namespace} has no storage partition {name}",
            where=entry,
            expected=", ".join(sort_partitions(names)) or "a storage partition",
            found=name,
            hint=f"`sparkhaven partitions add {namespace} {name} --volume DIR` makes one on another volume",
        )
    return _volume(fs, layout, namespace, entry)


def _volume(fs: Fs, layout: Layout, namespace: str, entry: Path) -> Volume:
    name = entry.name
    target, seen = fs.resolve(entry), fs.resolve(layout.partitions(namespace) / name)
    stat = fs.stat(target)
    if stat is None and (error := absent_volume(fs, layout.partitions(namespace) / name)) is not None:
        raise error
    if stat is None or not stat.is_dir:
        raise TableNotFoundError(
            "the link of a writable partition is broken",
            where=entry,
            expected="a directory",
            found=target,
            hint=f"mount the volume, or remove the link. `sparkhaven partitions add {namespace} {name}` makes both",
        )
    if target != seen:
        raise MergeError(
            "a writable partition is not the directory that readers see under this name",
            where=entry,
            expected=seen,
            found=target,
            hint=f"link {layout.partitions(namespace) / name} to the same directory",
            phase="plan",
        )
    inside = target.parent == fs.resolve(layout.partitions(namespace))
    base = layout.system(namespace) if inside else target.parent
    beside = fs.stat(base)
    if beside is None or beside.device != stat.device:
        raise MergeError(
            "no staging directory on the file system of the writable partition",
            where=base,
            expected=f"device {stat.device} as {target}",
            found="nothing" if beside is None else f"device {beside.device}",
            hint="make the storage partition a link to a directory below the volume's mount point",
            phase="plan",
        )
    return Volume(name, target, base)


def stage_root(volume: Volume, table: TableName, value: str, generation: int) -> Path:
    """Staging directory of one merge on one volume. Table and date are hashed, because the name may be too long."""
    digest = sha256(f"{table}/{value}".encode()).hexdigest()[:24]
    return volume.staging / f".stage-{digest}-{generation}"


def destination(volume: Volume, table: TableName, value: str, generation: int, mark: str) -> Destination:
    """Where one output goes. ``mark`` is empty for a date's first merge, else ``g`` or ``s`` (supplement)."""
    internal = f"{volume.name}.{mark}{generation}" if mark else volume.name
    target = volume.target.parent / internal if mark else volume.target
    return Destination(volume.name, internal, stage_root(volume, table, value, generation), target)


def require_owner(fs: Fs, *directories: Path) -> None:
    """NotPermittedError: one of these is not of the user of this process, whose merges could not remove it later."""
    user = fs.user()
    for path in directories:
        stat = fs.stat(path)
        if stat is not None and stat.owner != user:
            raise NotPermittedError(
                "directory of history belongs to another user",
                where=path,
                expected=f"user {user}, which runs this",
                found=f"user {stat.owner}",
                hint="run it as the user that merges, or change the owner",
            )
