"""Options of ``df.write.format("deephaven")`` come as texts; wrong ones are refused before anything is written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sparkhaven.ingest.spec import InternalRule, ValueRule
from sparkhaven.jobs.settings.source_options import WriteOptions, write_options
from sparkhaven.store.errors import InvalidNameError, SettingsError
from sparkhaven.writers.spark.frame_task import PositionColumns

RIGHT = {"root": "/db", "path": "Ns.T", "stream": "ticks", "internal": "Sym", "value": "At"}


def made(*, streaming: bool = False, **changes: Any) -> WriteOptions:
    return write_options({**RIGHT, **changes}, {}, streaming=streaming)


def test_right_options_become_those_of_a_writer_of_frames() -> None:
    plain = made()
    frame = plain.frame
    assert (str(frame.table), frame.stream, frame.root, frame.schema) == ("Ns.T", "ticks", Path("/db"), None)
    assert (frame.policy.durability, frame.keep_epochs, frame.quarantine, frame.positions) == ("fsync", 100, None, None)
    assert frame.spec.partition.internal == InternalRule("column", "Sym")
    assert frame.spec.partition.value == ValueRule("At")
    assert (frame.spec.bad_rows.max_rows, frame.adopt, frame.allow_gap, plain.label) == (0, False, False, None)
    full = made(
        SCHEMA="my.schema",
        internal='{"fixed": "a"}',
        value='{"column": "time", "zone": "America/New_York"}',
        positions='{"partition": "p", "offset": "o", "topic": "t"}',
        Durability="none",
        ignore="x, y,",
        allowgap="TRUE",
        ADOPT="true",
        keepEpochs="7",
        bounds='{"max_past": "1 d"}',
        checkpointLocation="/c",
        queryName="q",
    ).frame
    assert (full.schema, full.policy.durability, full.keep_epochs) == (Path("my.schema"), "none", 7)
    assert full.positions == PositionColumns("p", "o", "t")
    assert (full.spec.ignore, full.allow_gap, full.adopt) == (("x", "y"), True, True)
    assert full.spec.partition.internal == InternalRule("fixed", "a")
    assert full.spec.partition.value.zone == "America/New_York"
    assert made(label="first").label == "first"
    assert made(ignore='["a, b", "c"]').frame.spec.ignore == ("a, b", "c")


@pytest.mark.parametrize(("text", "lossy"), [("a, b", ("a", "b")), ("true", True), ("False", False), ('["a"]', ("a",))])
def test_lossy_is_names_or_a_truth(text: str, lossy: Any) -> None:
    assert made(lossy=text).frame.spec.feed.lossy == lossy  # type: ignore[attr-defined]


def test_bad_rows_are_those_of_a_writer_of_frames() -> None:
    assert made().frame.quarantine is None
    frame = made(badRows='{"max_rows": 7, "max_fraction": 0.25, "allow_null_alias": true}').frame
    assert (frame.spec.bad_rows.max_rows, frame.spec.bad_rows.max_fraction) == (7, 0.25)
    assert (frame.spec.allow_null_alias, frame.quarantine) == (True, Path("/db/.quarantine/ticks"))
    assert made(BADROWS='{"quarantine": "/q"}').frame.quarantine == Path("/q")
    assert made(badRows='{"max_rows": 0}').frame.quarantine is None


def test_a_root_that_is_relative_or_of_the_environment() -> None:
    assert made(root="db").frame.root == Path.cwd() / "db"
    environ = {"SPARKHAVEN_ROOT": "/other"}
    assert write_options(RIGHT, environ, streaming=False).frame.root == Path("/db")
    less = {name: text for name, text in RIGHT.items() if name != "root"}
    assert write_options(less, environ, streaming=False).frame.root == Path("/other")


@pytest.mark.parametrize(
    ("change", "what", "more"),
    [
        ({"keepepoch": "5"}, "unknown option 'keepepoch'", "did you mean 'keepEpochs'?"),
        ({"ALLOW_GAP": "true"}, "unknown option 'ALLOW_GAP'", "did you mean 'allowGap'?"),
        ({"xyz": "5"}, "unknown option 'xyz'", "remove it"),
        ({"BAD_ROWS": "{}"}, "unknown option 'BAD_ROWS'", "did you mean 'badRows'?"),
        ({"quarantine": "/q"}, "'quarantine' is a key of option 'badRows'", '.option("badRows", '),
        ({"max_Fraction": "1"}, "'max_Fraction' is a key of option 'badRows'", "option 'max_Fraction'"),
        ({"badRows": "100"}, "option 'badRows' is not an object in JSON", '{"max_rows": 100'),
        ({"badRows": '{"max_row": 5}'}, "unknown key 'max_row'", "max_rows"),
        ({"root": None}, "option 'root' is missing", "/data/db"),
        ({"stream": None}, "option 'stream' is missing", "ticks"),
        ({"internal": None}, "option 'internal' is missing", "Sym"),
        ({"path": None}, "the write names no table", ".save("),
        (
            {"path": "file:/tmp/spark-warehouse/t"},
            "the write names no table",
            "CREATE TEMPORARY VIEW v USING deephaven",
        ),
        ({"internal": None}, "option 'internal' is missing", "INSERT INTO"),
        ({"columns": "a"}, "option 'columns' is for reads", "INSERT INTO"),
        ({"maxRowsPerTrigger": "5"}, "option 'maxRowsPerTrigger' is for reads", 'df.write.format("deephaven")'),
        ({"owner": "me"}, "a table of Spark's catalog cannot have this format", ".save("),
        ({"root": ""}, "option 'root' is empty", "/data/db"),
        ({"internal": ""}, "option 'internal' is empty", "Sym"),
        ({"value": '{"column": '}, "option 'value' is not JSON", "At"),
        ({"internal": '{"colum": "x"}'}, "unknown key 'colum'", "column"),
        ({"positions": "off"}, "option 'positions' is not JSON", "partition"),
        ({"positions": "[1]"}, "option 'positions' is not an object in JSON", "partition"),
        ({"positions": '{"offset": "o"}'}, "positions lack the column", "partition"),
        ({"bounds": '{"max_pst": "1 d"}'}, "unknown key 'max_pst'", "max_past"),
        ({"bounds": '{"internal": "x"}'}, "bounds has the keys internal or value", "x"),
        ({"ignore": "[1"}, "option 'ignore' is not JSON", "Note"),
        ({"ignore": "[1]"}, "option 'ignore' is not a list of names", "[1]"),
        ({"ignore": '["Note", null]'}, "option 'ignore' is not a list of names", "Note, Extra"),
        ({"allowGap": "yes"}, "option 'allowGap' is not true or false", "yes"),
        ({"adopt": ""}, "option 'adopt' is not true or false", "true"),
        ({"keepEpochs": "0"}, "option 'keepEpochs' is not a whole number from 1 on", "0"),
        ({"keepEpochs": "1e3"}, "option 'keepEpochs' is not a whole number from 1 on", "1e3"),
        ({"durability": "FSYNC"}, "durability has a value that is not known", "fsync"),
        ({"label": "a", "positions": '{"partition": "p", "offset": "o"}'}, "a frame with positions has a label", "a"),
    ],
)
def test_wrong_options(change: dict[str, Any], what: str, more: str) -> None:
    with pytest.raises(SettingsError) as caught:
        made(**change)
    assert caught.value.what.startswith(what)
    assert more in str(caught.value)


def test_a_query_has_no_label_and_its_table_is_named_in_start() -> None:
    with pytest.raises(SettingsError, match="a streaming query has a label"):
        made(streaming=True, label="a")
    with pytest.raises(SettingsError) as caught:
        made(streaming=True, path=None)
    assert caught.value.expected == '.start("Namespace.Table")'


@pytest.mark.parametrize("change", [{"stream": "a/b"}, {"path": "T"}, {"path": "/tmp/x"}, {"path": "a.b/c"}])
def test_names_that_are_none(change: dict[str, Any]) -> None:
    with pytest.raises(InvalidNameError):
        made(**change)
