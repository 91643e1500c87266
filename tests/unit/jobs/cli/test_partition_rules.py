"""A partition rule that changes under a stream with rows: refused with both rules, until it is accepted by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sparkhaven.jobs.dataframes.frame_writer import deephaven_writer
from sparkhaven.jobs.monitor.logs.log_tables import ADMIN
from sparkhaven.store.epochs.reading.stream_state import load_stream
from sparkhaven.store.errors import SettingsError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, TableName
from sparkhaven.store.places import StreamPlace
from tests.support.commands import run, run_json
from tests.support.streams.log_rows import rows_of

SCHEMA = """<Table namespace="F" name="T" storageType="NestedPartitionedOnDisk">
  <Partitions keyFormula="${autobalance_single}"/>
  <Column name="Date" dataType="String" columnType="Partitioning"/>
  <Column name="Sym" dataType="String"/><Column name="Venue" dataType="String"/>
  <Column name="At" dataType="Instant"/><Column name="Sent" dataType="Instant"/>
</Table>
"""
STREAM = """name = "s"
table = "F.T"
schema = "F.T.schema"
[feed]
type = "files"
path = "feed/*.json"
settle = "0 s"
[columns]
Ms = {{ unit = "ms" }}
{columns}
[partition]
internal = {internal}
value = {value}
clock = {clock}
{more}
"""
USUAL = {
    "internal": '{ column = "Sym" }',
    "value": '{ column = "At", zone = "UTC" }',
    "clock": '"2026-11-20T12:00:00Z"',
    "columns": "",
    "more": "",
}
CHANGES: dict[str, dict[str, str]] = {
    "zone": {"value": '{ column = "At", zone = "America/New_York" }'},
    "format": {"value": '{ column = "At", format = "yyyy-MM-dd-HH" }'},
    "value column": {"value": '{ column = "Sent" }'},
    "fixed value": {"value": '{ fixed = "all" }'},
    "internal column": {"internal": '{ column = "Venue" }'},
    "internal kind": {"internal": '{ meta = "file" }'},
    "fixed internal": {"internal": '{ fixed = "0" }'},
    "field of the column": {"columns": 'At = { from = "Sent" }'},
    "zone of the column": {"columns": 'At = { zone = "Asia/Tokyo" }'},
    "unit of the column": {"columns": 'At = { unit = "ms" }'},
    "blanks of the internal column": {"columns": "Sym = { trim = true }"},
}
SAME: dict[str, dict[str, str]] = {
    "clock": {"clock": '"2026-11-20T13:00:00Z"'},
    "bounds": {"more": 'max_past = "90 d"\nbounds = "fail"\nlate = "quarantine"'},
    "other columns": {"columns": 'Sent = { zone = "Asia/Tokyo" }\nAt = { far = "null" }'},
    "blanks of others": {"columns": "At = { trim = true }\nVenue = { trim = true }"},
    "what is usual": {"value": '{ column = "At" }'},
}


def write(base: Path, **changes: str) -> str:
    settings = {**USUAL, **changes}
    (base / "F.T.schema").write_text(SCHEMA)
    text = STREAM.format(**settings).replace('Ms = { unit = "ms" }\n', "")
    (base / "s.toml").write_text(text)
    return str(base / "s.toml")


def put(base: Path, name: str) -> None:
    (base / "feed").mkdir(exist_ok=True)
    at = "2026-11-20T03:00:00Z"
    row = {"Sym": "A", "Venue": "N", "At": at, "Sent": at}
    (base / "feed" / name).write_text(json.dumps(row) + "\n")


def ingest(base: Path, *words: str) -> Any:
    return run(base / "db", "ingest", base / "s.toml", "--once", "--local", *words)


@pytest.fixture
def begun(tmp_path: Path) -> Path:
    """A stream with one row."""
    write(tmp_path)
    put(tmp_path, "1.json")
    assert ingest(tmp_path).exit_code == 0
    put(tmp_path, "2.json")
    return tmp_path


def epoch(base: Path) -> int:
    return load_stream(StreamPlace(Fs(), Layout(base / "db"), TableName("F", "T"), "s")).epoch


@pytest.mark.parametrize("change", CHANGES)
def test_another_rule_is_refused_and_named(begun: Path, change: str) -> None:
    file = write(begun, **CHANGES[change])
    for words in (("--once", "--local"), ("--dry-run",)):
        found = run(begun / "db", "ingest", file, *words)
        assert found.exit_code == 2, found.output
        assert "the partition rule of a stream has changed" in found.stderr
        assert 'expected: internal.column = "Sym", value.column = "At"' in found.stderr
        assert f"ingest {file} --accept-rule" in found.stderr and "found: " in found.stderr
    assert epoch(begun) == 1
    assert ingest(begun, "--accept-rule").exit_code == 0
    assert epoch(begun) == 2


@pytest.mark.parametrize("change", SAME)
def test_what_moves_no_row_is_no_other_rule(begun: Path, change: str) -> None:
    write(begun, **SAME[change])
    assert ingest(begun).exit_code == 0
    assert epoch(begun) == 2


def test_an_accepted_rule_is_logged_once_and_the_one_before_is_another_again(
    begun: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARKHAVEN_LOGS", "on")
    file = write(begun, **CHANGES["zone"])
    code, plan = run_json(begun / "db", "ingest", file, "--dry-run", "--accept-rule")
    assert code == 0
    assert (plan["rule"]["before"]["value.zone"], plan["rule"]["now"]["value.zone"]) == ("UTC", "America/New_York")
    for _ in range(2):
        assert ingest(begun, "--accept-rule").exit_code == 0
    (row,) = rows_of(begun / "db", ADMIN)
    assert (row["Command"], row["Arguments"], row["TableName"], row["Outcome"]) == (
        "ingest",
        "s: --accept-rule",
        "T",
        "done",
    )
    assert '"America/New_York" instead of' in row["Message"] and '"UTC"' in row["Message"]
    assert ingest(begun).exit_code == 0  # a later start asks no more
    write(begun)
    found = ingest(begun)
    assert found.exit_code == 2 and 'value.zone = "America/New_York"' in found.stderr
    assert ingest(begun, "--accept-rule").exit_code == 0


def test_a_stream_without_an_epoch_takes_any_rule(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "feed").mkdir()
    ingest(tmp_path)
    write(tmp_path, **CHANGES["zone"])
    put(tmp_path, "1.json")
    assert ingest(tmp_path).exit_code == 0 and epoch(tmp_path) == 1


def test_the_rule_outlives_rollback_compaction_and_a_rebuilt_log(begun: Path) -> None:
    assert ingest(begun).exit_code == 0
    assert run(begun / "db", "epochs", "rollback", "F.T", "s", "--to", "1").exit_code == 0
    write(begun, **CHANGES["zone"])
    assert ingest(begun).exit_code == 2


def test_doctor_and_requeue_tell_of_another_rule(begun: Path) -> None:
    (begun / "feed" / "3.json").write_text('{"Sym": "A", "Venue": "N", "At": "soon", "Sent": null}\n')
    write(begun, more="[bad_rows]\nmax_fraction = 1.0")
    assert ingest(begun).exit_code == 0
    file = write(begun, more="[bad_rows]\nmax_fraction = 1.0", **CHANGES["zone"])
    said = run(begun / "db", "doctor", "F.T", file)
    told = run(begun / "db", "doctor", file) if said.exit_code == 2 else said
    assert "its file has another partition rule" in told.output and "--accept-rule" in told.output
    for words in ((), ("--dry-run",)):
        found = run(begun / "db", "quarantine", "requeue", "F.T", "s", file, *words)
        assert found.exit_code == 2 and "the partition rule of a stream has changed" in found.stderr
    assert epoch(begun) == 2


def test_a_writer_of_frames_keeps_the_rule(tmp_path: Path) -> None:
    (tmp_path / "F.T.schema").write_text(SCHEMA)
    place = StreamPlace(Fs(), Layout(tmp_path / "db"), TableName("F", "T"), "f")

    def opened(**options: Any) -> None:
        rule = {"internal": "Sym", "value": "At", **options}
        with deephaven_writer(tmp_path / "db", "F.T", "f", schema=tmp_path / "F.T.schema", **rule) as writer:
            writer._open("q", None)
            stream = writer._stream
            assert stream is not None
            if not stream.log.state.epoch:
                from sparkhaven.store.epochs.state.log_values import Batch

                stream.log.commit(Batch("q", 0, (), (), 1, 0))

    opened()
    zone = {"value": {"column": "At", "zone": "America/New_York"}}
    for changed in (zone, {"internal": {"fixed": "0"}}):
        with pytest.raises(SettingsError, match="the partition rule of a stream has changed") as refused:
            opened(**changed)
        assert "accept_rule" in str(refused.value.hint)
    opened()
    opened(**zone, accept_rule=True)
    opened(**zone)
    assert load_stream(place).zone == "America/New_York"
    with pytest.raises(SettingsError, match="the partition rule of a stream has changed"):
        opened()
