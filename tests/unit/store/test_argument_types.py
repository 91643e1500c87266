"""Values of wrong types at the public calls: one error says what, where, expected and found."""

from __future__ import annotations

import datetime
import inspect
from typing import Any

import numpy as np
import pandas as pd
import pytest

import sparkhaven
from sparkhaven.readers import Snapshot
from sparkhaven.store.argument_types import _accepted
from sparkhaven.store.errors import SettingsError, SparkhavenError
from sparkhaven.testing import make_table

DAY = "2026-11-20"
WRONG = {
    "number": 1.5,
    "bytes": b"x",
    "dict": {1: 1},
    "list of numbers": [1, 2],
    "date": datetime.date(2026, 11, 20),
    "object": object(),
}
CALLS: dict[str, Any] = {
    "where": lambda t, value: t.snapshot().to_arrow(where=value),
    "columns": lambda t, value: t.to_arrow(columns=value),
    "sources": lambda t, value: t.snapshot().count(sources=value),
    "dates": lambda t, value: t.merge(dates=value),
    "dates of a read": lambda t, value: t.head(dates=value),
    "epoch": lambda t, value: t.snapshot(epoch=value),
    "as_of": lambda t, value: t.snapshot(as_of=value),
    "tier": lambda t, value: t.snapshot().count(tier=value),
    "a condition": lambda t, value: t.delete_rows(value),
    "a stream": lambda t, value: t.undo(value, epoch=1),
    "a keyword": lambda t, value: t.merge(DAY, dedupe=value),
    "a dict": lambda t, value: t.rewrite_columns(dates=DAY, rename=value),
    "a dict of values": lambda t, value: t.rewrite_columns(dates=DAY, set=value),
    "a query": lambda t, value: sparkhaven.sql(t.root, value),
    "a root": lambda t, value: sparkhaven.Database(value),
}


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> sparkhaven.Table:
    root = tmp_path_factory.mktemp("types") / "db"
    make_table(root, "NS.T", {"V": [1, 2]}, date=DAY)
    return sparkhaven.Database(root).table("NS.T")


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("kind", WRONG)
def test_a_value_of_a_wrong_type_is_one_error_of_ours(table: sparkhaven.Table, call: str, kind: str) -> None:
    with pytest.raises(SettingsError, match="of a wrong type") as error:
        CALLS[call](table, WRONG[kind])
    assert error.value.where and error.value.expected and type(WRONG[kind]).__name__ in str(error.value.found)


@pytest.mark.parametrize("call", ["where", "epoch", "dates", "a dict"])
@pytest.mark.parametrize("value", [True, "x", None, [], {}], ids=repr)
def test_no_other_value_ends_in_an_error_of_python(table: sparkhaven.Table, call: str, value: object) -> None:
    try:
        CALLS[call](table, value)
    except SparkhavenError as error:
        assert error.expected is not None


def test_values_of_other_libraries_are_what_they_say(table: sparkhaven.Table) -> None:
    snap = table.snapshot(epoch=np.int64(1), as_of=None)
    assert snap.count(dates=np.array([DAY])) == snap.count(dates=pd.Series([DAY])) == 2
    assert snap.to_arrow(columns=(name for name in ["V"])).num_rows == 2
    assert snap.head(np.int32(1)).num_rows == 1
    assert table.snapshot(as_of=pd.Timestamp.now(tz="UTC")).count() == 2


def test_the_public_calls_have_annotations_that_are_checked() -> None:
    """A new parameter of another type is checked too, or named here."""
    unchecked = set()
    for owner in (sparkhaven.Table, sparkhaven.Database, Snapshot):
        for name, member in vars(owner).items():
            if inspect.isfunction(member) and name[0] != "_":
                parameters = [p for p in inspect.signature(member).parameters.values() if p.name != "self"]
                named = [p for p in parameters if p.kind is not p.VAR_KEYWORD and not _accepted(str(p.annotation))]
                unchecked |= {str(parameter.annotation) for parameter in named}
    assert unchecked == {"Any", "Progress", "SparkSession", "Callable[[int], object] | None"}
