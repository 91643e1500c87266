"""Faults of the past, each as it was, with what has been built against it taken away: histories have to see them.

``planted`` puts one back into this process. As a plugin, ``pytest -p tests.crash.histories.faults``, the module puts
back the one that ``PUT_BACK`` names: for faults that no history can meet, since its feeds are plain.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

VARIABLE = "PUT_BACK"


class Changed(NamedTuple):
    """An attribute of a module or class, and what it was when the fault was there."""

    holder: Any
    name: str
    former: object


@dataclass(frozen=True)
class PastFault:
    """``said``: what went wrong. ``test``: what sees it where no history can meet it, and ``why`` none can."""

    said: str
    changed: Callable[[], Sequence[Changed]]
    test: str = ""
    why: str = ""


@contextmanager
def planted(name: str) -> Iterator[None]:
    """The fault is in this process meanwhile."""
    changes = [patch.object(holder, attribute, former) for holder, attribute, former in FAULTS[name].changed()]
    for change in changes:
        change.start()
    try:
        yield
    finally:
        for change in reversed(changes):
            change.stop()


def pytest_configure() -> None:
    for holder, attribute, former in FAULTS[os.environ[VARIABLE]].changed():
        setattr(holder, attribute, former)


def _nothing(*_: object, **__: object) -> None:
    """A check that is not made."""


# --- deletions -----------------------------------------------------------------------------------------------


def _last_slice_alone() -> Sequence[Changed]:
    from sparkhaven.readers.arrow.pinned_table import matching_rows
    from sparkhaven.store.merges.merge_records import MergeRecord
    from sparkhaven.store.places import TablePlace
    from sparkhaven.store.types.row_ranges import RowRanges
    from sparkhaven.writers.rewrites.row_deletion import DeletionPlanner

    def matching(self: Any, place: TablePlace, base: MergeRecord) -> Mapping[str, RowRanges]:
        opened, predicate = self._opened(place)
        slices = opened.plan(dates=[base.value], tier="history", where=predicate).slices
        return {slice_.key.internal: rows for slice_, rows in matching_rows(opened, slices, predicate)}

    return Changed(DeletionPlanner, "_matching", matching), Changed(DeletionPlanner, "_require_gone", _nothing)


def _tree_of_no_rows_stays() -> Sequence[Changed]:
    from sparkhaven.store.errors import TableNotFoundError
    from sparkhaven.writers.transfer import extended
    from sparkhaven.writers.transfer.export_plan import ExportPlan, plan_export

    run = extended._Follow.run

    def plan(table: Any, options: Any, **_: object) -> ExportPlan:
        return plan_export(table, options)

    def follow(self: Any) -> object:
        try:
            return run(self)
        except TableNotFoundError:  # there are no rows to export
            return extended.Followed(self.root, (), ())

    return Changed(extended, "plan_export", plan), Changed(extended._Follow, "run", follow)


# --- indexes -------------------------------------------------------------------------------------------------


def _one_run_of_second_keys() -> Sequence[Changed]:
    import numpy as np

    from sparkhaven.store.scan.index_file import IndexFile
    from sparkhaven.store.types.row_ranges import RowRanges

    def find(self: Any, wanted: Sequence[Sequence[Any]]) -> RowRanges:
        spans = [(0, len(self.keys[0]))]
        for column, keys in zip(self.keys, wanted, strict=False):
            parts = (column.equal(span, order) for span in spans for order in column.orders(keys))
            spans = [(low, high) for low, high in parts if low < high]
        pairs = [self._rows_of(low, high) for low, high in sorted(set(spans))]
        starts, stops = ([pair[side] for pair in pairs] or [np.empty(0, np.int64)] for side in (0, 1))
        return RowRanges.joined(np.concatenate(starts), np.concatenate(stops))

    return (Changed(IndexFile, "find", find),)


# --- the same content ----------------------------------------------------------------------------------------


def _content_by_columns() -> Sequence[Changed]:
    from sparkhaven.store.merges.history import totals
    from sparkhaven.writers.transfer import content, table_files

    def content_digest(place: Any, pinned: Any, records: Sequence[Any]) -> str:
        intraday = {
            f"{stream}/{key.internal}/{key.value}": {name: [f.size, f.crc] for name, f in location.files.items()}
            | ({"": location.withdrawn.edges} if location.withdrawn else {})
            for stream in pinned.epochs
            for key, location in pinned.pin(stream).state.locations.items()
            if location.rows and not location.truncated
        }
        return content._digest({"intraday": intraday, "history": {r.value: list(totals(r)) for r in records}})

    return tuple(Changed(module, "content_digest", content_digest) for module in (content, table_files))


def _compared_by_columns() -> Sequence[Changed]:
    from sparkhaven.readers import compare

    digests = compare._Comparison._digests

    def by_columns(self: Any, mine: Any, theirs: Any) -> object:
        found = digests(self, mine, theirs)
        return compare._Equal(all(found.columns.values()), found.columns)

    return (Changed(compare._Comparison, "_digests", by_columns),)


def _kept_by_counts() -> Sequence[Changed]:
    from sparkhaven.store.merges import history
    from sparkhaven.store.merges.merge_records import MergeRecord
    from sparkhaven.store.scan import history_pins

    def keeps_rows(before: MergeRecord | None, after: MergeRecord, columns: Collection[int]) -> bool:
        old, new = history._taken(before), history._taken(after)
        if old == new:
            return before is not None and history.totals(before) == history.totals(after)
        if before is not None and (before.corrections, before.deletions) != (after.corrections, after.deletions):
            return False
        came = {key: count - old.get(key, 0) for key, count in new.items()}
        if (before is None and after.changed_by_command) or any(count < 0 for count in came.values()):
            return False
        if not old.keys() <= new.keys() or any(came[taken.key] and taken.epoch < 0 for taken in after.inputs):
            return False
        return history.totals(after)[0] == history.totals(before)[0] + sum(came.values())

    return (Changed(history_pins, "keeps_rows", keeps_rows),)


def _no_rows_for_no_merge() -> Sequence[Changed]:
    from sparkhaven.store.scan.history_pins import HistoryPin

    return (Changed(HistoryPin, "_untold", lambda self, place, intraday: ()),)


# --- copies --------------------------------------------------------------------------------------------------


def _written_copies() -> Sequence[Changed]:
    from functools import lru_cache

    from sparkhaven.store.io import read_only_roots

    unguarded = lru_cache(1)(_nothing)  # of which the cache is cleared
    return (
        Changed(read_only_roots, "is_copy", lambda root: False),
        Changed(read_only_roots, "_require_writable", unguarded),
    )


def _removed_streams_left_behind() -> Sequence[Changed]:
    from sparkhaven.writers.transfer import restore, snapshots, table_files

    opened = [Changed(module, "require_copy", _nothing) for module in (restore, snapshots)]
    return Changed(table_files, "_removed_streams", _nothing), *opened


def _withdrawn_rows_by_count() -> Sequence[Changed]:
    from sparkhaven.store.format.table.table_size import TableSize
    from sparkhaven.store.merges.merge_records import MergeInput

    def leaves_out(self: Any, withdrawn: Any) -> bool:
        return bool(withdrawn.within(0, self.rows).rows == self.withdrawn)

    def withdraws(self: Any, rows: Any) -> bool:
        return bool(rows.rows == self.withdrawn)

    return Changed(MergeInput, "leaves_out", leaves_out), Changed(TableSize, "withdraws", withdraws)


# --- what feeds bring ----------------------------------------------------------------------------------------


def _no_column_no_row() -> Sequence[Changed]:
    import pyarrow as pa

    from sparkhaven.store import foreign_parquet
    from sparkhaven.store.source_rows import SourceRows

    def record_batch(arrays: Sequence[pa.Array], names: Sequence[str], rows: int) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays(arrays, names)

    return Changed(foreign_parquet, "record_batch", record_batch), Changed(SourceRows, "require", _nothing)


def _columns_of_the_same_case() -> Sequence[Changed]:
    from sparkhaven.store.delta import snapshot

    def find(field: Any, among: Sequence[snapshot.DeltaColumn], mode: str) -> snapshot.DeltaColumn | None:
        return next((column for column in among if column.physical == field.name), None)

    return (Changed(snapshot, "_find", find),)


def _all_files_of_a_tree() -> Sequence[Changed]:
    from sparkhaven.writers.transfer import trees

    def committed_files(fs: object, root: Path, files: Collection[Path]) -> tuple[frozenset[Path], list[Path]]:
        return frozenset(files), []

    return (Changed(trees, "committed_files", committed_files),)


def _any_rule() -> Sequence[Changed]:
    from sparkhaven.jobs.settings import stream_schema
    from sparkhaven.store.epochs import generation

    return Changed(generation, "require_rule", _nothing), Changed(stream_schema, "require_rule", _nothing)


def _absent_fields_are_nulls() -> Sequence[Changed]:
    from sparkhaven.ingest.router import Router

    return (Changed(Router, "_lacking", lambda self, rows: {}),)


def _any_log_of_a_broker() -> Sequence[Changed]:
    from sparkhaven.store.epochs.state.log_values import LastMessage

    return (Changed(LastMessage, "same", lambda self, other: True),)


def _dates_of_todays_calendar() -> Sequence[Changed]:
    from sparkhaven.store import foreign_parquet
    from sparkhaven.store.conversions.hybrid_calendar import HybridCalendar

    none = HybridCalendar(False, False, False)
    return (Changed(foreign_parquet, "hybrid_calendar", lambda _: none),)


def _bytes_in_base64() -> Sequence[Changed]:
    import base64

    import pyarrow as pa

    from sparkhaven.ingest.feeds.delta import source as decode
    from sparkhaven.ingest.feeds.delta import source as partition_values

    right = partition_values.typed_values

    def typed_values(values: Mapping[str, str | None], types: Mapping[str, str | None]) -> dict[str, pa.Scalar]:
        found = right(values, types)
        return {
            name: pa.scalar(base64.b64decode(value.as_py() + b"==")) if pa.types.is_binary(value.type) else value
            for name, value in found.items()
        }

    return (Changed(decode, "typed_values", typed_values),)


def _years_of_sixteen_bits() -> Sequence[Changed]:
    from sparkhaven.readers.arrow import export
    from sparkhaven.store.instants import timestamp_text

    def text(count: int, unit: str) -> str:
        year, rest = timestamp_text(count, unit).split("-", 1)
        return f"{(int(year) + 2**15) % 2**16 - 2**15}-{rest}"

    return (Changed(export, "timestamp_text", text),)


def _months_are_minutes() -> Sequence[Changed]:
    from sparkhaven.ingest.settings import Period, parse_period
    from sparkhaven.jobs.operations import history_dates

    def period(text: str) -> Period:
        return Period(seconds=60.0 * float(text[:-1])) if text[-1:] in "mM" else parse_period(text)

    return (Changed(history_dates, "parse_period", period),)


_DELTA = "tests/unit/ingest/feeds/test_delta_decode.py"
_PLAIN_FILES = "the files of histories have all columns, under their names"
FAULTS: dict[str, PastFault] = {
    "A1 slices": PastFault("`delete-rows` deletes the rows of the last slice of a location", _last_slice_alone),
    "A1 tree": PastFault(
        "the tree of `ExtendedStorage` keeps the rows of dates that have none", _tree_of_no_rows_stays
    ),
    "A2": PastFault("an index of two columns takes its second keys for one ascending run", _one_run_of_second_keys),
    "A3 copies": PastFault("`mirror` and `restore` compare columns, each by itself", _content_by_columns),
    "A3 compare": PastFault("`compare` compares columns, each by itself", _compared_by_columns),
    "A3 counts": PastFault("open readers take as many rows for the same rows", _kept_by_counts),
    "A3 empty": PastFault("open readers take a record without rows for no merge", _no_rows_for_no_merge),
    "A4": PastFault("commands write into snapshots and mirrors", _written_copies),
    "A5 rows": PastFault("a file read without a column has no rows", _no_column_no_row, _DELTA, _PLAIN_FILES),
    "A5 case": PastFault(
        "a file that writes `ID` for `Id` loses the column", _columns_of_the_same_case, _DELTA, _PLAIN_FILES
    ),
    "A6": PastFault(
        "`import` takes all files of a directory that a table format or a sink manages",
        _all_files_of_a_tree,
        "tests/unit/jobs/cli/test_managed_directories.py",
        "trees of histories are plain directories",
    ),
    "A7": PastFault("another partition rule is taken silently", _any_rule),
    "A8": PastFault(
        "a field that is renamed upstream becomes null",
        _absent_fields_are_nulls,
        "tests/unit/jobs/cli/test_field_contracts.py",
        _PLAIN_FILES,
    ),
    "A9": PastFault(
        "a Kafka log that was put back is read on",
        _any_log_of_a_broker,
        "tests/unit/ingest/feeds/kafka/test_kafka_reader.py",
        "histories have no broker; `tests/kafka/test_put_back.py` has a real one",
    ),
    "A10": PastFault(
        "withdrawn rows are compared by their number",
        _withdrawn_rows_by_count,
        "tests/unit/store/epochs/recovery/test_other_withdrawn_rows.py",
        "histories draw it seldom: none in the first hundred",
    ),
    "A11": PastFault("copies lack the notes of removed streams, and are not opened", _removed_streams_left_behind),
    "A12 dates": PastFault(
        "dates of Spark 2 in Parquet are taken for those of today's calendar",
        _dates_of_todays_calendar,
        "tests/unit/ingest/formats/test_parquet_calendars.py",
        "files of histories are written in today's calendar",
    ),
    "A12 binary": PastFault(
        "binary partition values of Delta are decoded from base64",
        _bytes_in_base64,
        _DELTA,
        "histories have no Delta tables",
    ),
    "A12 years": PastFault(
        "`sql` shows years beyond 32767 as others",
        _years_of_sixteen_bits,
        "tests/unit/readers/sql/test_result_values.py",
        "columns hold no such years",
    ),
    "A12 expire": PastFault(
        "`dates expire --keep 6M` takes months for minutes",
        _months_are_minutes,
        "tests/unit/jobs/cli/history/test_dates.py",
        "histories draw it seldom: none in the first hundred",
    ),
}
