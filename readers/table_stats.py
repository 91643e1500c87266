"""Statistics of tables: dates, internal partitions, rows, bytes, epochs, and waste on disk.

Numbers come from commit logs and merge records; only ``waste`` reads directories.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from sparkhaven.readers.arrow.opening import known_tables, open_table
from sparkhaven.readers.arrow.table import pinned_of
from sparkhaven.readers.checks.extended_tree import extended_use
from sparkhaven.readers.checks.symbol_tables import SymbolFile
from sparkhaven.store.epochs.files.published_size import physical_size
from sparkhaven.store.epochs.reading.stream_state import EpochEntry, list_epochs, load_stream
from sparkhaven.store.epochs.state.log_values import absent_in, add_count, ignored_in
from sparkhaven.store.errors import SparkhavenError
from sparkhaven.store.format.column.string_ends import WIDTH
from sparkhaven.store.format.parquet.trees import EXTENDED
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.io.walking import stats_below
from sparkhaven.store.layout import Layout, TableName, without_generation
from sparkhaven.store.places import StreamPlace, TablePlace
from sparkhaven.store.scan.slices import Slice
from sparkhaven.store.types.frozen import frozen
from sparkhaven.store.users.user_table import is_user_table, user_directories

RATE_MS = 60_000
DATA_SUFFIXES = (".dat", ".sym", ".sym.bytes", ".bytes", ".parquet")


@dataclass(slots=True)
class Total:
    rows: int = 0
    bytes: int = 0
    locations: int = 0

    def add(self, rows: int, size: int) -> None:
        self.rows += rows
        self.bytes += size
        self.locations += 1

    def to_json(self) -> dict[str, int]:
        return {"rows": self.rows, "bytes": self.bytes, "locations": self.locations}


def tables(fs: Fs, layout: Layout, names: Iterable[TableName] | None = None) -> list[dict[str, Any]]:
    """One object a table (default: all); a table that cannot be read has ``error`` instead of numbers."""
    summaries: list[dict[str, Any]] = []
    for name in known_tables(fs, layout) if names is None else names:
        try:
            table = pinned_of(open_table(layout.root, str(name), skip_set_aside=True, fs=fs))
            slices = table.plan().slices
        except (SparkhavenError, OSError) as error:
            summaries.append({"table": str(name), "error": str(error)})
            continue
        values = sorted({slice_.key.value for slice_ in slices if slice_.key.value})
        aside = [asdict(note) for note in table.set_aside]
        summaries.append(
            {
                "table": str(name),
                "rows": sum(slice_.count for slice_ in slices),
                "dates": len(values),
                "first": values[0] if values else None,
                "last": values[-1] if values else None,
                "epochs": table.epochs,
                **({"set_aside": aside} if aside else {}),
            }
        )
    return summaries


def table_stats(place: TablePlace, *, as_of: str | None = None) -> dict[str, Any]:
    """Statistics of one table, as a JSON object: of its newest snapshot, or of that at the time ``as_of``.

    ``rows`` counts each row once; ``tiers`` and ``dates`` also count each tier by itself. ``bytes``: committed data
    regions; ``waste``: bytes in the directories that no read of the newest snapshot needs, None with ``as_of``.
    ``extended``: the tree beside history, whose bytes are in neither; None without one.
    """
    table = pinned_of(open_table(place.layout.root, str(place.table), as_of=as_of, skip_set_aside=True, fs=place.fs))
    is_newest = as_of is None
    whole = table.plan().slices
    tiers = {tier: table.plan(tier=tier).slices for tier in ("intraday", "history")}
    dates: dict[str, dict[str, int]] = {}
    sources: dict[tuple[str, str], Total] = {}
    totals = {tier: Total() for tier in tiers}
    for tier, slices in tiers.items():
        for slice_ in slices:
            size = _bytes(slice_)
            totals[tier].add(slice_.count, size)
            sources.setdefault((tier, slice_.key.internal), Total()).add(slice_.count, size)
            date = dates.setdefault(slice_.key.value, {"rows": 0, "intraday": 0, "history": 0, "bytes": 0})
            date[tier] += slice_.count
            date["bytes"] += size
    for slice_ in whole:
        dates[slice_.key.value]["rows"] += slice_.count
    live = {slice_.directory: slice_ for slices in tiers.values() for slice_ in slices}
    wasted = (_waste(live.get(leaf), _sizes(place.fs, leaf)) for leaf in _directories(place))
    return {
        "table": table.name,
        "rows": sum(slice_.count for slice_ in whole),
        "bytes": sum(total.bytes for total in totals.values()),
        "waste": sum(wasted) if is_newest else None,
        "tiers": {tier: total.to_json() for tier, total in totals.items()},
        "extended": _extended(place, table.schema.extended),
        "set_aside": [asdict(note) for note in table.set_aside],
        "streams": [
            _stream(place.of_stream(stream), None if is_newest else epoch, table.schema.version)
            for stream, epoch in table.epochs.items()
        ],
        "dates": [{"date": value, **numbers} for value, numbers in sorted(dates.items()) if value],
        "sources": [
            {"tier": tier, "source": internal, **total.to_json()} for (tier, internal), total in sorted(sources.items())
        ],
    }


@dataclass(slots=True)
class Symbols:
    """Symbol tables of a column: entries and rows, summed over locations."""

    ids: int = 0
    rows: int = 0


@frozen
class DiskUse:
    """Bytes of all files and of those that are waste, by volume; symbol tables by column.

    ``growth``: the same by date, each date once. ``unlisted``: directories, and leaves of the tree, whose files
    were not looked at. ``files``: their number by volume, without those of unlisted directories. ``symbol_files``: the
    symbol tables themselves. ``short``: locations of which a committed file is missing or shorter than committed.
    """

    volumes: dict[str, tuple[int, int]]
    symbols: dict[str, Symbols]
    growth: dict[str, dict[str, Symbols]]
    unlisted: int = 0
    files: dict[str, int] = field(default_factory=dict)
    symbol_files: list[SymbolFile] = field(default_factory=list)
    short: frozenset[Path] = frozenset()


def disk_use(place: TablePlace, *, most: int | None = None, partly: bool = True) -> DiskUse:
    """The disk use of a table. A volume is ``intraday``, a storage partition with all of its generations, or
    ``extended``, the tree beside history.

    ``most``: lists only so many directories, those of the newest dates; the others count with their committed bytes,
    and a tree of more leaves with what its manifest says. Not ``partly``: of a table that has more, none is listed.
    """
    table = pinned_of(open_table(place.layout.root, str(place.table), skip_set_aside=True, fs=place.fs))
    live = {slice_.directory: slice_ for tier in ("intraday", "history") for slice_ in table.plan(tier=tier).slices}
    volumes: dict[str, tuple[int, int]] = {"intraday": (0, 0)}
    directories = sorted(_directories(place), key=lambda path: path.parts[-2], reverse=True)
    files: Counter[str] = Counter()
    short = live.keys() - directories
    listed = len(directories) if most is None else most
    if not partly and listed < len(directories):
        listed = most = 0
    intraday = place.intraday.parts
    for number, directory in enumerate(directories):
        *above, internal, _, _ = directory.parts
        volume = "intraday" if tuple(above) == intraday else without_generation(internal)
        used, wasted = volumes.get(volume, (0, 0))
        if number < listed:
            sizes, slice_ = _sizes(place.fs, directory), live.get(directory)
            used, files[volume] = used + sum(sizes.values()), files[volume] + len(sizes)
            wasted += _waste(slice_, sizes)
            if slice_ is not None and any(
                sizes.get(name, 0) < physical_size(name, state.size) for name, state in slice_.files.items()
            ):
                short.add(directory)
        else:
            used += _bytes(live[directory]) if directory in live else 0
        volumes[volume] = used, wasted
    unlisted = max(0, len(directories) - listed)
    if (tree := extended_use(place, most=most)) is not None:
        files["extended"], volumes["extended"] = tree.files, (tree.bytes, tree.waste)
        unlisted += tree.unlisted
    symbol_files = _symbol_files(live.values())
    return DiskUse(volumes, *_symbols(live.values()), unlisted, dict(files), symbol_files, frozenset(short))


def _extended(place: TablePlace, kind: str | None) -> dict[str, Any] | None:
    tree = extended_use(place)
    if tree is None:
        return None
    return {"layout": EXTENDED.get(kind or ""), "files": tree.files, "bytes": tree.bytes, "waste": tree.waste}


def _symbol_files(slices: Iterable[Slice]) -> list[SymbolFile]:
    return [
        SymbolFile(slice_.directory / file, state.size, texts.size)
        for slice_ in slices
        for file, state in slice_.files.items()
        if file.endswith(".sym") and (texts := slice_.files.get(f"{file}.bytes")) is not None
    ]


def _symbols(slices: Iterable[Slice]) -> tuple[dict[str, Symbols], dict[str, dict[str, Symbols]]]:
    """Symbol tables by column; and by column and date, those of history where a date has such."""
    symbols: dict[str, Symbols] = {}
    growth: dict[str, dict[str, dict[str, Symbols]]] = {}
    for slice_ in slices:
        for file, state in slice_.files.items():
            if file.endswith(".sym"):
                column = file.removesuffix(".sym")
                tiers = growth.setdefault(column, {}).setdefault(slice_.key.value, {})
                for counts in (symbols.setdefault(column, Symbols()), tiers.setdefault(slice_.tier, Symbols())):
                    counts.ids += state.size // WIDTH
                    counts.rows += slice_.rows
    of_dates = {
        column: {date: tiers.get("history") or tiers["intraday"] for date, tiers in dates.items()}
        for column, dates in growth.items()
    }
    return symbols, of_dates


def _bytes(slice_: Slice) -> int:
    return sum(state.size for state in slice_.files.values())


def _stream(place: StreamPlace, epoch: int | None = None, deployed: int = 0) -> dict[str, Any]:
    state = load_stream(place, epoch=epoch)
    positions, late = state.offsets.positions(), state.offsets.unsettled
    epochs = [entry for entry in list_epochs(place) if entry.epoch <= state.epoch]
    ignored: dict[str, int] = {}
    for entry in epochs:
        for name, rows in (entry.counts if entry.live else {}).items():
            add_count(ignored, name, rows)
    parts = (place.stream_log, place.stream_checkpoint, place.stream_removals)
    return {
        "stream": place.stream,
        "epoch": state.epoch,
        "floor": state.floor,
        "generation": state.generation,
        "durability": state.durability,
        "locations": len(state.locations),
        "rememberedFiles": len(state.files),
        "positions": positions,
        **(
            {"schemaBehind": {"writes": state.schema_version, "deployed": deployed}}
            if 0 < state.schema_version < deployed
            else {}
        ),
        **({"positionsUnknown": {"rowsUpTo": late.stop, "knownUpTo": late.last_start}} if late else {}),
        "rates": _rates(epochs, positions) if positions else {},
        "ignored": ignored_in(ignored),
        "absent": absent_in(ignored),
        "logBytes": sum(_size(place.fs, part) for part in parts),
    }


def _rates(epochs: Sequence[EpochEntry], partitions: Iterable[str]) -> dict[str, float]:
    """Offsets per second of these topic partitions in the minute before the newest epoch, which needs two epochs."""
    live = [entry for entry in epochs if entry.live and entry.kind == "commit"]
    last = [entry for entry in live if entry.time_ms >= live[-1].time_ms - RATE_MS]
    passed = (last[-1].time_ms - last[0].time_ms) / 1000 if last else 0.0
    if not passed:
        return {}
    taken: Counter[str] = Counter()
    for entry in last[1:]:
        for part in entry.ranges:
            taken[f"{part.topic}/{part.partition}"] += part.messages
    return {partition: round(taken[partition] / passed, 3) for partition in partitions if "/" in partition}


def _size(fs: Fs, path: Path) -> int:
    stat = fs.stat(path)
    return stat.size if stat and not stat.is_dir else 0


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


def _sizes(fs: Fs, directory: Path) -> dict[str, int]:
    return {name: stat.size for name, stat in stats_below(fs, directory)}


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
