"""A feed of a Delta table taken once, without Spark."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from sparkhaven.ingest.feeds.delta.planner import DeltaOptions, DeltaPlanner, share_out
from sparkhaven.ingest.spec import ColumnSpec, InternalRule, Limit, PartitionSpec, StreamSpec, ValueRule
from sparkhaven.jobs.streams.decoding import Decoder
from sparkhaven.store.epochs.log import StreamLog
from sparkhaven.store.epochs.state.log_values import TABLE as PLACE
from sparkhaven.store.io.fs import Fs
from tests.support.streams.stream_kit import SCHEMA, STREAM, TABLE, ingest, open_log


def run(fs: Fs, root: Path, feed: DeltaOptions) -> None:
    """What is there, in batches of three files by two tasks; the position comes from the commit log."""
    with open_log(fs, root) as log:
        plan = DeltaPlanner(fs, feed, log.state.offsets.get((PLACE, 0)))
        plan.look()
        while take(fs, root, log, feed, plan):
            plan.look()


def take(fs: Fs, root: Path, log: StreamLog, feed: DeltaOptions, plan: DeltaPlanner) -> bool:
    """The next batch of at most three files, by two tasks; False: there is none."""
    if (batch := plan.plan(Limit(files=3))) is None:
        return False
    partition = PartitionSpec(InternalRule("fixed", "a"), ValueRule(fixed="2026-11-20"))
    columns = tuple(ColumnSpec(name, source) for name, source in (("N", "id"), ("Src", "name"), ("Sym", "name")))
    feed = replace(feed, missing_columns="null")  # the table has no field Note
    decoder = Decoder(fs, StreamSpec(STREAM, str(TABLE), feed, partition, columns), SCHEMA)
    first, *more = share_out(batch, plan.table_id, 2, small=0)
    end = log.state.offsets.get((PLACE, 0))
    ranges = [replace(first, after=end.last if end else None), *more]  # as the driver of a stream gives it
    ingest(fs, root, log, [[item] for item in ranges], decoder=decoder)
    return True
