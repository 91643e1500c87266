"""Intraday data of user tables: every reader shows its rows, each once, and none without the setting."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from sparkhaven import open_table, save_table, sql
from sparkhaven.jobs.cli.reading.stats import list_tables, table_figures
from sparkhaven.readers.checks.verify import verify
from sparkhaven.store.errors import CorruptFileError, SettingsError, SnapshotMovedError, TableNotFoundError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import USER_INTRADAY, Layout, TableName
from sparkhaven.store.places import TablePlace
from tests.contracts.readers.user_intraday import WHOLE, UserIntradayContract
from tests.support.commands import run, run_json
from tests.support.tables.live_tables import Engine
from tests.support.tables.user_intraday import LIVE, NAME, SAVED, UserIntraday, rows

DEFINED = TableName("me", "T")


class TestArrow(UserIntradayContract):
    def numbers(self, root: Path) -> list[int]:
        return sorted(open_table(root, "me.T").to_arrow()["N"].to_pylist())


class TestReadCommand(UserIntradayContract):
    def numbers(self, root: Path) -> list[int]:
        out = root.parent / "numbers.parquet"
        done = run(root, "read", "me.T", "--columns", "N", "--out", str(out))
        assert done.exit_code == 0, done.stderr
        return sorted(pq.read_table(out)["N"].to_pylist())


class TestSql(UserIntradayContract):
    def numbers(self, root: Path) -> list[int]:
        return sorted(sql(root, "SELECT N FROM me.T")["N"].to_pylist())


class TestServed(UserIntradayContract):
    def numbers(self, root: Path) -> list[int]:
        return sorted(Engine(root).attach("me_T").column("N"))


class TestStats(UserIntradayContract):
    """It shows how many rows there are."""

    def numbers(self, root: Path) -> list[int]:
        rows_of = list_tables(Fs(), Layout(root))[0]["rows"]
        stats = table_figures(TablePlace(Fs(), Layout(root), DEFINED))
        assert stats["rows"] == rows_of and stats["waste"] == 0
        numbers = sorted(open_table(root, "me.T").to_arrow()["N"].to_pylist())
        assert len(numbers) == rows_of
        return numbers


def test_tiers_and_dates(program: UserIntraday) -> None:
    table = open_table(program.root, "me.T")

    def numbers(**chosen: object) -> list[int]:
        return sorted(table.to_arrow(**chosen)["N"].to_pylist())  # type: ignore[arg-type]

    assert numbers(tier="history") == [1, 2, 3]
    assert numbers(tier="intraday") == [3, 4, 7, 8, 9]
    assert numbers(dates=LIVE, sources="other") == [9]
    assert numbers(where="N > 2 and Text != 't8'") == [3, 7, 9]
    with pytest.raises(TableNotFoundError, match="another tier has it"):
        numbers(dates=LIVE, tier="history")


def test_an_open_table_keeps_its_rows(program: UserIntraday) -> None:
    table = open_table(program.root, "me.T")
    program.append("host", LIVE, 10)
    assert sorted(table.to_arrow()["N"].to_pylist()) == WHOLE


def test_a_served_table_grows_and_ends_when_rows_are_gone(program: UserIntraday) -> None:
    engine = Engine(program.root)
    attached = engine.attach("me_T")
    program.append("host", LIVE, 10)
    program.append("host", "2026-01-04", 11)
    engine.look(1.0)
    assert sorted(attached.column("N")) == [*WHOLE, 10, 11] and attached.errors == []
    (program.location / "other" / LIVE / "T" / "table.size").unlink()
    engine.look(1.0)
    assert [type(error) for error in attached.errors][:1] == [SnapshotMovedError]
    engine.look(1.0)
    assert sorted(engine.attach("me_T").column("N")) == [1, 2, 3, 7, 8, 10, 11]


@pytest.mark.parametrize("deep", [False, True], ids=["shallow", "deep"])
def test_verify_counts_and_finds_nothing(program: UserIntraday, deep: bool) -> None:
    report = verify(Fs(), Layout(program.root), deep=deep)
    assert report.findings == []
    assert (report.locations, report.rows) == (5, 8)


@pytest.mark.parametrize("name", ["N.dat", "Text.sym.bytes", "table.tbl", "table.size"])
def test_damage_is_found_and_no_row_is_wrong(program: UserIntraday, name: str) -> None:
    path = program.location / "host" / LIVE / "T" / name
    data = path.read_bytes()
    other = {"Text.sym.bytes": data.replace(b"t7", b"t0"), "table.size": data[:-1]}
    path.write_bytes(other.get(name, data[:-1] + bytes([data[-1] ^ 1])))
    code, report = run_json(program.root, "verify", "me.T", "--deep")
    errors = [json.dumps(finding) for finding in report["findings"] if finding["severity"] == "error"]
    assert code == 1 and any(f"{LIVE}/T/{name}" in error for error in errors), errors
    if name in ("N.dat", "Text.sym.bytes", "table.size"):
        with pytest.raises(CorruptFileError):
            open_table(program.root, "me.T", checksum_verify="open").to_arrow()


def test_data_without_a_definition_and_of_a_splayed_table_is_named(program: UserIntraday) -> None:
    stray = program.root / NAME / "me" / "Gone"
    stray.mkdir()
    (program.root / NAME / "me" / "One" / "host" / LIVE / "One").mkdir(parents=True)
    save_table(program.root, "me.One", rows(SAVED, 1))
    report = verify(Fs(), Layout(program.root))
    assert [(finding.code, finding.what) for finding in report.findings] == [
        ("W333", "directory of intraday data that nothing reads"),
        ("W334", "directory of intraday data of no user table"),
    ]


@pytest.mark.parametrize("name", ["Systems", "Intraday", "../other", ".hidden", "a/b"])
def test_a_directory_with_other_content_is_refused(
    program: UserIntraday, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(USER_INTRADAY, name)
    with pytest.raises(SettingsError, match="cannot have intraday data of user tables"):
        open_table(program.root, "me.T")
    done = run(program.root, "read", "me.T")
    assert done.exit_code == 2 and USER_INTRADAY in done.stderr
