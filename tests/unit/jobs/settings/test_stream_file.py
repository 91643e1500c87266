"""Stream files: what the values of a correct one mean, and which of them come from the environment."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from sparkhaven.ingest.feeds.delta.planner import DeltaOptions
from sparkhaven.ingest.spec import Clock, ColumnSpec, CsvOptions, InternalRule, Limit, ValueRule
from sparkhaven.jobs.settings.stream_file import load_stream_file
from sparkhaven.store.errors import InvalidNameError, SettingsError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import TableName
from tests.support.ingest.stream_files import FILE, RIGHT, parse, refused


def test_a_right_file_becomes_values() -> None:
    found = parse()
    assert found.table == TableName("Nyc13", "Flight")
    assert found.spec.stream == "flights" and found.spec.table == "Nyc13.Flight"
    assert found.spec.columns == (ColumnSpec("time_hour", "hour", "ms"),)
    assert found.spec.partition.internal == InternalRule("column", "origin")
    assert found.spec.partition.value == ValueRule("time_hour", "America/New_York")
    assert (found.spec.partition.clock, found.spec.partition.max_past_s) == (Clock(), 30 * 86_400)
    assert (found.policy.durability, found.keep_epochs, found.trigger_s) == ("fsync", 100, 1.0)


def test_how_often_a_periodic_stream_syncs() -> None:
    assert parse().policy.loss_window_s == 0.0
    assert parse(('trigger = "1 second"', 'durability = "periodic"')).policy.loss_window_s == 10.0
    assert parse(('trigger = "1 second"', 'durability = "none"')).policy.loss_window_s == math.inf
    found = parse(('trigger = "1 second"', 'durability = "periodic"\nsync_interval = "500 ms"'))
    assert (found.policy.durability, found.policy.loss_window_s) == ("periodic", 0.5)


def test_relative_paths_start_at_the_file() -> None:
    found = parse(("max_rows = 0", 'quarantine = "bad/flights"'))
    assert found.schema_file == Path("/etc/schemas/Nyc13.Flight.schema")
    assert found.spec.feed.path == "/etc/streams/feed/*.json"
    assert found.quarantine == Path("/etc/streams/bad/flights")
    assert parse(("feed/*.json", "/data/x")).spec.feed.path == "/data/x"


def test_values_come_from_the_environment_keys_do_not() -> None:
    found = parse(("feed/*.json", "${PLACE}/x/${PLACE}.json"), environ={"PLACE": "/in"})
    assert found.spec.feed.path == "/in/x//in.json".replace("//", "/")
    assert parse(("feed/*.json", "/in/$${PLACE}")).spec.feed.path == "/in/${PLACE}"
    assert parse(("feed/*.json", "/in/$${")).spec.feed.path == "/in/${"
    assert parse(("feed/*.json", "/in/$$${PLACE")).spec.feed.path == "/in/$${PLACE"
    error = refused(('trigger = "1 second"', '"${KEY}" = 1'), environ={"KEY": "trigger"})
    assert error.what == "unknown key '${KEY}'"


def test_a_value_from_the_environment_stays_one_value_and_out_of_messages() -> None:
    error = refused(('format = "json"', 'format = "${SECRET}"'), environ={"SECRET": 'x"\npath = "hunter2'})
    assert error.found == "${SECRET}" and "hunter2" not in str(error)


def test_a_name_that_is_not_set_is_reported() -> None:
    error = refused(("feed/*.json", "${PLACE}/x"))
    assert error.what == "${PLACE} is not set in the environment"
    assert "export PLACE=" in str(error.hint)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("1 second", 1), ("100 ms", 0.1), ("2s", 2), ("7 d", 604_800), ("1.5 h", 5400), ("3 minutes", 180), ("0 s", 0)],
)
def test_durations(text: str, seconds: float) -> None:
    assert parse(("1 second", text)).trigger_s == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("text", "size"), [('"64MB"', 64_000_000), ('"64 MiB"', 64 << 20), ('"1.5kb"', 1500), ("7", 7)]
)
def test_sizes(text: str, size: int) -> None:
    found = parse(('format = "json"', f"max_per_trigger = {{ bytes = {text}, rows = 5 }}"))
    assert found.spec.feed.max_per_trigger == Limit(bytes=size, rows=5)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("change", "name"),
    [
        (('name = "flights"', 'name = "${NAME}"'), "tiger/9"),
        (('table = "Nyc13.Flight"', 'table = "Nyc13.${NAME}"'), "tiger/9"),
        (('type = "files"', 'type = "${NAME}"'), "tiger/9"),
        (('trigger = "1 second"', 'trigger = "${NAME}"'), "tiger/9"),
        (('"../schemas/Nyc13.Flight.schema"', '"${NAME}"\nfoo = 1'), "tiger/9"),
        (('zone = "America/New_York" }', 'zone = "${NAME}", format = "x" }'), "tiger/9"),
    ],
)
def test_what_comes_from_the_environment_is_never_shown(change: tuple[str, str], name: str) -> None:
    error = refused_any(change, {"NAME": name})
    assert "tiger" not in str(error)


def refused_any(change: tuple[str, str], environ: dict[str, str]) -> Exception:
    with pytest.raises((SettingsError, InvalidNameError)) as caught:
        parse(change, environ=environ)
    return caught.value


def test_a_name_from_the_environment_is_shown_as_it_is_written() -> None:
    error = refused_any(('table = "Nyc13.Flight"', 'table = "Nyc13.${NAME}"'), {"NAME": "a/b"})
    assert "${NAME}" in str(error)


def test_a_byte_order_mark_is_no_fault(tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    path.write_bytes(b"\xef\xbb\xbf" + RIGHT.encode())
    assert load_stream_file(Fs(), path, {}).spec.stream == "flights"


def test_a_feed_of_a_delta_table() -> None:
    files = 'type = "files"\npath = "feed/*.json"\nformat = "json"'
    plain = parse((files, 'type = "delta"\npath = "../d"')).spec.feed
    assert plain == DeltaOptions(str(FILE.parent.parent / "d"), None, Limit(bytes=256_000_000))
    full = "start_version = 3\nmax_per_trigger = { files = 2, rows = 9 }\nignore_changes = true"
    found = parse((files, f'type = "delta"\npath = "/d"\n{full}')).spec.feed
    assert found == DeltaOptions("/d", 3, Limit(rows=9, files=2), True)
    assert refused((files, 'type = "delta"\npath = "/d"\nstart_version = -1')).what.startswith("start_version: ")
    assert refused((files, 'type = "delta"\npath = "/d"\nformat = "csv"')).what == "unknown key 'format'"


def test_csv_clock_bounds_and_ignored_fields() -> None:
    found = parse(
        ('format = "json"', 'format = "csv"\ndelimiter = ";"\nnull = ["", "NA"]'),
        ("[columns]", '[columns]\nignore = ["extra"]'),
        ("[bad_rows]", 'clock = "2013-12-31T23:59:59Z"\nmax_past = "400 d"\n[bad_rows]'),
    ).spec
    assert found.feed.csv == CsvOptions(delimiter=";", null=("", "NA"))  # type: ignore[attr-defined]
    assert found.ignore == ("extra",)
    assert found.partition.clock == Clock("fixed", 1_388_534_399_000_000_000)
    assert found.partition.max_past_s == 400 * 86_400


def test_the_shipped_streams_are_right() -> None:
    shipped = sorted(Path("conf/streams").glob("*.toml"))
    assert shipped
    for path in shipped:
        load_stream_file(Fs(), path, {"FLIGHTS_FEED": "/feed", "KAFKA": "h:9092"})
