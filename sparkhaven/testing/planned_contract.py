"""The contract of feeds that a stream file names: what they plan is every row once, in batches that repeat."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pytest
from pydantic import ValidationError

from sparkhaven.ingest.bad_rows import BadRow, Rejects, as_batch
from sparkhaven.ingest.feeds.base import PlannedFeed, split_of
from sparkhaven.ingest.feeds.registry import planned_class
from sparkhaven.ingest.feeds.spark_planning import AvailableNow
from sparkhaven.ingest.requeued_rows import decode_requeued
from sparkhaven.ingest.spec import FeedOptions
from sparkhaven.ingest.targets import resolve_targets
from sparkhaven.jobs.streams.decoding import Decoder
from sparkhaven.readers.spark.source_api import ReadAllAvailable
from sparkhaven.store.epochs.reading.stream_state import load_stream
from sparkhaven.store.errors import SparkhavenError
from sparkhaven.store.layout import Layout
from sparkhaven.store.places import StreamPlace
from sparkhaven.testing.feed_contract import (
    BAD,
    FS,
    KEY,
    SCHEMA,
    STREAM,
    TABLE,
    WRONG,
    FeedCase,
    FeedContract,
    Row,
    decode,
    rows_of,
    spec_of,
)
from sparkhaven.testing.tables import commit_splits, open_log
from sparkhaven.writers.batch.stream_batches import SPLIT_OF


class PlannedFeedCase(FeedCase):
    """A feed that a stream file names.

    ``keys`` are its ``[feed]``, with paths relative to ``base``. ``wrong`` is a ``[feed]`` where nothing is, or None if
    the feed cannot tell.
    """

    feed: PlannedFeed[FeedOptions, object]
    small: ClassVar[tuple[Mapping[str, int], ...]] = ({"rows": 1},)
    """Values of ``max_per_trigger`` that no two additions fit into."""
    on_this_machine: ClassVar[bool] = True
    """Whether ``check`` sees what is wrong; else it is seen by who looks at the source."""

    def __init__(self, base: Path, keys: Mapping[str, object], wrong: Mapping[str, object] | None = None) -> None:
        self.base, self.root, self.keys, self.wrong = base, base / "db", keys, wrong
        self.feed = self.of(keys)

    @abstractmethod
    def add(self, rows: Sequence[Row]) -> None:
        """Adds rows to the source, to be planned together."""

    def of(self, keys: Mapping[str, object]) -> PlannedFeed[FeedOptions, object]:
        """The feed of a ``[feed]``, read as that of a stream file is."""
        kind = planned_class(str(keys["type"]))
        return kind(spec_of(kind.read(kind.settings.model_validate(keys), self.base, FS)))

    def limited(self) -> list[PlannedFeed[FeedOptions, object]]:
        """The feed with each of the small limits."""
        return [self.of({**self.keys, "max_per_trigger": limit}) for limit in self.small]

    def put(self, rows: Sequence[Row]) -> Sequence[object]:
        """What a planner that starts now makes of the source."""
        self.add(rows)
        return [split for batch in Planner(self.feed, self.root).rest() for split in batch]


class Planner:
    """Spark's part: asks a reader for batches until nothing is new, and keeps their offsets as JSON."""

    def __init__(self, feed: PlannedFeed[Any, Any], root: Path) -> None:
        source = feed.source(root, 1)
        self.feed = feed
        self.reader = source.kind(dict(source.options)).streamReader(None)
        self.names = [column.split()[0] for column in source.kind(dict(source.options)).schema().split(", ")]
        self.offsets = [self.reader.initialOffset()]

    def batch(self, *, limited: bool = False) -> list[Any]:
        """The splits of the next batch, none if nothing is new."""
        limit = self.reader.getDefaultReadLimit() if limited else ReadAllAvailable()
        start, end = self.offsets[-1], self.reader.latestOffset(self.offsets[-1], limit)
        assert json.loads(json.dumps(end)) == end, "Spark keeps offsets as JSON"
        if end == start:
            return []
        self.offsets.append(end)
        return self.splits(start, end)

    def splits(self, start: object, end: object) -> list[Any]:
        """The splits between two offsets."""
        runs = self.reader.partitions(start, end)
        rows = [dict(zip(self.names, row, strict=True)) for run in runs for row in self.reader.read(run)]
        for row in rows:
            assert {"task", "waiting"} <= row.keys()
        return [split_of(self.feed, SPLIT_OF[self.feed.options.traits.split](row)) for row in rows]

    def rest(self, *, limited: bool = False) -> list[list[Any]]:
        """All batches that there are."""
        batches = []
        while batch := self.batch(limited=limited):
            batches.append(batch)
        return batches


def named(row: BadRow) -> tuple[object, ...]:
    """What names a bad row, and why it is one."""
    return row.file, row.line, row.unit, row.code, row.column, row.payload


class PlannedFeedContract(FeedContract):
    """Clauses for feeds that plan. The ``case`` is a ``PlannedFeedCase``."""

    def test_the_stream_file_leads_to_the_feed(self, case: PlannedFeedCase) -> None:
        assert case.feed.options.traits.feed == case.keys["type"]
        assert type(case.feed) is planned_class(str(case.keys["type"]))
        assert case.feed.options.traits.split in SPLIT_OF
        case.feed.check_columns(resolve_targets(case.feed.spec, SCHEMA))

    def test_unknown_and_wrong_keys_are_refused(self, case: PlannedFeedCase) -> None:
        for changes in ({"nonsense": 1}, {"max_per_trigger": "much"}):
            with pytest.raises(ValidationError):
                case.feed.settings.model_validate({**case.keys, **changes})

    def test_what_is_missing_is_reported_before_the_start(self, case: PlannedFeedCase) -> None:
        case.feed.check(FS)
        if case.wrong is not None:
            with pytest.raises(SparkhavenError) as reported:
                wrong = case.of(case.wrong)
                wrong.check(FS) if case.on_this_machine else wrong.waiting(FS, None)
            assert reported.value.where and reported.value.hint

    def test_an_empty_source_ends(self, case: PlannedFeedCase) -> None:
        planner = Planner(case.feed, case.root)
        batches = planner.rest()  # one that has only a position is allowed
        assert len(batches) <= 1 and [decode(case.feed, batch).numbers for batch in batches] == [[] for _ in batches]
        assert planner.rest() == []
        case.add(rows_of([1]))
        assert [decode(case.feed, batch).numbers for batch in planner.rest()] == [[1]]

    def test_every_row_is_planned_once(self, case: PlannedFeedCase) -> None:
        planner = Planner(case.feed, case.root)
        case.add(rows_of([1, 2]))
        first = planner.rest()
        case.add(rows_of([3]))
        second = planner.rest()
        assert [decode(case.feed, batch).numbers for batch in (*first, *second)] == [[1, 2], [3]]
        assert planner.batch() == []

    def test_offsets_move_on_and_a_batch_between_two_of_them_is_the_same_again(self, case: PlannedFeedCase) -> None:
        planner, planned = Planner(case.feed, case.root), []
        for number in range(3):
            case.add(rows_of([number]))
            planned += planner.rest()
        texts = [json.dumps(offset, sort_keys=True) for offset in planner.offsets]
        assert len(set(texts)) == len(texts) == 1 + len(planned) == 4
        assert planner.splits(*map(json.loads, texts[-2:])) == planned[-1]

    def test_a_limit_cuts_a_backlog_and_lets_something_through(self, case: PlannedFeedCase) -> None:
        for number in range(4):
            case.add(rows_of([number]))
        for feed in case.limited():
            batches = [decode(feed, batch).numbers for batch in Planner(feed, case.root).rest(limited=True)]
            assert [number for batch in batches for number in batch] == [0, 1, 2, 3]
            assert len(batches) > 1 and all(batches)

    def test_a_run_to_the_end_takes_only_what_is_there_at_its_start(self, case: PlannedFeedCase) -> None:
        case.add(rows_of([1]))
        planner = Planner(case.feed, case.root)
        planner.reader.prepareForTriggerAvailableNow()
        case.add(rows_of([2]))
        assert [decode(case.feed, batch).numbers for batch in planner.rest()] == [[1]]

    def test_a_start_goes_on_after_the_commit_log(self, case: PlannedFeedCase) -> None:
        case.add(rows_of([1, 2]))
        assert self.run(case) == [[1, 2]]
        assert self.run(case) == []
        case.add(rows_of([3]))
        assert self.run(case) == [[3]]

    def test_what_waits_is_reported_and_nothing_is_written(self, case: PlannedFeedCase) -> None:
        case.add(rows_of([1, 2]))
        before = case.feed.waiting(FS, None)
        assert before.words and json.dumps(before.counts) and self.amount(before.counts) > 0
        assert not case.root.exists()
        self.run(case)
        tree, state = self.tree(case), load_stream(StreamPlace(FS, Layout(case.root), TABLE, STREAM))
        assert self.amount(case.feed.waiting(FS, state).counts) == 0
        assert self.tree(case) == tree != {}

    def test_a_run_in_this_process_has_the_batches_of_spark(self, case: PlannedFeedCase) -> None:
        for number in range(3):
            case.add(rows_of([number]))
        for feed in (*case.limited(), case.feed):
            waiting = feed.waiting(FS, None)
            assert (waiting.bytes or 0) + (waiting.rows or 0) > 0
            spark, driven = Planner(feed, case.root), AvailableNow(feed.source(case.root, 1))
            spark.reader.prepareForTriggerAvailableNow()
            batches, rows = [], driven.plan()
            case.add(rows_of([9]))  # too late for both
            while rows:
                batches.append([SPLIT_OF[feed.options.traits.split](row) for row in rows])
                driven.committed()
                rows = driven.plan()
            assert batches == spark.rest(limited=True) and batches
            driven.report()
            driven.stop()
            assert driven.plan() == []

    def test_a_rejected_row_is_decoded_again_as_it_was(self, case: PlannedFeedCase) -> None:
        decoded = decode(case.feed, case.put(rows_of([1, BAD, WRONG, 2])))
        rejected = sorted(decoded.bad, key=lambda row: row.line)
        table = pa.Table.from_batches([as_batch(rejected)])
        again: list[BadRow] = []
        rejects = Rejects(case.feed.spec.bad_rows, sink=again.extend)
        assert list(decode_requeued(table, case.feed.spec, SCHEMA, rejects)) == []
        assert {named(row) for row in again} == {named(row) for row in decoded.bad}
        bad = rejected[0]
        mended = case.payload({**case.row(bad.payload or b""), "Src": KEY.internal, "Note": None, "N": 7})
        table = pa.Table.from_batches([as_batch([replace(bad, payload=mended)])])
        (routed,) = decode_requeued(table, case.feed.spec, SCHEMA, Rejects(case.feed.spec.bad_rows))
        assert routed.key == KEY and routed.batch.column("N").to_pylist() == [7]

    def test_a_server_tells_its_ends(self, case: PlannedFeedCase) -> None:
        remote = case.feed.remote()
        if remote is not None:
            case.add(rows_of([1, 2]))
            remote.check()
            ends = remote.ends(())
            assert sum(ends.values()) == 2 and remote.ends(list(ends)) == ends

    def run(self, case: PlannedFeedCase) -> list[list[int]]:
        """Commits what is new, and returns the rows of each batch."""
        batches, layout = [], Layout(case.root)
        decoder = Decoder(FS, case.feed.spec, SCHEMA)
        with open_log(FS, layout, SCHEMA, STREAM) as log:
            for splits in Planner(case.feed, case.root).rest():
                commit_splits(FS, layout, log, SCHEMA, splits, decoder)
                batches.append(decode(case.feed, splits).numbers)
        return batches

    def amount(self, counts: Mapping[str, Any]) -> int:
        """What waits, of the counts."""
        return sum(amount for name, amount in counts.items() if name.startswith("waiting_"))

    def tree(self, case: PlannedFeedCase) -> dict[Path, bytes]:
        """Every file below the root."""
        return {path: path.read_bytes() for path in case.root.rglob("*") if path.is_file()}
