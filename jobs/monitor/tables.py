"""The tables of a database, and of one its rows, bytes and streams by tier, date and internal partition.

``rows`` counts each row once; tiers and dates also count each tier by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from sparkhaven.jobs.monitor.storage import TIERS, committed_bytes, disk_use
from sparkhaven.jobs.monitor.streams import StreamFacts, read_stream
from sparkhaven.readers.arrow.opening import known_tables, open_place
from sparkhaven.readers.arrow.snapshot import pinned_of
from sparkhaven.readers.checks.extended_tree import TreeUse, extended_use
from sparkhaven.store.epochs.recovery.set_aside import SetAside
from sparkhaven.store.errors import SparkhavenError
from sparkhaven.store.format.parquet.trees import EXTENDED
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, TableName
from sparkhaven.store.places import TablePlace


@dataclass(frozen=True, slots=True)
class TableSummary:
    """A table in one line; of one that cannot be read only ``error`` says something."""

    table: str
    rows: int = 0
    dates: tuple[str, ...] = ()
    epochs: Mapping[str, int] = field(default_factory=dict)
    set_aside: tuple[SetAside, ...] = ()
    error: str | None = None

    def to_json(self) -> dict[str, object]:
        if self.error is not None:
            return {"table": self.table, "error": self.error}
        first, last = (self.dates[0], self.dates[-1]) if self.dates else (None, None)
        ends = {"dates": len(self.dates), "first": first, "last": last}
        aside = {"set_aside": [asdict(note) for note in self.set_aside]} if self.set_aside else {}
        return {"table": self.table, "rows": self.rows, **ends, "epochs": dict(self.epochs), **aside}


def list_tables(fs: Fs, layout: Layout, names: Iterable[TableName] | None = None) -> list[TableSummary]:
    """Every table, or those that are named."""
    return [_summary(TablePlace(fs, layout, name)) for name in (known_tables(fs, layout) if names is None else names)]


def _summary(place: TablePlace) -> TableSummary:
    try:
        table = pinned_of(open_place(place, skip_set_aside=True))
        locations = table.plan().slices
    except (SparkhavenError, OSError) as error:
        return TableSummary(str(place.table), error=str(error))
    dates = tuple(sorted({location.key.value for location in locations if location.key.value}))
    rows = sum(location.count for location in locations)
    return TableSummary(str(place.table), rows, dates, table.epochs, tuple(table.set_aside))


@dataclass(frozen=True, slots=True)
class Amount:
    """Rows and bytes of some locations."""

    rows: int = 0
    bytes: int = 0
    locations: int = 0

    def plus(self, rows: int, size: int) -> Amount:
        return Amount(self.rows + rows, self.bytes + size, self.locations + 1)


@dataclass(frozen=True, slots=True)
class DateAmount:
    """Rows of one date, each once, and those of each tier; ``bytes`` of both."""

    rows: int = 0
    intraday: int = 0
    history: int = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class TableFigures:
    """The figures of a table at a snapshot.

    ``sources``: by tier and internal partition. ``waste``: bytes in the directories that no read of the newest snapshot
    needs; None of an older one. ``tree``: the one beside history, of this ``layout``, whose bytes are in neither.
    """

    table: str
    tiers: Mapping[str, Amount]
    dates: Mapping[str, DateAmount]
    sources: Mapping[tuple[str, str], Amount]
    streams: tuple[StreamFacts, ...]
    set_aside: tuple[SetAside, ...]
    waste: int | None
    tree: TreeUse | None
    layout: str | None
    schema_version: int

    @property
    def rows(self) -> int:
        return sum(amount.rows for amount in self.dates.values())

    @property
    def bytes(self) -> int:
        return sum(amount.bytes for amount in self.tiers.values())

    def to_json(self) -> dict[str, Any]:
        """What ``stats --json`` prints."""
        return {
            "table": self.table,
            "rows": self.rows,
            "bytes": self.bytes,
            "waste": self.waste,
            "tiers": {tier: asdict(amount) for tier, amount in self.tiers.items()},
            "extended": self.tree and self._tree_json(self.tree),
            "set_aside": [asdict(note) for note in self.set_aside],
            "streams": [stream_json(stream, self.schema_version) for stream in self.streams],
            "dates": [{"date": date, **asdict(amount)} for date, amount in sorted(self.dates.items()) if date],
            "sources": [
                {"tier": tier, "source": source, **asdict(amount)}
                for (tier, source), amount in sorted(self.sources.items())
            ],
        }

    def _tree_json(self, tree: TreeUse) -> dict[str, object]:
        return {"layout": self.layout, "files": tree.files, "bytes": tree.bytes, "waste": tree.waste}


def table_figures(place: TablePlace, *, as_of: str | None = None) -> TableFigures:
    """The figures of one table, of its newest snapshot, or of that at the time ``as_of``."""
    table = pinned_of(open_place(place, as_of=as_of, skip_set_aside=True))
    tiers: dict[str, Amount] = dict.fromkeys(TIERS, Amount())
    dates: dict[str, DateAmount] = {}
    sources: dict[tuple[str, str], Amount] = {}
    rows_once: dict[str, int] = {}
    for location in table.plan().slices:
        rows_once[location.key.value] = rows_once.get(location.key.value, 0) + location.count
    for tier in TIERS:
        for location in table.plan(tier=tier).slices:
            rows, size = location.count, committed_bytes(location)
            (value, internal) = location.key.value, location.key.internal
            tiers[tier] = tiers[tier].plus(rows, size)
            sources[tier, internal] = sources.get((tier, internal), Amount()).plus(rows, size)
            before = dates.get(value) or DateAmount(rows_once.get(value, 0))
            in_tier = {tier: getattr(before, tier) + rows}
            dates[value] = replace(before, **in_tier, bytes=before.bytes + size)
    use = disk_use(place, table=table) if as_of is None else None
    streams = (
        read_stream(place.of_stream(stream), epoch=None if as_of is None else epoch)
        for stream, epoch in table.epochs.items()
    )
    return TableFigures(
        table.name,
        tiers,
        dates,
        sources,
        tuple(streams),
        tuple(table.set_aside),
        None if use is None else use.waste,
        extended_use(place) if use is None else use.tree,
        EXTENDED.get(table.schema.extended or ""),
        table.schema.version,
    )


def stream_json(stream: StreamFacts, deployed: int) -> dict[str, object]:
    """A stream as ``stats --json`` prints it; ``deployed``: the version of the deployed schema."""
    behind = {"writes": stream.schema_version, "deployed": deployed}
    return {
        "stream": stream.stream,
        "epoch": stream.epoch,
        "floor": stream.floor,
        "generation": stream.generation,
        "durability": stream.durability,
        "locations": stream.locations,
        "rememberedFiles": stream.files,
        "positions": dict(stream.positions),
        **({"schemaBehind": behind} if 0 < stream.schema_version < deployed else {}),
        **(
            {"positionsUnknown": {"rowsUpTo": stream.unsettled[0], "knownUpTo": stream.unsettled[1]}}
            if stream.unsettled
            else {}
        ),
        "rates": dict(stream.rates),
        "ignored": dict(stream.ignored),
        "absent": dict(stream.absent),
        "logBytes": stream.log_bytes,
    }
