"""The contract of feeds: one suite for the interface, to be made a test class for each implementation.

``FeedContract`` holds for every feed, ``PlannedContract`` for those that a stream file names. An implementation says in
its ``case`` how rows come into its source; rows are those of ``stream_kit``, routed by ``Src``, bad without one.
"""

from __future__ import annotations

import json
import pickle
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pydantic import ValidationError
from pyspark.sql.types import StructType

from sparkhaven.ingest.bad_rows import BadRow, Rejects, as_batch
from sparkhaven.ingest.feeds.base import Feed, PlannedFeed, ResumeRules, reject_late, route, split_of
from sparkhaven.ingest.feeds.local_trigger import AvailableNow
from sparkhaven.ingest.feeds.registry import feed_of, planned_class
from sparkhaven.ingest.requeued_rows import decode_requeued
from sparkhaven.ingest.spec.payload_formats import Limit
from sparkhaven.ingest.spec.stream_spec import BadRowBudget, InternalRule, PartitionSpec, StreamSpec, ValueRule
from sparkhaven.ingest.targets.target_columns import resolve_targets
from sparkhaven.jobs.streams.decoding import Decoder
from sparkhaven.jobs.streams.feeds import SPLIT_OF
from sparkhaven.readers.spark.source_api import DataSourceStreamReader, ReadAllAvailable
from sparkhaven.store.epochs.reading.stream_state import load_stream
from sparkhaven.store.errors import SettingsError, SparkhavenError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, LocationKey
from tests.support.streams.stream_kit import SCHEMA, STREAM, TABLE, Record, ingest, open_log, record, tree_bytes

FS = Fs()
DATE = "2026-11-20"
KEY = LocationKey("a", DATE)
BAD, WRONG = -1, -2  # in the place of a row's number: one that is refused by the router, and one by its decoder
CHANGES: dict[int, Record] = {BAD: {"Src": None}, WRONG: {"Note": "\0"}}


def rows_of(numbers: Sequence[int]) -> list[Record]:
    """Rows by their numbers, without a field for the date."""
    rows = [{**record(max(number, 0)), **CHANGES.get(number, {})} for number in numbers]
    return [{name: value for name, value in row.items() if name != "Date"} for row in rows]


def spec_of(options: Any, **changes: Any) -> StreamSpec:
    """A stream of the feed."""
    partition = PartitionSpec(InternalRule("column", "Src"), ValueRule(fixed=DATE))
    spec = StreamSpec(STREAM, str(TABLE), options, partition, bad_rows=BadRowBudget(100, 1.0))
    return replace(spec, **changes)


@dataclass
class Decoded:
    """What came of splits: numbers of good rows in order, and bad rows."""

    numbers: list[int]
    bad: list[BadRow]


def decode(feed: Feed[Any, Any], splits: Sequence[Any]) -> Decoded:
    """The rows of splits one after the other."""
    numbers: list[int] = []
    bad: list[BadRow] = []
    for split in splits:
        rejects = Rejects(feed.spec.bad_rows, sink=bad.extend)
        for routed in route(feed.decode(FS, split, SCHEMA, rejects, time.time), rejects):
            assert routed.key == KEY
            assert routed.batch.schema.names == [column.name for column in SCHEMA.stored]
            numbers += routed.batch.column("N").to_pylist()
        assert rejects.complete is None
    return Decoded(numbers, bad)


def place(row: BadRow) -> tuple[object, ...]:
    """What names a bad row, and why it is one."""
    return row.file, row.line, row.unit, row.code, row.column, row.payload


class Case(ABC):
    """An implementation with a source of its own, empty at first."""

    feed: Feed[Any, Any]

    @abstractmethod
    def put(self, numbers: Sequence[int]) -> list[Any]:
        """Adds rows to the source. Splits of just these rows, as they are now."""


class FeedContract(ABC):
    """Clauses for every feed."""

    @pytest.fixture
    @abstractmethod
    def case(self, tmp_path: Path) -> Any:
        """The implementation under test."""

    def test_the_options_lead_to_the_feed(self, case: Case) -> None:
        assert type(feed_of(case.feed.spec)) is type(case.feed)
        assert resolve_targets(case.feed.spec, SCHEMA)
        assert isinstance(case.feed.options.path, str) and case.feed.options.path

    def test_it_goes_to_workers_by_pickle(self, case: Case) -> None:
        again = pickle.loads(pickle.dumps(case.feed))
        assert type(again) is type(case.feed) and again.spec == case.feed.spec
        assert again.options == case.feed.options and again.resume == case.feed.resume

    def test_rules_of_resuming_are_complete(self, case: Case) -> None:
        assert isinstance(case.feed.resume, ResumeRules) and case.feed.resume.remember_s > 0

    def test_a_split_gives_its_rows_in_order_and_the_same_ones_again(self, case: Case) -> None:
        splits = case.put([3, 1, 2, 5])
        first = decode(case.feed, splits)
        assert first == Decoded([3, 1, 2, 5], [])
        assert decode(pickle.loads(pickle.dumps(case.feed)), splits) == first

    def test_a_bad_row_is_named_and_harms_no_other(self, case: Case) -> None:
        found = decode(case.feed, case.put([1, BAD, WRONG, 2]))
        assert found.numbers == [1, 2]
        wrong, bad = sorted(found.bad, key=lambda row: str(row.column))
        assert (bad.code, bad.column) == ("null-internal-partition", "Src") and bad.file
        assert (wrong.code, wrong.column) == ("reads-back-as-the-empty-string", "Note")
        assert (wrong.file, wrong.unit) == (bad.file, bad.unit) and wrong.line == bad.line + 1
        assert [json.loads(row.payload)["N"] for row in (bad, wrong)] == [0, 0]

    def test_late_rows_are_rejected_and_no_others(self, case: Case) -> None:
        (split,) = case.put([1, BAD, 2])
        late: list[BadRow] = []
        rejects = Rejects(case.feed.spec.bad_rows, sink=late.extend)
        again = partial(case.feed.decode, FS, split, SCHEMA, clock=time.time)
        assert reject_late(again, frozenset({KEY}), rejects) == 2
        assert [(row.code, json.loads(row.payload)["N"]) for row in late] == [("late", 1), ("late", 2)]
        assert rejects.complete is None and late[0].file == late[1].file

    def test_a_split_of_another_kind_is_refused(self, case: Case) -> None:
        (split,) = case.put([1])
        assert split_of(case.feed, split) is split
        with pytest.raises(SettingsError, match="split type does not match the feed"):
            split_of(case.feed, object())


class PlannedCase(Case):
    """A feed that a stream file names. ``keys`` are its ``[feed]``; ``wrong`` one where nothing is, if that is seen."""

    feed: PlannedFeed[Any, Any]
    root: Path
    keys: dict[str, Any]
    wrong: dict[str, Any] | None
    on_this_machine = True
    """Whether ``check`` sees what is wrong; else it is seen by who looks at the source."""
    small: tuple[Limit, ...]
    """Limits that no two of the parts that ``add`` makes fit into."""

    def open(self, base: Path, keys: dict[str, Any], wrong: dict[str, Any] | None) -> None:
        """Reads ``[feed]`` as a stream file would be read."""
        self.root, self.keys, self.wrong, self.base = base / "db", keys, wrong, base
        self.feed = self.of(keys)

    def of(self, keys: dict[str, Any], **changes: Any) -> PlannedFeed[Any, Any]:
        """The feed of a ``[feed]``."""
        kind = planned_class(keys["type"])
        options = kind.read(kind.settings.model_validate(keys), self.base, FS)
        return kind(spec_of(replace(options, **changes)))

    @abstractmethod
    def add(self, numbers: Sequence[int]) -> None:
        """Adds rows to the source, to be planned together."""

    def put(self, numbers: Sequence[int]) -> list[Any]:
        """What a planner that starts now makes of the source."""
        self.add(numbers)
        return [split for batch in Planner(self.feed, self.root).rest() for split in batch]


class Planner:
    """Spark's part: asks a reader for batches until nothing is new."""

    def __init__(self, feed: PlannedFeed[Any, Any], root: Path) -> None:
        source = feed.source(root, 1)
        self.feed = feed
        self.reader: DataSourceStreamReader = source.kind(dict(source.options)).streamReader(StructType())
        self.names = [column.split()[0] for column in source.kind(dict(source.options)).schema().split(", ")]
        self.at = self.reader.initialOffset()

    def batch(self, *, limited: bool = False) -> list[Any]:
        """The splits of the next batch; none if nothing is new."""
        limit = self.reader.getDefaultReadLimit() if limited else ReadAllAvailable()
        end = self.reader.latestOffset(self.at, limit)
        assert json.loads(json.dumps(end)) == end, "Spark keeps offsets as JSON"
        if end == self.at:
            return []
        runs = self.reader.partitions(self.at, end)
        found = [dict(zip(self.names, row, strict=True)) for run in runs for row in self.reader.read(run)]
        assert all({"task", "waiting"} <= row.keys() for row in found)
        splits = [SPLIT_OF[self.feed.options.traits.split](row) for row in found]
        self.at = end
        return [split_of(self.feed, split) for split in splits]

    def rest(self, *, limited: bool = False) -> list[list[Any]]:
        """All batches that there are."""
        found = []
        while batch := self.batch(limited=limited):
            found.append(batch)
        return found


class PlannedContract(FeedContract):
    """Clauses for feeds that plan."""

    def test_the_stream_file_leads_to_the_feed(self, case: PlannedCase) -> None:
        assert case.feed.options.traits.feed == case.keys["type"]
        assert type(case.feed) is planned_class(case.keys["type"]) and case.feed.options.traits.split in SPLIT_OF
        case.feed.check_columns(resolve_targets(case.feed.spec, SCHEMA))

    def test_unknown_and_wrong_keys_are_refused(self, case: PlannedCase) -> None:
        for changes in ({"nonsense": 1}, {"max_per_trigger": "much"}):
            with pytest.raises(ValidationError):
                case.feed.settings.model_validate({**case.keys, **changes})

    def test_what_is_missing_is_reported_before_the_start(self, case: PlannedCase) -> None:
        case.feed.check(FS)
        if case.wrong is not None:
            with pytest.raises(SparkhavenError) as reported:
                wrong = case.of(case.wrong)
                wrong.check(FS) if case.on_this_machine else wrong.waiting(FS, None)
            assert reported.value.where and reported.value.hint

    def test_every_row_is_planned_once(self, case: PlannedCase) -> None:
        planner = Planner(case.feed, case.root)
        case.add([1, 2])
        first = planner.rest()
        case.add([3])
        second = planner.rest()
        assert [decode(case.feed, batch).numbers for batch in (*first, *second)] == [[1, 2], [3]]
        assert planner.batch() == []

    def test_a_limit_cuts_a_backlog_and_lets_something_through(self, case: PlannedCase) -> None:
        for number in range(4):
            case.add([number])
        for limit in case.small:
            feed = case.of(case.keys, max_per_trigger=limit)
            batches = [decode(feed, batch).numbers for batch in Planner(feed, case.root).rest(limited=True)]
            assert [number for batch in batches for number in batch] == [0, 1, 2, 3]
            assert len(batches) > 1 and all(batches)

    def test_a_run_to_the_end_takes_only_what_is_there_at_its_start(self, case: PlannedCase) -> None:
        case.add([1])
        planner = Planner(case.feed, case.root)
        planner.reader.prepareForTriggerAvailableNow()
        case.add([2])
        assert [decode(case.feed, batch).numbers for batch in planner.rest()] == [[1]]

    def test_a_start_goes_on_after_the_commit_log(self, case: PlannedCase) -> None:
        case.add([1, 2])
        assert self.run(case) == [[1, 2]]
        assert self.run(case) == []
        case.add([3])
        assert self.run(case) == [[3]]

    def test_what_waits_is_reported_and_nothing_is_written(self, case: PlannedCase) -> None:
        case.add([1, 2])
        before = case.feed.waiting(FS, None)
        assert before.words and json.dumps(before.counts) and self.amount(before.counts) > 0
        assert not case.root.exists()
        self.run(case)
        tree, state = tree_bytes(case.root), load_stream(FS, Layout(case.root), TABLE, STREAM)
        assert self.amount(case.feed.waiting(FS, state).counts) == 0
        assert tree_bytes(case.root) == tree

    def test_a_run_in_this_process_has_the_batches_of_spark(self, case: PlannedCase) -> None:
        for number in range(3):
            case.add([number])
        for limit in (*case.small, case.feed.options.max_per_trigger):
            feed = case.of(case.keys, max_per_trigger=limit)
            waiting = feed.waiting(FS, None)
            assert (waiting.bytes or 0) + (waiting.rows or 0) > 0
            spark, driven = Planner(feed, case.root), AvailableNow(feed.source(case.root, 1))
            spark.reader.prepareForTriggerAvailableNow()
            found, rows = [], driven.plan()
            case.add([9])  # too late for both
            while rows:
                found.append([SPLIT_OF[feed.options.traits.split](row) for row in rows])
                driven.committed()
                rows = driven.plan()
            assert found == spark.rest(limited=True) and found
            driven.report()
            driven.stop()
            assert driven.plan() == []

    def test_a_rejected_row_is_decoded_again_as_it_was(self, case: PlannedCase) -> None:
        found = decode(case.feed, case.put([1, BAD, WRONG, 2]))
        rejected = sorted(found.bad, key=lambda row: row.line)
        table = pa.Table.from_batches([as_batch(rejected)])
        again: list[BadRow] = []
        rejects = Rejects(case.feed.spec.bad_rows, sink=again.extend)
        assert list(decode_requeued(table, case.feed.spec, SCHEMA, rejects)) == []
        assert {place(row) for row in again} == {place(row) for row in found.bad}
        bad = rejected[0]
        mended = json.dumps({**json.loads(bad.payload), "Src": "a", "Note": None, "N": 7}).encode()
        table = pa.Table.from_batches([as_batch([replace(bad, payload=mended)])])
        (routed,) = decode_requeued(table, case.feed.spec, SCHEMA, Rejects(case.feed.spec.bad_rows))
        assert routed.key == KEY and routed.batch.column("N").to_pylist() == [7]

    def test_a_server_tells_its_ends(self, case: PlannedCase) -> None:
        remote = case.feed.remote()
        if remote is not None:
            case.add([1, 2])
            remote.check()
            ends = remote.ends(())
            assert sum(ends.values()) == 2 and remote.ends(list(ends)) == ends

    def run(self, case: PlannedCase) -> list[list[int]]:
        """Commits what is new, and returns the rows of each batch."""
        planner, done = Planner(case.feed, case.root), []
        decoder = Decoder(FS, case.feed.spec, SCHEMA)
        with open_log(FS, case.root) as log:
            for number, splits in enumerate(planner.rest()):
                ingest(FS, case.root, log, [splits], number, decoder=decoder)
                done.append(decode(case.feed, splits).numbers)
        return done

    def amount(self, counts: Any) -> int:
        """What waits, of the counts."""
        return sum(amount for name, amount in counts.items() if name.startswith("waiting_"))
