"""The contract of feeds: one suite for the interface ``Feed``, to be made a test class for each implementation.

The rows that suites put into a source, and the table that they are for, stand first.
"""

from __future__ import annotations

import json
import pickle
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from sparkhaven.ingest.bad_rows import BadRow, Rejects
from sparkhaven.ingest.feeds.base import Feed, ResumeRules, reject_late, route, split_of
from sparkhaven.ingest.feeds.registry import feed_of
from sparkhaven.ingest.router import Router
from sparkhaven.ingest.spec import (
    BadRowBudget,
    FeedOptions,
    InternalRule,
    PartitionSpec,
    StreamSpec,
    ValueRule,
)
from sparkhaven.ingest.targets import resolve_targets
from sparkhaven.store.errors import FeedError, SettingsError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import LocationKey, TableName
from sparkhaven.store.types.datatypes import data_type
from sparkhaven.store.types.model import Column, Kind, Storage, TableSchema

FS = Fs()
STREAM = "feed"
Row = Mapping[str, str | int | None]
"""A row of a source: texts ``Src``, ``Sym`` and ``Note``, and a number ``N``; null is None."""
TABLE = TableName("Test", "Event")
SCHEMA = TableSchema(
    "Test",
    "Event",
    (
        Column("Date", data_type("String"), Kind.PARTITIONING, Storage.NONE, 0, "UTF_8"),
        Column("Src", data_type("String"), Kind.NORMAL, Storage.SYMBOL, 1, "UTF_8"),
        Column("N", data_type("long"), Kind.NORMAL, Storage.FIXED, 2),
        Column("Sym", data_type("String"), Kind.NORMAL, Storage.SYMBOL, 3, "UTF_8"),
        Column("Note", data_type("String"), Kind.NORMAL, Storage.BLOB, 4, "UTF_8"),
    ),
)
KEY = LocationKey("a", "2026-11-20")
BAD, WRONG = -1, -2  # in the place of a row's number: one that is refused by the router, and one by its decoder
CHANGES: dict[int, Row] = {BAD: {"Src": None}, WRONG: {"Note": "\0"}}


def rows_of(numbers: Sequence[int]) -> list[Row]:
    """Rows by their numbers, from which the other columns follow."""
    return [{**_row(max(number, 0)), **CHANGES.get(number, {})} for number in numbers]


def _row(number: int) -> Row:
    sym = None if number % 7 == 3 else f"s{number % 5}"
    note = None if number % 4 == 1 else "é" * (number % 3) + str(number)
    return {"Src": "a", "N": number, "Sym": sym, "Note": note}


def spec_of(options: FeedOptions) -> StreamSpec:
    """A stream of the feed: rows go where ``Src`` says, and those without one are bad."""
    partition = PartitionSpec(InternalRule("column", "Src"), ValueRule(fixed=KEY.value))
    return StreamSpec(STREAM, str(TABLE), options, partition, bad_rows=BadRowBudget(100, 1.0))


class FeedCase(ABC):
    """A feed with a source of its own, empty at first."""

    feed: Feed[Any, Any]

    @abstractmethod
    def put(self, rows: Sequence[Row]) -> Sequence[object]:
        """Adds rows to the source. Returns splits of these rows and no others, as they are now."""

    def row(self, payload: bytes) -> Row:
        """The row of the payload of a rejected one. Default: payloads are JSON objects."""
        row: Row = json.loads(payload)
        return row

    def payload(self, row: Row) -> bytes:
        """The payload of a row. Default: a JSON object."""
        return json.dumps(row).encode()


@dataclass(frozen=True, slots=True)
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
        before = len(numbers)
        for routed in route(feed.decode(FS, split, SCHEMA, rejects, time.time), rejects):
            assert routed.key == KEY
            assert routed.batch.schema.names == [column.name for column in SCHEMA.stored]
            numbers += routed.batch.column("N").to_pylist()
        rejects.source.require(len(numbers) - before, rejects.bad, split)
        assert rejects.complete is None, "what completes bad rows of a split is left for the next one"
    return Decoded(numbers, bad)


class FeedContract(ABC):
    """Clauses for every feed. A subclass says in ``case`` how rows come into the source."""

    @pytest.fixture
    @abstractmethod
    def case(self, tmp_path: Path) -> FeedCase:
        """The feed under test, with a source that is empty."""

    def test_the_options_lead_to_the_feed(self, case: FeedCase) -> None:
        assert type(feed_of(case.feed.spec)) is type(case.feed)
        assert resolve_targets(case.feed.spec, SCHEMA)
        assert isinstance(case.feed.options.path, str) and case.feed.options.path

    def test_it_goes_to_workers_by_pickle(self, case: FeedCase) -> None:
        again = pickle.loads(pickle.dumps(case.feed))
        assert type(again) is type(case.feed) and again.spec == case.feed.spec
        assert again.options == case.feed.options and again.resume == case.feed.resume

    def test_rules_of_resuming_are_complete(self, case: FeedCase) -> None:
        assert isinstance(case.feed.resume, ResumeRules) and case.feed.resume.remember_s > 0

    def test_a_split_gives_its_rows_in_order_and_the_same_ones_again(self, case: FeedCase) -> None:
        splits = case.put(rows_of([3, 1, 2, 5]))
        first = decode(case.feed, splits)
        assert first == Decoded([3, 1, 2, 5], [])
        assert decode(pickle.loads(pickle.dumps(case.feed)), splits) == first

    def test_a_bad_row_is_named_and_harms_no_other(self, case: FeedCase) -> None:
        decoded = decode(case.feed, case.put(rows_of([1, BAD, WRONG, 2])))
        assert decoded.numbers == [1, 2]
        assert len(decoded.bad) == 2, "a bad row is lost"
        wrong, bad = sorted(decoded.bad, key=lambda row: str(row.column))
        assert (bad.code, bad.column) == ("null-internal-partition", "Src") and bad.file
        assert (wrong.code, wrong.column) == ("reads-back-as-the-empty-string", "Note")
        assert (wrong.file, wrong.unit) == (bad.file, bad.unit) and wrong.line == bad.line + 1
        assert [case.row(row.payload or b"")["N"] for row in (bad, wrong)] == [0, 0]

    def test_rows_are_counted_by_the_source(self, case: FeedCase, monkeypatch: pytest.MonkeyPatch) -> None:
        splits = case.put(rows_of([1, BAD, WRONG, 2]))
        decode(case.feed, splits)
        route_rows = Router.route
        monkeypatch.setattr(
            Router, "route", lambda router, rows, *more: route_rows(router, rows.part(1, len(rows)), *more)
        )
        with pytest.raises(FeedError, match="another number of rows than were decoded"):
            decode(case.feed, splits)

    def test_late_rows_are_rejected_and_no_others(self, case: FeedCase) -> None:
        (split,) = case.put(rows_of([1, BAD, 2]))
        late: list[BadRow] = []
        rejects = Rejects(case.feed.spec.bad_rows, sink=late.extend)
        again = partial(case.feed.decode, FS, split, SCHEMA, clock=time.time)
        assert reject_late(again, frozenset({KEY}), rejects) == 2
        assert [(row.code, case.row(row.payload or b"")["N"]) for row in late] == [("late", 1), ("late", 2)]
        assert rejects.complete is None and late[0].file == late[1].file

    def test_a_split_of_another_kind_is_refused(self, case: FeedCase) -> None:
        (split,) = case.put(rows_of([1]))
        assert split_of(case.feed, split) is split
        with pytest.raises(SettingsError, match="split type does not match the feed"):
            split_of(case.feed, object())
