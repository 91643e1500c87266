"""The tables of a database, and of one its rows, bytes and streams by tier, date and internal partition.

``rows`` counts each row once; tiers and dates also count each tier by itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from sparkhaven.jobs.monitor.storage import TIERS, committed_bytes, disk_use
from sparkhaven.jobs.monitor.streams import StreamFacts, read_stream
from sparkhaven.readers.arrow.opening import known_tables, open_place
from sparkhaven.readers.arrow.snapshot import pinned_of
from sparkhaven.readers.checks.extended_tree import TreeUse, extended_use
from sparkhaven.store.errors import SparkhavenError
from sparkhaven.store.format.parquet.trees import EXTENDED
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, TableName
from sparkhaven.store.places import TablePlace

AMOUNT = ("rows", "bytes", "locations")
OF_DATE = ("rows", *TIERS, "bytes")


def list_tables(fs: Fs, layout: Layout, names: Iterable[TableName] | None = None) -> list[dict[str, object]]:
    """Every table, or those that are named, as ``tables --json`` prints them; of one that cannot be read the error."""
    return [_summary(TablePlace(fs, layout, name)) for name in (known_tables(fs, layout) if names is None else names)]


def _summary(place: TablePlace) -> dict[str, object]:
    try:
        table = pinned_of(open_place(place, skip_set_aside=True))
        locations = table.plan().slices
    except (SparkhavenError, OSError) as error:
        return {"table": str(place.table), "error": str(error)}
    dates = sorted({location.key.value for location in locations if location.key.value})
    first, last = (dates[0], dates[-1]) if dates else (None, None)
    ends = {"dates": len(dates), "first": first, "last": last}
    aside = {"set_aside": [asdict(note) for note in table.set_aside]} if table.set_aside else {}
    rows = sum(location.count for location in locations)
    return {"table": str(place.table), "rows": rows, **ends, "epochs": dict(table.epochs), **aside}


def table_figures(place: TablePlace, *, as_of: str | None = None) -> dict[str, Any]:
    """The figures of one table, of its newest snapshot, or of that at the time ``as_of``, as ``stats --json`` prints.

    ``dates`` have rows once, and those of each tier. ``waste``: bytes in the directories that no read of the newest
    snapshot needs; None of an older one. ``extended``: the tree beside history, whose bytes are in neither.
    """
    table = pinned_of(open_place(place, as_of=as_of, skip_set_aside=True))
    tiers = {tier: dict.fromkeys(AMOUNT, 0) for tier in TIERS}
    dates: dict[str, dict[str, int]] = {}
    sources: dict[tuple[str, str], dict[str, int]] = {}
    for location in table.plan().slices:
        dates.setdefault(location.key.value, dict.fromkeys(OF_DATE, 0))["rows"] += location.count
    for tier in TIERS:
        for location in table.plan(tier=tier).slices:
            size, key = committed_bytes(location), location.key
            for amount in (tiers[tier], sources.setdefault((tier, key.internal), dict.fromkeys(AMOUNT, 0))):
                amount["rows"] += location.count
                amount["bytes"] += size
                amount["locations"] += 1
            of_date = dates.setdefault(key.value, dict.fromkeys(OF_DATE, 0))
            of_date[tier] += location.count
            of_date["bytes"] += size
    use = disk_use(place, table=table) if as_of is None else None
    tree = extended_use(place) if use is None else use.tree
    streams = [
        read_stream(place.of_stream(stream), epoch=None if as_of is None else epoch)
        for stream, epoch in table.epochs.items()
    ]
    return {
        "table": table.name,
        "rows": sum(amount["rows"] for amount in dates.values()),
        "bytes": sum(amount["bytes"] for amount in tiers.values()),
        "waste": None if use is None else use.waste,
        "tiers": tiers,
        "extended": tree and _tree_json(tree, EXTENDED.get(table.schema.extended or "")),
        "set_aside": [asdict(note) for note in table.set_aside],
        "streams": [stream_json(stream, table.schema.version) for stream in streams],
        "dates": [{"date": date, **amount} for date, amount in sorted(dates.items()) if date],
        "sources": [{"tier": tier, "source": source, **amount} for (tier, source), amount in sorted(sources.items())],
    }


def _tree_json(tree: TreeUse, layout: str | None) -> dict[str, object]:
    return {"layout": layout, "files": tree.files, "bytes": tree.bytes, "waste": tree.waste}


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
