"""What tests of the quarantine need of a real Delta."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pyspark.sql import SparkSession

from store.io.fs import Fs
from store.layout import Layout
from tests.support.streams.stream_kit import STREAM, TABLE
from writers.quarantine.table import Chosen, Quarantine

NOW = 1_000_000.25


def quarantine(
    spark: SparkSession, root: Path, fs: Fs | None = None, clock: Callable[[], float] | None = None
) -> Quarantine:
    """The quarantine of the test stream at its default place."""
    layout = Layout(root)
    owner = fs or Fs(), layout, TABLE, STREAM
    place, clock = layout.quarantine(STREAM), clock or (lambda: NOW)
    return Quarantine(lambda: spark, *owner, place, clock=clock, file="s.toml")


def places(quarantined: Quarantine, chosen: Chosen = Chosen()) -> list[tuple[str, int, int, int | None]]:  # noqa: B008
    """File, line, epoch and epoch of the requeue of every row."""
    if not quarantined.exists:
        return []
    rows = quarantined.select(chosen).collect()
    return [(Path(r.SourcePartition).name, r.Position, r.Epoch, r.RequeuedEpoch) for r in rows]
