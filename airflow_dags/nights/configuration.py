"""The configuration file of the DAGs: TOML, read at each parse of a DAG file, checked with errors that name the key.

The file is named by ``SPARKHAVEN_AIRFLOW`` in the environment of Airflow.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

from .commands import Program
from .errors import ConfigurationError
from .health import Limits
from .markets import DAYS, Market, read_holidays
from .options import NightOptions, night_options
from .sections import Section, read_toml

VARIABLE = "SPARKHAVEN_AIRFLOW"
_TABLE = re.compile(r"[A-Za-z_]\w*\.[A-Za-z_]\w*")
_STREAM = re.compile(r'^\s*name\s*=\s*["\']([^"\']+)["\']', re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Schedule:
    """When a DAG runs: a cron expression in a time zone."""

    cron: str
    zone: str


@dataclass(frozen=True, slots=True)
class Nights:
    """The DAG ``end_of_day``."""

    schedule: Schedule
    start: date
    catch_up: bool
    parallel_runs: int
    reports: Path | None

    @property
    def start_at(self) -> datetime:
        """The beginning of the first date, in the zone of the schedule."""
        return datetime(self.start.year, self.start.month, self.start.day, tzinfo=ZoneInfo(self.schedule.zone))


@dataclass(frozen=True, slots=True)
class Retries:
    """How often, how long after, and how long at most for exit code 3."""

    times: int
    delay: timedelta
    longest: timedelta


@dataclass(frozen=True, slots=True)
class Spark:
    """How jobs are submitted. ``env`` is set for spark-submit only."""

    submit: str
    connection: str
    jobs: Path
    zip: Path
    jars: str | None
    conf: Mapping[str, str]
    env: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class TableNight:
    """One table: its market, its streams, and how its dates are merged."""

    name: str
    market: Market
    owner: str
    streams: tuple[Path, ...]
    stream_names: tuple[str, ...]
    local: bool
    options: NightOptions
    settle: timedelta
    patience: timedelta
    poll: timedelta
    min_rows: int
    empty: str
    grace: timedelta
    timeout: timedelta
    date_format: str
    limits: Limits

    @property
    def label(self) -> str:
        """Its name for ids of Airflow, which have dots for groups."""
        return self.name.replace(".", "_")

    def value(self, day: date) -> str:
        """The date as the table writes it."""
        return day.strftime(self.date_format)

    def day(self, value: str) -> date:
        """The date of a value of the table."""
        return datetime.strptime(value, self.date_format).replace(tzinfo=UTC).date()


@dataclass(frozen=True, slots=True)
class Configuration:
    """The whole file. ``spark`` is None where nothing is submitted; ``feeds``: stream files by name of the stream."""

    file: Path
    program: Program
    tags: tuple[str, ...]
    owner: str
    pool: str
    alert: tuple[str, ...]
    timeout: timedelta
    nights: Nights
    retries: Retries
    spark: Spark | None
    tables: Mapping[str, TableNight]
    health: Schedule
    scrub: Schedule
    scrub_nights: int
    catch_up: Schedule
    feeds: Mapping[str, Path]


def named_file(environ: Mapping[str, str] = os.environ) -> Path:
    """The file that the environment names."""
    name = environ.get(VARIABLE)
    if not name:
        raise ConfigurationError(
            "no configuration is named",
            where=f"{VARIABLE} in the environment of Airflow",
            expected="the path of a TOML file",
            hint="copy conf/airflow/flights.toml, change it, and set the variable where Airflow starts",
        )
    return Path(name)


def load(file: Path | None = None, environ: Mapping[str, str] = os.environ) -> Configuration:
    """Reads and checks a file, by default the one that the environment names."""
    file = (file or named_file(environ)).absolute()
    top = read_toml(file, environ)
    program = Program(top.path("program"), top.path("root"))
    owner, pool = top.text("owner", "airflow"), top.text("pool", "default_pool")
    timeout = top.duration("timeout", "6 h")
    markets = {name: _market(name, section) for name, section in top.sections("calendars").items()}
    spark = _spark(top.section("spark")) if "spark" in top else None
    tables = {
        name: _table(name, section, markets, owner, timeout, spark=spark is not None)
        for name, section in top.sections("tables").items()
    }
    if not tables:
        raise ConfigurationError(
            "the configuration has no table", where=file, expected='a section [tables."NS.T"] for each table'
        )
    daily = top.section("end_of_day")
    health, scrub, feeds = top.section("ingest_health"), top.section("scrub"), top.section("catch_up")
    loaded = Configuration(
        file,
        program,
        top.texts("tags"),
        owner,
        pool,
        top.texts("alert"),
        timeout,
        Nights(
            _schedule(daily, "0 22 * * *"),
            daily.day("start"),
            daily.flag("catch_up"),
            daily.whole("parallel_runs", 1, least=1),
            daily.path("reports") if "reports" in daily else None,
        ),
        _retries(top.section("retries")),
        spark,
        tables,
        _schedule(health, "*/5 * * * *"),
        _schedule(scrub, "0 3 * * *"),
        scrub.whole("nights", 7, least=1),
        _schedule(feeds, "0 6 * * *"),
        {_stream_name(feeds, file): file for file in feeds.paths("streams")},
    )
    for section in (daily, health, scrub, feeds, top):
        section.done()
    return loaded


def _schedule(section: Section, default: str) -> Schedule:
    cron, zone = section.text("cron", default), section.text("zone", "UTC")
    if not cron.startswith("@") and len(cron.split()) != 5:
        raise section.wrong("cron", "five fields, like 0 22 * * *, or @daily", cron)
    return Schedule(cron, str(_zone(section, zone)))


def _zone(section: Section, name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise section.wrong("zone", "a time zone like America/New_York or UTC", name) from None


def _market(name: str, section: Section) -> Market:
    zone = _zone(section, section.text("zone"))
    off = section.texts("days_off", ("saturday", "sunday"))
    for day in off:
        if day not in DAYS:
            raise section.wrong("days_off", ", ".join(DAYS), day)
    holidays, early = read_holidays(section.path("holidays")) if "holidays" in section else ({}, {})
    closes = section.clock("close")
    opens = section.clock("open", "00:00")
    section.done()
    return Market(name, zone, opens, closes, frozenset(DAYS.index(day) for day in off), holidays, early)


def _retries(section: Section) -> Retries:
    retries = Retries(section.whole("times", 5), section.duration("delay", "5 min"), section.duration("longest", "1 h"))
    section.done()
    return retries


def _spark(section: Section) -> Spark:
    submit = Spark(
        section.text("submit"),
        section.text("connection", "spark_default"),
        section.path("jobs"),
        section.path("zip"),
        ",".join(section.texts("jars")) or None,
        section.mapping("conf"),
        section.mapping("env"),
    )
    section.done()
    return submit


def _table(
    name: str, section: Section, markets: Mapping[str, Market], owner: str, timeout: timedelta, *, spark: bool
) -> TableNight:
    if not _TABLE.fullmatch(name):
        raise section.wrong("", "Namespace.Table", name)
    calendar = section.text("calendar")
    if calendar not in markets:
        calendars = ", ".join(sorted(markets)) or "none: add [calendars.NAME]"
        raise section.wrong("calendar", f"a calendar of this file: {calendars}", calendar)
    local = section.choice("merge", "spark" if spark else "local", ("spark", "local")) == "local"
    if not local and not spark:
        raise section.wrong("merge", "local, or a section [spark]", "spark", "add [spark], or merge = 'local'")
    streams = section.paths("streams")
    night = TableNight(
        name,
        markets[calendar],
        section.text("owner", owner),
        streams,
        tuple(_stream_name(section, file) for file in streams),
        local,
        night_options(section),
        section.duration("settle", "15 min"),
        section.duration("patience", "12 h"),
        section.duration("poll", "2 min"),
        section.whole("min_rows", 1),
        section.choice("empty", "wait", ("wait", "skip")),
        section.duration("grace", "1 h"),
        section.duration("timeout", "0 s") if "timeout" in section else timeout,
        _date_format(section),
        _limits(section.section("limits")),
    )
    section.done()
    return night


def _date_format(section: Section) -> str:
    text = section.text("date_format", "%Y-%m-%d")
    day = date(2013, 7, 4)
    try:
        if datetime.strptime(day.strftime(text), text).replace(tzinfo=UTC).date() == day:
            return text
    except ValueError:
        pass
    raise section.wrong("date_format", "a format of whole dates, like %Y-%m-%d or %Y%m%d", text)


def _limits(section: Section) -> Limits:
    limits = Limits(
        section.whole("lag") if "lag" in section else None,
        section.duration("age", "0 s") if "age" in section else None,
        section.whole("rejected") if "rejected" in section else None,
        section.duration("window", "1 h"),
    )
    section.done()
    return limits


def _stream_name(section: Section, file: Path) -> str:
    """The name in a stream file; its other keys may need an environment that only the command has."""
    try:
        match = _STREAM.search(file.read_text(encoding="utf-8").partition("\n[")[0])
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError("a stream file cannot be read", where=section.where("streams"), found=error) from None
    if match is None:
        raise ConfigurationError("a stream file has no name", where=file, expected='name = "..." before its sections')
    return match[1]
