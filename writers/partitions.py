"""Storage partitions of a namespace's history: readers see those in ``Partitions``, merges write to the writable ones.

``WritablePartitions`` holds relative links into ``Partitions``; removing a link stops new dates on a full volume and
changes nothing for readers. A storage partition on another volume is a directory there, linked from ``Partitions``.

The output of a merge goes to such a partition, by way of a staging directory on the same volume.

A roll moves the writable links of a namespace from full partitions to new ones. Only links in ``WritablePartitions``
go. Directories, and links in ``Partitions``, stay, so readers keep old and new partitions. The new partition comes
first and is checked as a merge checks it. A roll that is killed between any two steps leaves the old partition
writable, or both. The next one goes on with the new partition, which has no date yet.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from sparkhaven.store.errors import (
    InvalidNameError,
    MergeError,
    NotPermittedError,
    RetryableStorageError,
    SettingsError,
    TableExistsError,
    TableNotFoundError,
    counted,
)
from sparkhaven.store.expressions.formula.evaluation import sort_partitions
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import (
    INTERNAL_NAMESPACE,
    Layout,
    TableName,
    check_identifier,
    check_partition,
    without_generation,
)
from sparkhaven.store.merges.merge_run import Destination
from sparkhaven.store.schema.deployed.deploy import deployed_tables
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


@dataclass(frozen=True, slots=True)
class AddedPartition:
    """A storage partition that is there, or with a dry run would be. ``new``: it was not there before.

    ``new_namespace``: it is the first of its namespace, which has no tables yet.
    """

    directory: str
    new: bool
    free_bytes: int | None = None
    new_namespace: bool = False


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


def known_partitions(layout: Layout, namespace: str) -> list[Partition]:
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


def known_namespaces(layout: Layout) -> set[str]:
    """The namespaces that have tables, and that of the log tables, which every database may have."""
    return {INTERNAL_NAMESPACE, *(name.namespace for name in deployed_tables(Fs(), layout))}


def add_partition(
    fs: Fs, layout: Layout, namespace: str, name: str, *, volume: Path | None = None, dry_run: bool = False
) -> Partition:
    """Makes a storage partition that readers see and merges write to; ``volume`` is the directory to keep it in.

    ``dry_run``: only checks that it can be made.

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
    if dry_run:
        return Partition(name, str(fs.resolve(base / name) if seen else target), True, False, 0)
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


def make_partition(
    layout: Layout, namespace: str, name: str, volume: Path | None, *, dry_run: bool = False
) -> AddedPartition:
    """Makes a storage partition, if it is not there; raises what ``add_partition`` raises."""
    there = {partition.name for partition in list_partitions(Fs(), layout, namespace)}
    new, first = name not in there, not there and namespace not in known_namespaces(layout)
    partition = add_partition(Fs(), layout, namespace, name, volume=volume, dry_run=dry_run)
    return AddedPartition(partition.directory, new, None if dry_run else partition.free_bytes, first)


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


@dataclass(frozen=True, slots=True)
class RolledPartition:
    """A storage partition that merges no longer write to, and the one in its place.

    ``used``: share of its volume that is in use, from 0 to 1, as ``df`` shows it. ``directory``, ``free_bytes``: of the
    new one.
    """

    name: str
    used: float
    new: str
    directory: str
    free_bytes: int


def parse_share(text: str, where: str) -> float:
    """``90%`` as 0.9. SettingsError: no percentage between 0 and 100."""
    digits = text.strip().removesuffix("%").strip()
    if digits.isascii() and digits.isdecimal() and 0 < int(digits) < 100:
        return int(digits) / 100
    raise SettingsError("share of a volume is not a percentage", where=where, expected="like 90%", found=repr(text))


def roll_partitions(
    fs: Fs,
    layout: Layout,
    namespace: str,
    *,
    fuller_than: float | None = None,
    volume: Path | None = None,
    coming: int = 0,
    dry_run: bool = False,
) -> list[RolledPartition]:
    """Replaces writable partitions whose volume is fuller than a share, or without one all of them.

    ``volume``: the directory for the new ones; None: among the volumes of the other writable partitions and the root
    the one with most free bytes. ``coming``: bytes that are about to be written, which count as used, of each
    partition its share. Nothing is done where no partition is to be replaced.

    TableNotFoundError: the namespace has no partition. SettingsError: the volume cannot take them, or an entry is no
    link. RetryableStorageError: no volume is emptier, or one is not mounted. NotPermittedError: another owner.
    """
    check_identifier("namespace", namespace)
    base, writable = layout.partitions(namespace), layout.writable_partitions(namespace)
    if fs.stat(writable) is None:
        raise TableNotFoundError(
            f"namespace {namespace} has no storage partitions",
            where=writable,
            expected="a writable partition",
            found="none",
            hint=f"`sparkhaven partitions add {namespace} 0` makes one",
        )
    with ExitStack() as held:
        if not dry_run:
            lock = fs.lock(writable, wait=True)
            assert lock is not None  # noqa: S101  it waits
            held.enter_context(lock)
        roll = _Roll(fs, layout, namespace, fuller_than, coming)
        full = roll.full()
        if not full:
            return []
        target = roll.target(full, volume)
        full = [name for name in full if not roll.is_new(name, target)]
        if not full:
            return []
        roll.require_usable(target, full)
        rolled = []
        for name, new in zip(full, roll.new_names(target, full), strict=True):
            if not dry_run:
                with fs.during("roll-add"):
                    add_partition(fs, layout, namespace, new, volume=None if target == base else target)
                    volumes(fs, layout, namespace, [new])  # raises what a merge would
                with fs.during("roll-close"):
                    fs.unlink(writable / name)
                    fs.sync_dirs([writable])
            directory = target / new if target == base else target / namespace / new
            free = fs.free_bytes(_there(fs, target))
            rolled.append(RolledPartition(name, roll.used(name), new, str(directory), free))
        return rolled


class _Roll:
    def __init__(self, fs: Fs, layout: Layout, namespace: str, fuller_than: float | None, coming: int) -> None:
        self._fs, self._namespace, self._limit, self._coming = fs, namespace, fuller_than, coming
        self._base, self._writable = layout.partitions(namespace), layout.writable_partitions(namespace)
        self._names = writable_names(fs, layout, namespace)
        self._all = partition_names(fs, layout, namespace)

    def used(self, name: str) -> float:
        """The share of its volume that is in use. RetryableStorageError: the volume is not mounted."""
        partition = self._base / name
        if (stat := self._fs.stat(partition)) is None or not stat.is_dir:
            raise absent_volume(self._fs, partition) or RetryableStorageError(
                "the link of a writable partition is broken", where=partition, hint="mount its volume"
            )
        return self._fs.used_share(partition)

    def _used_then(self, path: Path, partitions: int) -> float:
        """The share of the volume of ``path`` in use once so many partitions there have their parts of what comes."""
        used = self._fs.used_share(path)
        if not self._coming or used >= 1:
            return used
        total = self._fs.free_bytes(path) / (1 - used)
        return used + self._coming * partitions / len(self._names) / max(total, 1)

    def _beside(self, name: str) -> int:
        """How many of the writable partitions lie on the volume of one."""
        devices = [stat and stat.device for stat in (self._fs.stat(self._base / other) for other in self._names)]
        return devices.count(devices[self._names.index(name)])

    def full(self) -> list[str]:
        """Names of the partitions to be replaced. SettingsError: merges write to a directory that is no link."""
        used = {name: self.used(name) for name in self._names}  # raises where a volume is not mounted
        if self._coming:
            used = {name: self._used_then(self._base / name, self._beside(name)) for name in self._names}
        full = [name for name, share in used.items() if self._limit is None or share > self._limit]
        for name in full:
            entry = self._writable / name
            stat = self._fs.stat(entry, follow=False)
            if stat is not None and not stat.is_link:
                raise SettingsError(
                    "a writable partition is a directory, which may have data",
                    where=entry,
                    expected=f"a link to ../{self._base.name}/{name}",
                    found="a directory",
                    hint=f"move it to {self._base / name} and put the link in its place",
                )
        return full

    def target(self, full: Sequence[str], volume: Path | None) -> Path:
        """Where the new ones go: a directory on a volume, or ``Partitions`` itself for the volume of the root."""
        if volume is not None:
            stat = self._fs.stat(volume)
            if stat is None or not stat.is_dir:
                raise SettingsError(
                    "volume does not exist", where=volume, expected="a directory", hint="mount it first"
                )
            return self._fs.resolve(volume)
        return max([self._base, *self._others(full)], key=self._fs.free_bytes)

    def _others(self, full: Sequence[str]) -> Iterator[Path]:
        """The directories on other volumes that partitions lie in which stay writable."""
        for name in self._names:
            directory = self._fs.resolve(self._base / name)
            if name not in full and directory.parent.name == self._namespace and self._fs.stat(directory) is not None:
                yield directory.parent.parent

    def is_new(self, name: str, target: Path) -> bool:
        """Whether a partition has no date yet, and is where the new ones go."""
        directory = self._fs.resolve(self._base / name)
        expected = target if target == self._base else target / self._namespace
        return directory.parent == self._fs.resolve(expected) and not self._fs.names(directory)

    def new_names(self, target: Path, full: Sequence[str]) -> list[str]:
        """Names for the new partitions: of those that a killed roll has made, then the numbers after all that exist."""
        numbers = [int(name) for name in self._all if name.isascii() and name.isdecimal()]
        last = str(max(numbers, default=-1))
        usable = [
            name
            for name in sort_partitions(self._all)
            if name not in full and (name in self._names or name == last) and self.is_new(name, target)
        ]
        later = [str(max(numbers, default=-1) + 1 + number) for number in range(len(full))]
        return [*usable, *later][: len(full)]

    def require_usable(self, target: Path, full: Sequence[str]) -> None:
        """SettingsError, RetryableStorageError, NotPermittedError: merges should not write there."""
        fs = self._fs
        require_owner(fs, self._base, target / self._namespace)
        hint = f"name an emptier volume: `sparkhaven partitions roll {self._namespace} --volume DIR`"
        share = self._used_then(target, len(full))
        if self._limit is not None and share > self._limit:
            raise RetryableStorageError(
                "no volume for new storage partitions is empty enough",
                where=target,
                expected=f"at most {self._limit:.0%} in use",
                found=f"{share:.1%} in use" + " with what comes" * bool(self._coming),
                hint=hint,
            )
        room = fs.free_bytes(target)
        for name in full:
            old = fs.resolve(self._base / name)
            stat, other = fs.stat(old), fs.stat(target)
            apart = stat is not None and other is not None and stat.device != other.device
            if apart and room <= fs.free_bytes(old):
                raise RetryableStorageError(
                    f"the volume has less free space than that of storage partition {name}",
                    where=target,
                    expected=f"more than {counted(fs.free_bytes(old), 'byte')} free",
                    found=f"{counted(room, 'byte')} free",
                    hint=hint,
                )


def _there(fs: Fs, path: Path) -> Path:
    while fs.stat(path) is None:
        path = path.parent
    return path
