"""Threads that share one order: the same files as without, errors for all who wait, and only where memory has room."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from sparkhaven.store.errors import MergeError
from sparkhaven.store.merges.merge_records import newest
from sparkhaven.writers.merge.executor import LocalExecutor
from sparkhaven.writers.merge.plan.merge_plan import MOVE_BYTES, MergePlan
from sparkhaven.writers.merge.sources.merge_source import BlockSizes
from sparkhaven.writers.merge.write import work_shares as shared_order
from sparkhaven.writers.merge.write.row_order import select
from sparkhaven.writers.merge.write.work_shares import ROW_BYTES, SharedOrder, fits_threads, is_worth_sharing
from tests.support.writers.merge_cases import DAY
from tests.support.writers.merge_runs import history_bytes, make, merge

ROWS, PARALLEL = 300, 100
ANY_TEXTS = BlockSizes(sorted_bytes=0)  # few are enough


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of what executors are given to run."""
    names: list[str] = []
    run = LocalExecutor.run

    def noted(self: LocalExecutor, fn: Callable[[Any], Any], tasks: Sequence[Any]) -> Iterator[Any]:
        names.append(getattr(getattr(fn, "func", fn), "__name__", ""))
        return run(self, fn, tasks)

    monkeypatch.setattr(LocalExecutor, "run", noted)
    return names


@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("sort", ["I", None])
def test_files_and_digests_are_those_of_a_date_in_pieces(
    tmp_path: Path, given: list[str], partitions: int, sort: str | None
) -> None:
    options: dict[str, Any] = {} if sort is None else {"sort": cast("Any", _keys(tmp_path / "keys", sort))}
    plain, _ = make(tmp_path / "plain", ROWS, partitions=partitions)
    merge(plain.layout, **options)
    pieces, _ = make(tmp_path / "pieces", ROWS, partitions=partitions)
    merge(pieces.layout, workers=3, parallel_rows=PARALLEL, max_columns=99, **options)
    assert "order_piece" in given and "order_and_write" not in given
    del given[:]
    shared, _ = make(tmp_path / "shared", ROWS, partitions=partitions)
    merge(shared.layout, workers=3, parallel_rows=PARALLEL, sizes=ANY_TEXTS, **options)
    assert "order_and_write" in given and "order_piece" not in given
    assert history_bytes(shared.layout) == history_bytes(pieces.layout) == history_bytes(plain.layout)
    records = [newest(db.place, DAY) for db in (plain, pieces, shared)]
    proofs = [record.proof for record in records if record is not None]
    assert len(proofs) == 3 and proofs[0] == proofs[1] == proofs[2]


def _keys(root: Path, sort: str) -> object:
    from sparkhaven.store.schema.deployed.deploy import load_deployed
    from sparkhaven.writers.merge.sources.sort_keys import parse_sort

    return parse_sort(sort, load_deployed(make(root, 1)[0].place))


def test_an_order_that_fails_ends_the_merge_and_nobody_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise MergeError("no order", hint="none")

    monkeypatch.setattr(shared_order, "order_of", fail)
    db, _ = make(tmp_path, ROWS, partitions=1)
    with pytest.raises(MergeError, match="no order"):
        merge(db.layout, workers=3, parallel_rows=PARALLEL, sizes=ANY_TEXTS)
    record = newest(db.place, DAY)
    assert record is None or not record.outputs
    assert not list(db.layout.partitions("Test").glob(f"*/{DAY}"))


def test_rows_that_are_missing_from_a_source_are_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fewer(*arguments: Any) -> Any:
        selection = select(*arguments)
        return type(selection)(selection.rows, (selection.counts[0] - 1, *selection.counts[1:]), selection.keys)

    monkeypatch.setattr(shared_order, "select", fewer)
    db, _ = make(tmp_path, ROWS, partitions=1)
    with pytest.raises(MergeError, match="a source changed while it was merged"):
        merge(db.layout, workers=2, parallel_rows=PARALLEL, sizes=ANY_TEXTS)


def test_who_waits_gets_the_error_of_the_order(tmp_path: Path) -> None:
    plan = cast("MergePlan", SimpleNamespace(ordering=(), destinations=(), columns=()))
    shared = SharedOrder(cast("Any", None), plan)
    with pytest.raises(AttributeError):
        shared.find()
    with pytest.raises(AttributeError):
        shared._ordered.result(0)


@pytest.mark.parametrize("spare", [-1, 0])
def test_a_date_has_to_fit_memory_with_its_order(spare: int) -> None:
    room = 1000 * (60 + ROW_BYTES + MOVE_BYTES) + spare
    plan = SimpleNamespace(rows=1000, row_cost=lambda: 60, usable=lambda: room)
    assert fits_threads(cast("MergePlan", plan)) is (spare == 0)


@pytest.mark.parametrize(("bytes_a_row", "shared"), [(8, True), (7, False)])
def test_an_order_is_shared_where_texts_take_as_long(
    monkeypatch: pytest.MonkeyPatch, bytes_a_row: int, shared: bool
) -> None:
    monkeypatch.setattr(shared_order, "late_columns", lambda plan: plan.columns)
    monkeypatch.setattr(shared_order, "stored_texts", lambda plan, column: column * bytes_a_row)
    options = SimpleNamespace(sizes=BlockSizes(sorted_bytes=8))
    for columns, expected in (((100, 1000, 10), shared), ((), False)):
        plan = SimpleNamespace(rows=1000, columns=columns, row_cost=lambda: 60, usable=lambda: 2**40, options=options)
        assert is_worth_sharing(cast("MergePlan", plan)) is expected


def test_without_texts_to_sort_pieces_are_ordered_at_once(tmp_path: Path, given: list[str]) -> None:
    db, _ = make(tmp_path, ROWS, partitions=1)
    merge(db.layout, workers=3, parallel_rows=PARALLEL, sizes=BlockSizes(sorted_bytes=1 << 20))
    assert "order_piece" in given and "order_and_write" not in given


def test_numbers_of_rows_have_four_bytes() -> None:
    for rows, fits in ((2**32 - 1, True), (2**32, False)):
        plan = SimpleNamespace(rows=rows, row_cost=lambda: 60, usable=lambda: 2**60)
        assert fits_threads(cast("MergePlan", plan)) is fits
