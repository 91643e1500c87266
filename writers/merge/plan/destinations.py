"""Where the outputs of a merge go: the writable partitions, and the staging directory of each."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

from sparkhaven.store.errors import MergeError, TableNotFoundError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, TableName, check_partition
from sparkhaven.store.merges.merge_run import Destination
from sparkhaven.store.types.frozen import frozen
from sparkhaven.store.volumes import absent_volume


@frozen
class Volume:
    """An entry of ``WritablePartitions``: its name, the directory behind it, and where to stage for it."""

    name: str
    target: Path
    staging: Path


def volumes(fs: Fs, layout: Layout, namespace: str, order: Sequence[str]) -> list[Volume]:
    """The writable partitions in the given order, each checked: reachable by readers, staging on its file system."""
    return [_volume(fs, layout, namespace, name) for name in order]


def _volume(fs: Fs, layout: Layout, namespace: str, name: str) -> Volume:
    entry = layout.writable_partitions(namespace) / check_partition("writable partition", name)
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
