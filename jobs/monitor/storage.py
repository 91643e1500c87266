"""Where a table's bytes are: its committed locations, and by volume all files, waste, and free space.

A volume is ``intraday``, a storage partition with all of its generations, or ``extended``, the tree beside history.
Committed bytes come from commit logs and merge records; only waste needs directories to be listed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from sparkhaven.store.epochs.files.published_size import physical_size
from sparkhaven.store.epochs.reading.stream_state import newest_states
from sparkhaven.store.io.fs import Fs, stats_below
from sparkhaven.store.layout import without_generation
from sparkhaven.store.places import TablePlace
from sparkhaven.store.scan.ranges import Snapshot, make_plan
from sparkhaven.store.scan.slices import Slice
from sparkhaven.store.schema.deployed.deploy import load_deployed
from sparkhaven.store.user_tables import is_user_table, user_directories

if TYPE_CHECKING:
    from sparkhaven.readers.arrow.pinned_table import PinnedTable
    from sparkhaven.readers.checks.extended_tree import TreeUse

INTRADAY, EXTENDED = "intraday", "extended"
TIERS: tuple[Literal["intraday", "history"], ...] = ("intraday", "history")
DATA_SUFFIXES = (".dat", ".sym", ".sym.bytes", ".bytes", ".parquet")


@dataclass(frozen=True, slots=True)
class VolumeUse:
    """What lies on a volume: bytes of all files, of those that no read needs, and the number of files."""

    bytes: int = 0
    waste: int = 0
    files: int = 0

    def __add__(self, other: VolumeUse) -> VolumeUse:
        return VolumeUse(self.bytes + other.bytes, self.waste + other.waste, self.files + other.files)


@dataclass(frozen=True, slots=True)
class DiskUse:
    """The disk use of a table by volume, and its ``locations``: each tier by itself.

    ``unlisted``: directories, and leaves of the tree, whose files were not looked at; they count with their committed
    bytes, and no files. ``short``: locations of which a committed file is missing or shorter than committed. ``tree``:
    the one beside history, if there is one.
    """

    volumes: Mapping[str, VolumeUse]
    locations: tuple[Slice, ...] = ()
    unlisted: int = 0
    short: frozenset[Path] = frozenset()
    tree: TreeUse | None = None

    @property
    def waste(self) -> int:
        """Waste of intraday data and history, without that of the tree beside it."""
        return sum(use.waste for volume, use in self.volumes.items() if volume != EXTENDED)


def committed_bytes(location: Slice) -> int:
    """Bytes of the committed data regions of a location."""
    return sum(state.size for state in location.files.values())


def volume_of(location: Slice) -> str:
    return INTRADAY if location.tier == INTRADAY else without_generation(location.key.internal)


def committed_locations(place: TablePlace) -> list[Slice]:
    """Every committed location of a table of streams at its newest epochs, each tier by itself."""
    snapshot = Snapshot(place.table, load_deployed(place), tuple(newest_states(place)))
    return [location for tier in TIERS for location in make_plan(place, snapshot, tier=tier).slices]


def pinned_locations(place: TablePlace, table: PinnedTable | None = None) -> list[Slice]:
    """Every location of a table of any kind, by its newest snapshot or that of a ``table`` just pinned."""
    # the log of a small merge of a large table needs neither
    from sparkhaven.readers.arrow.opening import open_place
    from sparkhaven.readers.arrow.snapshot import pinned_of

    pinned = table or pinned_of(open_place(place, skip_set_aside=True))
    return [location for tier in TIERS for location in pinned.plan(tier=tier).slices]


def committed_use(locations: Iterable[Slice]) -> dict[str, VolumeUse]:
    """Committed bytes and files of locations by volume."""
    volumes: dict[str, VolumeUse] = {}
    for location in locations:
        use = VolumeUse(committed_bytes(location), 0, len(location.files))
        volumes[volume_of(location)] = volumes.get(volume_of(location), VolumeUse()) + use
    return volumes


def disk_use(
    place: TablePlace, *, most: int | None = None, partly: bool = True, table: PinnedTable | None = None
) -> DiskUse:
    """The disk use of a table of any kind, by its newest snapshot, or that of a ``table`` that was just pinned.

    ``most``: lists only so many directories, those of the newest dates; the others count with their committed bytes,
    and a tree of more leaves with what its manifest says. Not ``partly``: of a table that has more, none is listed.
    """
    from sparkhaven.readers.checks.extended_tree import extended_use

    live = {location.directory: location for location in pinned_locations(place, table)}
    directories = sorted(_directories(place), key=lambda path: path.parts[-2], reverse=True)
    listed = len(directories) if most is None else most
    if not partly and listed < len(directories):
        listed = most = 0
    volumes = {INTRADAY: VolumeUse()}
    short = live.keys() - directories
    for number, directory in enumerate(directories):
        location = live.get(directory)
        if number < listed:
            sizes = {name: stat.size for name, stat in stats_below(place.fs, directory)}
            use = VolumeUse(sum(sizes.values()), _waste(location, sizes), len(sizes))
            if location is not None and _is_short(location, sizes):
                short.add(directory)
        else:
            use = VolumeUse(0 if location is None else committed_bytes(location))
        volume = _volume_at(place, directory)
        volumes[volume] = volumes.get(volume, VolumeUse()) + use
    unlisted = max(0, len(directories) - listed)
    if (tree := extended_use(place, most=most)) is not None:
        volumes[EXTENDED] = VolumeUse(tree.bytes, tree.waste, tree.files)
        unlisted += tree.unlisted
    return DiskUse(volumes, tuple(live.values()), unlisted, frozenset(short), tree)


def _directories(place: TablePlace) -> Iterator[Path]:
    """Every directory of intraday data and history that holds, or once held, rows of the table."""
    root = place.intraday
    for internal in place.fs.names(root):
        if not internal.startswith("."):
            yield from (root.joinpath(internal, value, place.table.table) for value in place.fs.names(root / internal))
    if is_user_table(place):
        yield from user_directories(place)
    root = place.partitions
    for internal in place.fs.names(root):
        for value in place.fs.names(root / internal):
            if place.fs.stat(root / internal / value / place.table.table) is not None:
                yield root / internal / value / place.table.table


def _volume_at(place: TablePlace, directory: Path) -> str:
    *above, internal, _, _ = directory.parts
    return INTRADAY if tuple(above) == place.intraday.parts else without_generation(internal)


def _is_short(location: Slice, sizes: Mapping[str, int]) -> bool:
    return any(sizes.get(name, 0) < physical_size(name, state.size) for name, state in location.files.items())


def _waste(live: Slice | None, sizes: Mapping[str, int]) -> int:
    """Bytes of files that no read of the newest snapshot needs: tails, stray files, replaced locations."""
    if live is None:
        return sum(sizes.values())
    wasted = 0
    for name, size in sizes.items():
        if "/" in name:
            continue
        if name in live.files:
            wasted += max(0, size - physical_size(name, live.files[name].size))
        elif name.endswith(DATA_SUFFIXES) or ".tmp-" in name:
            wasted += size
    return wasted


def free_bytes(place: TablePlace) -> dict[str, float]:
    """Free bytes by volume, of which ``intraday`` has the root; NaN where one is away."""
    paths = {INTRADAY: place.layout.root}
    paths |= {without_generation(name): place.partitions / name for name in place.fs.names(place.partitions)}
    return {volume: _free(place.fs, path) for volume, path in paths.items()}


def _free(fs: Fs, path: Path) -> float:
    try:
        return fs.free_bytes(path)
    except OSError:
        return math.nan


def by_date(locations: Sequence[Slice]) -> dict[str, list[Slice]]:
    """Locations by date, in its order."""
    dates: dict[str, list[Slice]] = {}
    for location in sorted(locations, key=lambda location: location.key.value):
        dates.setdefault(location.key.value, []).append(location)
    return dates
