"""The configuration of the DAGs: what is read, and that each mistake is one error that names the key."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from nights import configuration, options
from nights.configuration import Configuration, load, named_file
from nights.errors import ConfigurationError
from tests.support.docs.console import blocks
from tests.support.places import REPOSITORY

TEXT = """
program = "bin/sparkhaven"
root    = "${ROOT}"
[end_of_day]
start = 2026-01-01
[calendars.tokyo]
zone  = "Asia/Tokyo"
close = "15:00"
[tables."NS.T"]
calendar = "tokyo"
"""
ENVIRON = {"ROOT": "/data/db"}


def read(tmp_path: Path, text: str, environ: dict[str, str] | None = None) -> Configuration:
    path = tmp_path / "nights.toml"
    path.write_text(text, encoding="utf-8")
    return load(path, ENVIRON if environ is None else environ)


def test_the_least_that_is_needed(tmp_path: Path) -> None:
    found = read(tmp_path, TEXT)
    night = found.tables["NS.T"]
    assert (found.program.program, found.program.root) == (tmp_path / "bin/sparkhaven", Path("/data/db"))
    assert found.spark is None and night.local, "without [spark] merges run in a process"
    assert (night.owner, night.label, night.market.name) == ("airflow", "NS_T", "tokyo")
    assert night.value(datetime(2026, 1, 5, tzinfo=UTC).date()) == "2026-01-05"
    assert found.timeout == night.timeout == timedelta(hours=6)
    assert found.nights.start_at.isoformat() == "2026-01-01T00:00:00+00:00" and not found.nights.catch_up


def test_every_key(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text('# a stream\nname = "trades"\ntable = "NS.T"\n\n[feed]\nname = "no"\n')
    (tmp_path / "days.txt").write_text("2026-01-01 New Year's Day\n")
    found = read(
        tmp_path,
        TEXT.replace('[tables."NS.T"]\ncalendar = "tokyo"\n', "").replace(
            'close = "15:00"', 'close = "15:00"\nopen = "09:00"\nholidays = "days.txt"\ndays_off = ["sunday"]'
        )
        + """
[spark]
submit = "/opt/spark/bin/spark-submit"
jobs   = "jobs"
zip    = "sparkhaven.zip"
jars   = ["a.jar", "b.jar"]
conf   = { "spark.ui.enabled" = false, "spark.executor.cores" = 4 }
[catch_up]
streams = ["s.toml"]
[tables."NS.T"]
calendar      = "tokyo"
streams       = ["s.toml"]
owner         = "desk"
merge         = "local"
merge_options = ["--sort", "At"]
patience      = "2 h"
empty         = "skip"
grace         = "90 s"
date_format   = "%Y%m%d"
limits        = { lag = 10, age = "10 min", rejected = 0, window = "1 d" }
""",
    )
    night = found.tables["NS.T"]
    assert (night.stream_names, found.feeds) == (("trades",), {"trades": tmp_path / "s.toml"})
    assert (night.owner, night.local, night.options.merge) == ("desk", True, ("--sort", "At"))
    assert (night.patience, night.grace) == (timedelta(hours=2), timedelta(seconds=90))
    assert night.value(night.day("20260105")) == "20260105"
    assert (night.limits.lag, night.limits.age) == (10, timedelta(minutes=10))
    assert found.spark is not None and found.spark.jars == "a.jar,b.jar"
    assert found.spark.conf == {"spark.ui.enabled": "false", "spark.executor.cores": "4"}
    assert not night.market.is_session(datetime(2026, 1, 1, tzinfo=UTC).date())


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("start = 2026-01-01", "strat = 2026-01-01", "start is missing"),
        (
            "start = 2026-01-01",
            "start = 2026-01-01\ncrno = '@daily'",
            "unknown key crno\n.*\n.*\n  to do: did you mean cron",
        ),
        ("start = 2026-01-01", "start = '1.1.2026'", "a date like 2026-01-31"),
        ("start = 2026-01-01", "start = 2026-01-01\ncron = 'daily'", "five fields"),
        ('zone  = "Asia/Tokyo"', 'zone = "Tokyo"', r"calendars\.tokyo\.zone\n  expected: a time zone"),
        ('close = "15:00"', 'close = "24:30"', "a time of day like 16:00"),
        ('close = "15:00"', 'close = "15:00"\ndays_off = ["caturday"]', "monday, tuesday"),
        ('calendar = "tokyo"', 'calendar = "london"', "a calendar of this file: tokyo"),
        ('calendar = "tokyo"', 'calendar = "tokyo"\ngrace = "soon"', "a duration like"),
        ('calendar = "tokyo"', 'calendar = "tokyo"\nmerge = "spark"', r"add \[spark\]"),
        ('calendar = "tokyo"', 'calendar = "tokyo"\nmerge = "quick"', "expected: spark or local"),
        ('calendar = "tokyo"', 'calendar = "tokyo"\nmin_rows = -1', "0 or more"),
        ('calendar = "tokyo"', 'calendar = "tokyo"\nmin_rows = true', "a whole number"),
        ('calendar = "tokyo"', 'calendar = "tokyo"\ndate_format = "%m-%d"', "a format of whole dates"),
        ('calendar = "tokyo"', 'calendar = "tokyo"\nlimits = { lga = 1 }', "unknown key lga"),
        ('calendar = "tokyo"', 'calendar = "tokyo"\nstreams = ["none.toml"]', "a stream file cannot be read"),
        ('[tables."NS.T"]', "[tables.T]", "expected: Namespace.Table"),
        ('[tables."NS.T"]\ncalendar = "tokyo"\n', "", "the configuration has no table"),
        ('root    = "${ROOT}"', 'root = "${NOWHERE}"', "the environment has no NOWHERE"),
        ('root    = "${ROOT}"', "root = ''", "a text that is not empty"),
        ('root    = "${ROOT}"', "root = 7", "expected: a text\n  found: 7"),
        ("program", "= program", "the configuration is not TOML"),
    ],
)
def test_a_mistake_is_reported_with_its_key(tmp_path: Path, old: str, new: str, said: str) -> None:
    assert old in TEXT
    with pytest.raises(ConfigurationError, match=said) as error:
        read(tmp_path, TEXT.replace(old, new, 1))
    assert "nights.toml" in str(error.value)


def test_a_file_that_is_not_there_and_no_file_at_all(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot be read"):
        load(tmp_path / "none.toml", ENVIRON)
    with pytest.raises(ConfigurationError, match="SPARKHAVEN_AIRFLOW"):
        named_file({})
    assert named_file({"SPARKHAVEN_AIRFLOW": "/etc/nights.toml"}) == Path("/etc/nights.toml")


def test_the_shipped_file_is_accepted() -> None:
    names = ["PROGRAM", "ROOT", "REPORTS"]
    environ = {f"SPARKHAVEN_{name}": f"/x/{name.lower()}" for name in names} | {
        "PYSPARK_PYTHON": "/x/python",
        "SPARK_HOME": "/x",
    }
    found = load(REPOSITORY / "conf" / "airflow" / "flights.toml", environ)
    night = found.tables["Nyc13.Flight"]
    assert not night.local and night.stream_names == ("flights",) and [*found.feeds] == ["flights"]
    assert found.spark is not None and (found.spark.jobs / "merge_dates.py").is_file()


def test_the_page_shows_a_calendar_that_is_accepted_and_has_every_key(tmp_path: Path) -> None:
    page = (REPOSITORY / "docs" / "howto" / "airflow.md").read_text(encoding="utf-8")
    shown, table = ("\n".join(block.lines) for block in blocks(page) if block.language == "toml")
    shown = shown.replace('"new-york-stock', f'"{REPOSITORY}/conf/airflow/new-york-stock')
    found = read(tmp_path, f"{TEXT}{shown}\n[tables.\"NS.U\"]\ncalendar = 'new-york'\n{table}\n")
    assert found.tables["Equity.Trade"].options.retention == timedelta(days=400)
    assert found.tables["NS.U"].market.close_of(date(2026, 11, 27)) == datetime(2026, 11, 27, 18, tzinfo=UTC)
    source = "".join(Path(module.__file__).read_text(encoding="utf-8") for module in (configuration, options))
    keys = set(re.findall(r'\b(?:section|top|daily|scrub|feeds)\.(?!sections?\b)\w+\("(\w+)"', source))
    assert len(keys) > 35
    assert sorted(key for key in keys if not re.search(rf"\b{key}\b", page.partition("## All keys")[2])) == []


def test_paths_are_of_this_machine(tmp_path: Path) -> None:
    for url in ("file:///data/a%20b", "file:/data/a b", "file://localhost/data/a%20b"):
        assert read(tmp_path, TEXT, {"ROOT": url}).program.root == Path("/data/a b")
    assert read(tmp_path, TEXT, {"ROOT": "C:/db"}).program.root == tmp_path / "C:/db"
    for url in ("s3://bucket/db", "hdfs:///db", "dbfs:/db", "file://host/db", "file://"):
        with pytest.raises(ConfigurationError, match="mount it") as caught:
            read(tmp_path, TEXT, {"ROOT": url})
        assert "root" in str(caught.value) and url in str(caught.value)
