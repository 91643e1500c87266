"""``verify``, ``stats`` and ``tables`` of user tables."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from sparkhaven import save_table
from sparkhaven.jobs.cli.main import app
from sparkhaven.jobs.cli.reading.stats import table_figures
from sparkhaven.readers.checks.findings import Finding
from sparkhaven.readers.checks.verify import verify
from sparkhaven.readers.inspect.any_file import inspect_file
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, TableName
from sparkhaven.store.places import TablePlace

ROWS = pa.table({"Day": ["a", "b", "a"], "N": pa.array([1, 2, None], pa.int64()), "On": [[1.5], None, []]})
KINDS = pytest.mark.parametrize("by", [None, "Day"], ids=["splayed", "partitioned"])
NAME = TableName("me", "T")


def found(root: Path, severity: str = "error") -> list[Finding]:
    report = verify(Fs(), Layout(root), NAME, deep=True)
    return [part for part in report.findings if part.severity == severity]


def files(root: Path, name: str) -> list[Path]:
    return sorted(path for path in (root / "Users").rglob(name) if ".old-" not in str(path))


@KINDS
def test_a_sound_table_has_no_finding(tmp_path: Path, by: str | None) -> None:
    for mode in ("append", "append", "replace", "append"):
        save_table(tmp_path, "me.T", ROWS, mode=mode, partition_by=by)  # type: ignore[arg-type]
        report = verify(Fs(), Layout(tmp_path), deep=True)
        assert not report.findings
    assert (report.tables, report.rows, report.locations) == (1, 6, 2 if by else 1)


@KINDS
@pytest.mark.parametrize("name", ["N.dat", "On.bytes", "table.size", "table.tbl"])
def test_every_damage_of_a_file_is_an_error(tmp_path: Path, by: str | None, name: str) -> None:
    save_table(tmp_path, "me.T", ROWS, partition_by=by)
    path = files(tmp_path, name)[0]
    data = path.read_bytes()
    for changed in (None, data[:-1], data[:-3] + bytes(3) if name == "N.dat" else data[:-1] + b"\xff"):
        path.unlink(missing_ok=True)
        if changed is not None:
            path.write_bytes(changed)
        errors = found(tmp_path)
        assert errors, changed
        assert all("mode replace" in (error.hint or "") for error in errors)
    path.write_bytes(data)
    assert not found(tmp_path)


def test_a_definition_of_other_columns_is_an_error(tmp_path: Path) -> None:
    save_table(tmp_path, "me.T", ROWS)
    before = (tmp_path / "Users/me/Definitions/T.tbl").read_bytes()
    save_table(tmp_path, "me.T", ROWS.select(["N"]))
    (tmp_path / "Users/me/Definitions/T.tbl").write_bytes(before)
    assert [error.code for error in found(tmp_path)] == ["E331"]
    save_table(tmp_path, "me.T", ROWS.select(["N"]), mode="append")
    assert not found(tmp_path)


@KINDS
def test_what_an_interrupted_save_left_is_a_warning(tmp_path: Path, by: str | None) -> None:
    save_table(tmp_path, "me.T", ROWS, partition_by=by)
    location = files(tmp_path, "N.dat")[0].parent
    stray = location.with_name(".T.stage-9")
    stray.mkdir()
    assert [(warning.code, Path(warning.path)) for warning in found(tmp_path, "warning")] == [("W332", stray)]
    save_table(tmp_path, "me.T", ROWS, mode="append")
    assert not found(tmp_path, "warning")


@KINDS
def test_figures_count_rows_and_what_is_replaced(tmp_path: Path, by: str | None) -> None:
    for _ in range(2):
        save_table(tmp_path, "me.T", ROWS, partition_by=by)
    figures = table_figures(TablePlace(Fs(), Layout(tmp_path), NAME))
    assert (figures["rows"], figures["streams"]) == (3, [])
    assert figures["bytes"] > 0
    assert figures["waste"] > 4096
    assert [line["date"] for line in figures["dates"]] == (["a", "b"] if by else [])


def test_inspect_shows_record_and_lock(tmp_path: Path) -> None:
    save_table(tmp_path, "me.T", ROWS, partition_by="Day")
    record = tmp_path / "Users/me/Definitions/.T.locations"
    shown = inspect_file(Fs(), record)
    assert (shown.sound, shown.facts["locations"]) == (True, {"0/a": 2, "0/b": 1})
    lock = inspect_file(Fs(), record.with_name(".T-LOCKFILE"))
    assert (lock.kind, lock.sound, lock.facts["held"]) == ("lock of a user table", True, False)
    record.write_bytes(record.read_bytes()[:-1])
    assert not inspect_file(Fs(), record).sound


@KINDS
def test_commands_take_user_tables(tmp_path: Path, by: str | None) -> None:
    save_table(tmp_path, "me.T", ROWS, partition_by=by)
    for command, part in (
        (["tables"], '"rows": 3'),
        (["stats", "me.T"], '"rows": 3'),
        (["verify", "me.T", "--deep"], '"errors": 0'),
        (["read", "me.T", "--where", "N = 2"], '"rows": 1'),
        (["sql", "select sum(N) as total from me.T"], '"total": 3'),
    ):
        result = CliRunner().invoke(app, ["--root", str(tmp_path), "--json", *command])
        assert result.exit_code == 0, result.output
        json.loads(result.stdout.splitlines()[0])
        assert part in result.stdout, result.stdout
    result = CliRunner().invoke(app, ["--root", str(tmp_path), "stats"])
    assert result.exit_code == 0, result.output
    assert "me.T: 3 rows" in result.stdout
