"""Values of a result that few types hold: each way out shows them as they are, or says that it cannot."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sparkhaven
from sparkhaven.store.errors import SettingsError
from tests.support.commands import run, run_json
from tests.support.tables.small_tables import SmallTable


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return SmallTable(tmp_path_factory.mktemp("values")).root


FAR = {
    "timestamp '290000-01-01'": "290000-01-01T00:00:00",
    "timestamptz '0044-03-15 (BC) 01:02:03.5'": "-0043-03-15T01:02:03.500+00:00",
    "timestamp_s '290000-01-01'": "290000-01-01T00:00:00",
    "timestamp_ns '2262-04-11 23:47:16.854775806'": "2262-04-11T23:47:16.854775806",
    "date '0044-03-15 (BC)'": "-0043-03-15",
    "date '5881580-07-10'": "5881580-07-10",
    "[timestamp '290000-01-01']": ["290000-01-01T00:00:00"],
    "{'a': date '0001-01-01 (BC)'}": {"a": "0000-01-01"},
    "time '24:00:00'": "24:00:00",
    "time_ns '24:00:00'": "24:00:00",
}


@pytest.mark.parametrize("expression", FAR)
def test_times_of_any_year_are_shown_as_they_are(root: Path, expression: str) -> None:
    code, value = run_json(root, "sql", f"select {expression} v")
    assert (code, value["first"]) == (0, [{"v": FAR[expression]}])
    shown = run(root, "sql", f"select {expression} v").stdout
    texts = FAR[expression]
    assert (texts if isinstance(texts, str) else str(next(iter(texts)))) in shown


def test_files_have_a_far_time_or_refuse_it(root: Path, tmp_path: Path) -> None:
    query = "select timestamp '290000-01-01' v, date '0044-03-15 (BC)' d"
    assert run(root, "sql", query, "--out", str(tmp_path / "a.parquet")).exit_code == 0
    assert pq.read_table(tmp_path / "a.parquet")["v"].cast(pa.int64()).to_pylist() == [9_089_348_860_800_000_000]
    assert sparkhaven.sql(root, query)["v"].cast(pa.int64()).to_pylist() == [9_089_348_860_800_000_000]
    code, value = run_json(root, "sql", query, "--out", str(tmp_path / "a.csv"))
    assert (code, value["error"]["where"], value["error"]["found"]) == (2, "column v", "290000-01-01")
    assert [path.name for path in tmp_path.iterdir()] == ["a.parquet"]
    assert run(root, "sql", "select date '0044-03-15 (BC)' d", "--out", str(tmp_path / "a.csv")).exit_code == 0
    assert (tmp_path / "a.csv").read_text().splitlines()[1] == "-0043-03-15"


UNFIT = {
    "timestamp 'infinity'": "infinite",
    "timestamptz '-infinity'": "-infinity",
    "timestamp_s 'infinity'": "infinite",
    "timestamp_ms '-infinity'": "-infinity",
    "date 'infinity'": "infinite",
    "[date '-infinity', null]": "-infinity",
    "{'a': timestamp 'infinity'}": "infinite",
    "map {'a': timestamp 'infinity'}": "infinite",
    "map {date 'infinity': 1}": "infinite",
    "170141183460469231731687303715884105727::hugeint": "39 digits",
    "3::uhugeint": "UHUGEINT",
    "timetz '12:00:00+01'": "TIME WITH TIME ZONE",
    "'101'::bit": "BIT",
    "[1::bignum]": "BIGNUM",
    "{'a': map {'b': '1'::bit}}": "BIT",
}


@pytest.mark.parametrize("expression", UNFIT)
def test_what_arrow_does_not_have_is_refused_with_a_way(root: Path, tmp_path: Path, expression: str) -> None:
    query = f"select {expression} v"
    with pytest.raises(SettingsError, match=UNFIT[expression]) as caught:
        sparkhaven.sql(root, query)
    assert "VARCHAR" in str(caught.value.hint)
    for more in ((), ("--out", str(tmp_path / "a.parquet")), ("--out", str(tmp_path / "a.csv"))):
        code, value = run_json(root, "sql", query, *more)
        assert (code, value["error"]["type"]) == (2, "SettingsError")
    assert run(root, "sql", f"select ({expression})::varchar v").exit_code == 0
    assert list(tmp_path.iterdir()) == []
