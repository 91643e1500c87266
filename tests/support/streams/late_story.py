"""A date that is merged and truncated, and rows that arrive for it: while it is truncated, and after.

``prepare`` makes the truncated date; ``arrive`` commits what comes late, and does the rest of it when it is run again;
``night`` merges, validates, truncates and deletes. Rows are numbered, so that one lost or doubled is seen.
"""

from __future__ import annotations

from pathlib import Path

from sparkhaven.readers import open_table
from sparkhaven.readers.checks.verify import verify
from sparkhaven.store.epochs.log import StreamLog
from sparkhaven.store.epochs.state.log_values import FileId
from sparkhaven.store.epochs.state.removed_locations import DOOMED
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, TableName
from sparkhaven.store.places import TablePlace
from sparkhaven.store.schema.deployed.deploy import deploy
from sparkhaven.writers.append.worker_cache import WorkerCache
from sparkhaven.writers.batch.commit import BatchOutcome, BatchRequest, write_batch
from sparkhaven.writers.merge.date_merges import merge_dates
from sparkhaven.writers.merge.date_result import DateResult
from sparkhaven.writers.merge.executor import LocalExecutor as MergeExecutor
from sparkhaven.writers.merge.plan.merge_plan import MergeOptions
from sparkhaven.writers.partitions import add_partition
from sparkhaven.writers.removal.removal_proof import prove
from sparkhaven.writers.removal.row_removal import Removed, delete, truncate
from sparkhaven.writers.task.target import StreamTarget
from tests.support.streams.stream_kit import (
    SCHEMA,
    STREAM,
    TABLE,
    LocalExecutor,
    open_log,
    put_file,
    record,
)
from tests.support.streams.stream_story import Groups
from tests.support.streams.whole_story import DAY, SCHEMA_XML

NOW, HOUR = 2e9, 3600.0
MERGED, ROWS = 12, 36  # rows that history has before others arrive, and all of them


def write_feed(feed: Path) -> list[Groups]:
    """The merged rows, late ones of two tasks that meet at both locations, and one more batch."""

    def file(number: int, *parts: tuple[str, range]) -> FileId:
        return put_file(feed, f"{number}.json", [record(n, source) for source, some in parts for n in some], number)

    return [
        [[file(1, ("a", range(8)), ("b", range(8, MERGED)))]],
        [[file(2, ("a", range(12, 16)), ("b", range(16, 20)))], [file(3, ("a", range(20, 24)), ("c", range(24, 28)))]],
        [[file(4, ("b", range(28, 32)), ("a", range(32, ROWS)))]],
    ]


def take(fs: Fs, root: Path, log: StreamLog, groups: Groups, number: int, *, late: bool = True) -> BatchOutcome:
    """One batch; the second task comes first."""
    target = StreamTarget(Layout(root), TABLE, STREAM, SCHEMA, log.state.generation, takes_late=late)
    execute = LocalExecutor(fs, target, groups, range(len(groups))[::-1])
    proposed = [split for group in groups for split in group]
    request = BatchRequest(execute, query_id="query", batch_id=number, proposed=proposed)
    return write_batch(fs, log, target, WorkerCache(), request)


def prepare(root: Path, batches: list[Groups], *, truncated: bool = True) -> None:
    """A date of two sources, in history and truncated in intraday; else in intraday alone."""
    fs, layout = Fs(), Layout(root)
    deploy(fs, layout, SCHEMA_XML)
    add_partition(fs, layout, TABLE.namespace, "0")
    with open_log(fs, root) as log:
        take(fs, root, log, batches[0], 0)
    if truncated:
        remove(root)


def remove(root: Path) -> None:
    """Merges and truncates the date."""
    place = place_of(Fs(), root)
    merge(Fs(), root)
    truncate(place, DAY, proof=prove(place, DAY), clock=lambda: NOW)


def arrive(fs: Fs, root: Path, batches: list[Groups]) -> None:
    """The late batches; committed ones are no-ops."""
    log = open_log(fs, root)
    try:
        for number in (1, 2):
            take(fs, root, log, batches[number], number)
            log.write_head()
    finally:
        log.abandon()


def night(fs: Fs, root: Path) -> Removed:
    """What a night does with the date, two hours later."""
    merge(fs, root)
    place, now = place_of(fs, root), NOW + 2 * HOUR
    proof = prove(place, DAY)
    truncate(place, DAY, proof=proof, clock=lambda: now)
    return delete(place, DAY, proof=proof, clock=lambda: now + HOUR)


def merge(fs: Fs, root: Path, **options: int) -> DateResult:
    executor = MergeExecutor(1)
    results = merge_dates(place_of(fs, root), [DAY], MergeOptions(**options), executor=executor, clock=lambda: NOW)  # type: ignore[arg-type]
    (result,) = results
    if result.error is not None:
        raise result.error
    return result


def place_of(fs: Fs, root: Path, table: TableName = TABLE) -> TablePlace:
    return TablePlace(fs, Layout(root), table)


def seen(root: Path, tier: str = "all") -> list[int]:
    """The numbers of the rows that a reader sees, sorted; the columns of a row belong together."""
    rows = open_table(root, str(TABLE)).to_arrow(tier=tier).to_pylist()
    for row in rows:
        assert row == record(row["N"], row["Src"], row["Date"]), f"torn: {row}"
    return sorted(row["N"] for row in rows)


def moved_aside(root: Path) -> list[str]:
    """The sources of the date with files that were moved away and not yet unlinked."""
    return sorted(path.parent.parent.name for path in Layout(root).intraday(TABLE).glob(f"*/{DAY}/{DOOMED}*"))


def check_end(root: Path) -> None:
    """Every row is in history, once, and intraday is empty."""
    assert seen(root) == [*range(ROWS)] == seen(root, "history")
    assert moved_aside(root) == []
    report = verify(Fs(), Layout(root), TABLE, deep=True)
    assert report.errors == 0, [finding.to_json() for finding in report.findings]
