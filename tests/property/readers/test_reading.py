"""Reads against a plain model and against a reader made of numpy alone; pruning never loses a row."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sparkhaven.readers import open_table
from sparkhaven.readers.arrow.snapshot import pinned_of
from sparkhaven.store.expressions.predicate.expression import parse_predicate
from tests.support.tables import naive_reader
from tests.support.tables.naive_reader import KINDS
from tests.support.tables.small_tables import SmallTable

SCHEMA = """<Table namespace="NS" name="T" storageType="NestedPartitionedOnDisk">
  <Partitions keyFormula="${autobalance_single}"/>
  <Column name="Date" dataType="String" columnType="Partitioning"/>
  <Column name="Flag" dataType="Boolean"/><Column name="B" dataType="byte"/><Column name="C" dataType="char"/>
  <Column name="S" dataType="short"/><Column name="I" dataType="int"/><Column name="L" dataType="long"/>
  <Column name="F" dataType="float"/><Column name="D" dataType="double"/><Column name="At" dataType="Instant"/>
  <Column name="Sym" dataType="String"/><Column name="Note" dataType="String" symbolTable="None"/>
</Table>
"""
TEXTS = st.one_of(
    st.sampled_from(["", "A", "AA", "é", "\U0001f600", "x" * 70]),
    st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=5),
)
FLOAT_NULL, DOUBLE_NULL = -3.4028234663852886e38, -1.7976931348623157e308
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "Flag": st.booleans(),
    "B": st.integers(-127, 127),
    "C": st.integers(0, 0xFFFE),
    "S": st.integers(-(2**15) + 1, 2**15 - 1),
    "I": st.integers(-3, 3) | st.integers(-(2**31) + 1, 2**31 - 1),
    "L": st.integers(-(2**63) + 1, 2**63 - 1),
    "F": st.floats(width=32).filter(lambda value: value != FLOAT_NULL),
    "D": st.sampled_from([0.0, -0.0, 1.5, float("nan")]) | st.floats().filter(lambda value: value != DOUBLE_NULL),
    "At": st.integers(-(2**63) + 1, 2**63 - 1),
    "Sym": TEXTS,
    "Note": TEXTS,
}
SLOW = settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))


@st.composite
def rows(draw: st.DrawFn) -> dict[str, list[Any]]:
    count = draw(st.integers(1, 6))
    columns = {}
    for name, values in VALUES.items():
        whole = draw(st.booleans())
        columns[name] = draw(st.lists(values if whole else st.none() | values, min_size=count, max_size=count))
    return columns


APPENDS = st.tuples(st.sampled_from("ab"), st.sampled_from(["2026-11-20", "2026-11-21"]), rows())
COMMITS = st.lists(st.lists(APPENDS, min_size=1, max_size=2, unique_by=lambda a: a[:2]), min_size=1, max_size=5)


@dataclass
class Model:
    """What is committed: rows of each location, and that at each epoch."""

    locations: dict[tuple[str, str], list[tuple[Any, ...]]] = field(default_factory=dict)
    epochs: list[dict[tuple[str, str], int]] = field(default_factory=lambda: [{}])

    def rows(self, epoch: int) -> list[tuple[Any, ...]]:
        """Rows of an epoch in the order of a read."""
        counts = self.epochs[epoch]
        keys = sorted(counts, key=lambda at: (at[1], at[0]))
        return [(at[1], *row) for at in keys for row in self.locations[at][: counts[at]]]


@contextmanager
def built(commits: list[list[tuple[str, str, dict[str, list[Any]]]]]) -> Iterator[tuple[SmallTable, Model]]:
    with tempfile.TemporaryDirectory() as root:
        small, model = SmallTable(Path(root), SCHEMA), Model()
        for commit in commits:
            committed(small, model, commit)
        yield small, model


def committed(small: SmallTable, model: Model, commit: list[tuple[str, str, dict[str, list[Any]]]]) -> None:
    """One epoch more, in the table and in its model."""
    counts, reports = dict(model.epochs[-1]), []
    for internal, value, columns in commit:
        reports.append(small.append(internal, value, columns))
        location = model.locations.setdefault((internal, value), [])
        location.extend(zip(*(columns[name] for name in KINDS), strict=True))
        counts[internal, value] = len(location)
    small.commit(*reports)
    model.epochs.append(counts)


def plain(table: pa.Table) -> list[tuple[Any, ...]]:
    """Rows as tuples that compare; an Instant as nanoseconds."""
    at = table.schema.get_field_index("At")
    if at >= 0:
        table = table.set_column(at, "At", table["At"].cast(pa.int64()))
    columns = [table[name].to_pylist() for name in table.column_names]
    return [tuple(map(naive_reader.key, row)) for row in zip(*columns, strict=True)]


def keyed(found: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """The same for rows of the model."""
    return [tuple(map(naive_reader.key, row)) for row in found]


@pytest.mark.slow
@SLOW
@given(COMMITS, st.integers(1, 7))
def test_reads_are_the_model_and_the_naive_decoding(commits: Any, batch_rows: int) -> None:
    with built(commits) as (small, model):
        opened = open_table(small.root, "NS.T")
        found = plain(opened.to_arrow())
        assert found == keyed(model.rows(-1))
        batches = list(opened.to_batches(batch_rows=batch_rows, dictionaries=False))
        assert plain(pa.Table.from_batches(batches)) == found
        for slice_ in pinned_of(open_table(small.root, "NS.T")).plan().slices:
            naive = [naive_reader.read(slice_.directory, name, kind, slice_.rows) for name, kind in KINDS.items()]
            location = model.locations[slice_.key.internal, slice_.key.value]
            assert keyed(list(zip(*naive, strict=True))) == keyed(location)


@pytest.mark.slow
@SLOW
@given(COMMITS, st.data())
def test_every_epoch_and_every_tier_shows_each_row_once(commits: Any, data: st.DataObject) -> None:
    merges = data.draw(st.lists(st.integers(0, len(commits)), max_size=3, unique=True), "commits followed by a merge")
    with built([]) as (small, model):
        for index, commit in enumerate(commits):
            committed(small, model, commit)
            if index in merges:
                small.merge_by_hand("2026-11-20", index)
        for epoch in range(len(model.epochs)):
            opened = open_table(small.root, "NS.T", epoch=epoch)
            expected = sorted(keyed(model.rows(epoch)), key=repr)
            assert sorted(plain(opened.to_arrow()), key=repr) == expected
            assert plain(opened.to_arrow(tier="intraday")) == keyed(model.rows(epoch))


def literal(name: str, value: Any) -> str:
    """A value as a condition writes it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return f"({value})" if value >= 0 else f"(0 - {-value})" if isinstance(value, int) else f"(0.0 - {-value!r})"


@st.composite
def comparisons(draw: st.DrawFn) -> str:
    name = draw(st.sampled_from(["Date", "Flag", "S", "I", "L", "D", "Sym", "Note"]))
    simple = {
        "Date": st.sampled_from(["2026-11-20", "2026-11-21", "2026"]),
        "Flag": st.booleans(),
        "S": st.integers(-100, 100),
        "I": st.integers(-4, 4),
        "L": st.integers(-(2**62), 2**62),
        "D": st.sampled_from([0.0, 1.5, 3.0, 1e300]),
        "Sym": st.sampled_from(["", "A", "B", "é"]),
        "Note": st.sampled_from(["", "A", "x"]),
    }[name]
    operators = ["=", "<>"] if name == "Flag" else ["=", "<>", "<", "<=", ">", ">="]
    text = f"{name} {draw(st.sampled_from(operators))} {literal(name, draw(simple))}"
    return draw(st.sampled_from([text, f"not ({text})", f"{name} is null", f"{name} is not null"]))


PREDICATES = st.recursive(
    comparisons(),
    lambda inner: st.builds("({} {} {})".format, inner, st.sampled_from(["and", "or"]), inner),
    max_leaves=3,
)


@pytest.mark.slow
@SLOW
@given(COMMITS, st.lists(PREDICATES, min_size=1, max_size=8))
def test_pruning_never_loses_a_row(commits: Any, predicates: list[str]) -> None:
    with built(commits) as (small, _):
        opened = open_table(small.root, "NS.T")
        whole = opened.to_arrow()
        for text in predicates:
            predicate = parse_predicate(text, opened.schema)
            expected = plain(whole.filter(predicate.evaluate(whole)))
            assert plain(opened.to_arrow(where=text)) == expected, text
            assert opened.count(where=text) == len(expected)
            shown = plain(opened.to_arrow(["Sym", "Date"], where=text))
            assert shown == [(row[-2], row[0]) for row in expected]
