"""The life of a table, end to end, in small: deploy, open, ingest, compact, roll back, merge, prove, truncate, delete.

``live`` runs it once; run again after any failure it does what is left. ``Watch`` keeps what was acknowledged, and
what a reader sees is compared with that: nothing acknowledged is missing, nothing is there twice, nothing is torn.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from sparkhaven.readers.arrow.opening import open_table
from sparkhaven.readers.checks.verify import verify
from sparkhaven.store.epochs.log import StreamLog
from sparkhaven.store.epochs.reading.stream_state import load_stream
from sparkhaven.store.epochs.state.log_values import Split
from sparkhaven.store.errors import SparkhavenError, TableNotFoundError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout
from sparkhaven.store.places import StreamPlace, TablePlace
from sparkhaven.store.schema.deployed.deploy import deploy
from sparkhaven.writers.merge.date_merges import merge_dates
from sparkhaven.writers.merge.executor import LocalExecutor
from sparkhaven.writers.merge.plan.merge_plan import MergeOptions
from sparkhaven.writers.partitions import add_partition
from sparkhaven.writers.removal.removal_proof import States, prove
from sparkhaven.writers.removal.row_removal import delete, truncate
from tests.support.streams.stream_kit import SCHEMA, STREAM, TABLE, ingest, open_log, put_file, record
from tests.support.streams.stream_story import Groups

DAY = "2026-11-20"
ROWS = 24
SCHEMA_XML = b"""<Table namespace="Test" name="Event" storageType="NestedPartitionedOnDisk">
  <Partitions keyFormula="${autobalance_single}"/>
  <Column name="Date" dataType="String" columnType="Partitioning"/>
  <Column name="Src" dataType="String"/>
  <Column name="N" dataType="long"/>
  <Column name="Sym" dataType="String"/>
  <Column name="Note" dataType="String" symbolTable="None" encoding="UTF_8"/>
</Table>
"""


@dataclass(slots=True)
class Watch:
    """Rows that were acknowledged so far. While ``moving``, a rollback is on its way and fewer may be there."""

    acknowledged: set[int] = field(default_factory=set)
    moving: bool = False


def write_feed(feed: Path) -> list[Groups]:
    """Three batches; the second is of two tasks that meet at one location."""

    def file(number: int, source: str, first: int, stop: int) -> list[Split]:
        return [put_file(feed, f"{number}.json", [record(n, source) for n in range(first, stop)], number)]

    return [
        [[*file(1, "a", 0, 6), *file(2, "b", 6, 10)]],
        [file(3, "a", 10, 14), file(4, "a", 14, 18)],
        [[*file(5, "b", 18, 21), *file(6, "c", 21, ROWS)]],
    ]


def live(fs: Fs, root: Path, batches: list[Groups], watch: Watch, *, back: bool) -> None:
    """The whole life; ``back`` rolls the last batch back and takes it again."""
    layout = Layout(root)
    deployed = deploy(fs, layout, SCHEMA_XML)
    assert [(c.name, c.id, c.storage) for c in deployed.columns] == [(c.name, c.id, c.storage) for c in SCHEMA.columns]
    add_partition(fs, layout, TABLE.namespace, "0")
    with open_log(fs, root, keep_epochs=1, compact_bytes=1) as log:
        for number, groups in enumerate(batches):
            take(fs, root, log, groups, number, watch)
            log.write_head()
            if number == 1:
                log.compact_if_due(now=True)
        if back:
            watch.acknowledged -= {*range(18, ROWS)}
            watch.moving = True
            log.rollback(log.state.epoch - 1)
            watch.moving = False
            log.write_head()
            take(fs, root, log, batches[-1], len(batches), watch)
    merge(fs, layout)
    try:
        place = TablePlace(fs, layout, TABLE)
        proof, states = prove(place, DAY), States(place, pause=lambda _: None)
        truncate(states, proof=proof, clock=lambda: 2e9)
        delete(states, proof=proof, clock=lambda: 2e9, grace_s=0)
    except TableNotFoundError:
        assert load_stream(StreamPlace(fs, layout, TABLE, STREAM)).locations == {}  # an earlier life has removed them


def take(fs: Fs, root: Path, log: StreamLog, groups: Groups, number: int, watch: Watch) -> None:
    """One batch, last task first, and what it acknowledges."""
    order = range(len(groups))[::-1]
    ingest(fs, root, log, groups, number, order=order)
    for group in groups:
        for split in group:
            text = Path(split.path).read_text(encoding="utf-8")
            watch.acknowledged |= {int(line.split('"N": ')[1].split(",")[0]) for line in text.splitlines()}


def merge(fs: Fs, layout: Layout) -> None:
    """The date, in this process."""
    executor = LocalExecutor(1)
    for result in merge_dates(
        TablePlace(fs, layout, TABLE), [DAY], MergeOptions(), executor=executor, clock=lambda: 2e9
    ):
        if result.error is not None:
            raise result.error


def seen(root: Path) -> list[int]:
    """What a reader sees, both tiers as one table: whole rows whose columns belong together, or AssertionError."""
    try:
        table = open_table(root, str(TABLE)).to_arrow()
    except TableNotFoundError:
        return []
    for row in table.to_pylist():
        assert row == record(row["N"], row["Src"], row["Date"]), f"torn: {row}"
    return sorted(table["N"].to_pylist())


def check_seen(root: Path, watch: Watch) -> None:
    """Before any recovery: everything acknowledged is there, once."""
    rows = seen(root)
    assert len(rows) == len(set(rows)), f"doubled: {rows}"
    assert set(rows) <= {*range(ROWS)}, f"never sent: {rows}"
    assert watch.acknowledged <= set(rows), f"lost: {sorted(watch.acknowledged - set(rows))}"


def check_end(root: Path) -> None:
    """After a life that went through: exactly the input, and nothing that ``verify --deep`` objects to."""
    rows = seen(root)
    assert rows == [*range(ROWS)], f"{len(rows)} rows: {rows}"
    report = verify(Fs(), Layout(root), TABLE, deep=True)
    assert report.errors == 0, [finding.to_json() for finding in report.findings if finding.severity == "error"]


def reported(error: BaseException) -> bool:
    """Whether a person learns what to do from this error: ours with a hint, or the disk's own words with a path."""
    if isinstance(error, SparkhavenError):
        return bool(error.hint)
    return isinstance(error, OSError) and error.filename is not None
