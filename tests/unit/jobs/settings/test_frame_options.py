"""Options of writers of data frames are refused when the writer is made, in the words of a stream file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sparkhaven.ingest.spec import Clock, InternalRule, ValueRule
from sparkhaven.jobs.dataframes.frame_writer import deephaven_writer
from sparkhaven.jobs.settings.frame_options import FrameOptions, frame_options
from sparkhaven.store.errors import InvalidNameError, SettingsError

RIGHT: dict[str, Any] = {"table": "Ns.T", "stream": "ticks", "internal": "Sym", "value": "At"}
DEFAULTS: dict[str, Any] = {"schema": None, "positions": None, "durability": "fsync", "ignore": (), "bounds": None}
DEFAULTS |= {"bad_rows": None, "keep_epochs": 100, "allow_gap": False, "adopt": False}


def made(**changes: Any) -> FrameOptions:
    return frame_options("/db", **{**DEFAULTS, **RIGHT, **changes})


def test_right_options_become_values() -> None:
    plain = made()
    assert (plain.policy.durability, plain.keep_epochs, plain.quarantine, plain.positions) == ("fsync", 100, None, None)
    assert plain.spec.partition.internal == InternalRule("column", "Sym")
    assert plain.spec.partition.value == ValueRule("At")
    assert plain.spec.bad_rows.max_rows == 0
    full = made(
        internal={"fixed": "a"},
        bounds={"clock": "2013-01-01T00:00:00Z", "max_past": "1 d"},
        bad_rows={"max_rows": 5, "quarantine": Path("/q")},
        positions={"partition": "p", "offset": "o"},
        ignore=["x"],
    )
    assert full.spec.partition.clock == Clock("fixed", 1_356_998_400_000_000_000)
    assert (full.quarantine, full.spec.bad_rows.max_rows, full.spec.ignore) == (Path("/q"), 5, ("x",))
    assert made(bad_rows={}).quarantine == Path("/db/.quarantine/ticks")
    assert made(bad_rows={"max_rows": 0}).quarantine is None


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"durability": "FSYNC"}, "durability has a value that is not known"),
        ({"durability": None}, "durability has a value that is not known"),
        ({"keep_epochs": 0}, "keep_epochs: input should be greater"),
        ({"keep_epochs": "5"}, "keep_epochs: input should be a valid integer"),
        ({"bounds": {"max_pst": "1 d"}}, "unknown key 'max_pst'"),
        ({"bounds": {"max_past": 5}}, "max_past: a duration is a number"),
        ({"bounds": {"internal": "x"}}, "bounds has the keys internal or value"),
        ({"bounds": 5}, "bounds is not a table of options"),
        ({"bad_rows": {"max_row": 1}}, "unknown key 'max_row'"),
        ({"bad_rows": True}, "bad_rows is not a table of options"),
        ({"internal": {"colum": "x"}}, "unknown key 'colum'"),
        ({"internal": 5}, "internal: input should be"),
        ({"value": {}}, "value: give one of column, fixed"),
        ({"allow_gap": "no"}, "allow_gap: input should be a valid boolean"),
        ({"adopt": 1}, "adopt: input should be a valid boolean"),
        ({"ignore": "abc"}, "ignore is not a list of columns"),
        ({"ignore": [1]}, "ignore: input should be a valid string"),
        ({"positions": {"partition": "p"}}, "positions lack the column"),
        ({"positions": {"partition": "p", "offset": "p"}}, "positions lack the column"),
        ({"positions": {"partition": "p", "offset": ""}}, "positions lack the column"),
        ({"positions": "p"}, "positions lack the column"),
    ],
)
def test_wrong_options(change: dict[str, Any], what: str) -> None:
    with pytest.raises(SettingsError) as caught:
        deephaven_writer("/db", **{**RIGHT, **change})
    assert caught.value.what.startswith(what)
    assert str(caught.value.where).startswith("stream ticks")


@pytest.mark.parametrize("change", [{"stream": "a/b"}, {"stream": 5}, {"table": "T"}, {"table": None}])
def test_names_that_are_none(change: dict[str, Any]) -> None:
    with pytest.raises(InvalidNameError):
        deephaven_writer("/db", **{**RIGHT, **change})
