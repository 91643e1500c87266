"""File systems of the root and of the storage partitions: durability and free space."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sparkhaven.jobs.monitor.doctor.finding import CheckContext, Found
from sparkhaven.jobs.monitor.texts import named
from sparkhaven.store.epochs.reading.stream_state import list_streams
from sparkhaven.store.io.read_only_roots import is_writable
from sparkhaven.store.places import TablePlace

MOUNTS = Path("/proc/self/mountinfo")
LITTLE, LEAST = 10 << 30, 1 << 30  # bytes
_OCTAL = re.compile(r"\\([0-7]{3})")
_NETWORK = "not guaranteed: other hosts may see commits late, and locks depend on the server"
LACKS = {
    "nfs": _NETWORK,
    "nfs4": _NETWORK,
    "cifs": _NETWORK,
    "smb3": _NETWORK,
    "9p": _NETWORK,
    "ceph": _NETWORK,
    "tmpfs": "not guaranteed: everything is lost when the machine stops",
    "ramfs": "not guaranteed: everything is lost when the machine stops",
    "overlay": "not guaranteed: syncs depend on the layers below, and everything is lost with the container",
}
TESTED = ("ext4", "xfs")


@dataclass(frozen=True, slots=True)
class Mount:
    """One line of ``/proc/self/mountinfo``."""

    place: str
    kind: str
    options: frozenset[str]


def mount_of(text: str, path: Path) -> Mount | None:
    """The mount of a resolved path; of several on one directory the last counts."""
    mount: Mount | None = None
    above = {str(path), *map(str, path.parents)}
    for line in text.splitlines():
        front, _, back = line.partition(" - ")
        fields, kind = front.split(" "), back.split(" ")
        if len(fields) < 6 or len(kind) < 3:
            continue
        mount_point = _OCTAL.sub(lambda match: chr(int(match[1], 8)), fields[4])
        if mount_point in above and (mount is None or len(mount_point) >= len(mount.place)):
            mount = Mount(mount_point, kind[0], frozenset([*fields[5].split(","), *kind[2].split(",")]))
    return mount


def guarantees(mount: Mount) -> Found:
    """Whether commits on a mount survive a power failure, as a finding."""
    where = f"{mount.place} is {mount.kind}"
    if mount.options & {"nobarrier", "barrier=0"}:
        return "wrong", f"{where} without write barriers. A power failure may lose committed rows", (
            "mount it without nobarrier"
        )  # fmt: skip
    if "ro" in mount.options:
        return "note", f"{where}, mounted read-only. Readers work, streams and merges do not", None
    if mount.kind in TESTED:
        return "ok", f"{where}: synced files and renames survive a power failure", None
    move = "keep the root on ext4 or xfs of one host"
    lack = LACKS.get(mount.kind) or (LACKS["nfs"] if mount.kind.startswith("fuse") else None)
    return "note", f"{where}: {lack or 'not tested with power failures'}", move if lack else None


def directories(context: CheckContext) -> dict[Path, list[str]]:
    """Resolved directories of the database, and what they hold: the root, and storage partitions."""
    fs, layout = context.fs, context.layout
    contents = {_nearest(context, layout.root): ["root"]}
    for namespace in fs.names(layout.root / "Systems"):
        for name in fs.names(layout.partitions(namespace)):
            path = layout.partitions(namespace) / name
            if fs.stat(path) is not None:
                contents.setdefault(_nearest(context, path), []).append(f"storage partition {namespace}/{name}")
    return contents


def file_systems(context: CheckContext) -> Iterator[Found]:
    """Each mount once; a storage partition whose link is broken is wrong."""
    fs, layout = context.fs, context.layout
    mounts = fs.read(MOUNTS).decode("utf-8", "replace")
    reported = set()
    for path in directories(context):
        mount = mount_of(mounts, path)
        if mount is not None and mount not in reported:
            reported.add(mount)
            yield guarantees(mount)
    for namespace in fs.names(layout.root / "Systems"):
        for name in fs.names(layout.partitions(namespace)):
            path = layout.partitions(namespace) / name
            if fs.stat(path) is None:
                text = f"the link of storage partition {path} is broken"
                yield "wrong", text, "mount its volume, or correct the link"


def free_space(context: CheckContext) -> Iterator[Found]:
    contents: dict[int, list[str]] = {}
    sizes: dict[int, tuple[Path, int]] = {}
    for path, parts in directories(context).items():
        stat = context.fs.stat(path)
        if stat is not None:
            contents.setdefault(stat.device, []).extend(parts)
            sizes[stat.device] = path, context.fs.free_bytes(path)
    for device, (path, free) in sizes.items():
        text = f"{free / (1 << 30):,.1f} GiB free at {path} ({named(contents[device])})"
        if free < LITTLE:
            hint = f"free space there. `{context.command('stats')}` reports waste"
            yield ("wrong" if free < LEAST else "note"), text, hint
        else:
            yield "ok", text, None


def permissions(context: CheckContext) -> Iterator[Found]:
    """Whether this user may write where commands write: the root, logs of streams, storage partitions."""
    fs, layout = context.fs, context.layout
    if not is_writable(layout.root):
        yield "note", f"{layout.root} is a copy, or is mounted read-only. Readers work, streams and merges do not", None
        return
    paths = [*directories(context), layout.schemas()]
    for table in context.tables:
        streams = layout.streams(table)
        paths += [streams, *(layout.stream_log(table, name) for name in list_streams(TablePlace(fs, layout, table)))]
    refused = [path for path in dict.fromkeys(paths) if fs.stat(path) is not None and not fs.may_write(path)]
    if refused:
        text = (
            f"user {os.geteuid()} may not write {named(refused)}. Commands that change something end with exit code 2"
        )
        yield "wrong", text, f"run them as the owner of {refused[0]}, or change its owner or permissions"
    else:
        yield "ok", f"user {os.geteuid()} may write all that commands write", None


def _nearest(context: CheckContext, path: Path) -> Path:
    path = context.fs.resolve(path)
    return next((candidate for candidate in (path, *path.parents) if context.fs.stat(candidate) is not None), Path("/"))
