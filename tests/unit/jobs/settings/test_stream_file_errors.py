"""Stream files: the error for each way to get one wrong."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from sparkhaven.jobs.settings.stream_file import load_stream_file, parse_stream
from sparkhaven.jobs.settings.stream_schema import checked_schema
from sparkhaven.store.errors import InvalidNameError, SettingsError
from sparkhaven.store.io.fs import Fs
from tests.support.ingest.stream_files import FILE, RIGHT, parse, refused
from tests.support.places import REPOSITORY


@pytest.mark.parametrize("value", ["1", '"1"', '"soon"', '"-1 s"', '"1 fortnight"', "true", '"1 2 s"'])
def test_what_is_no_duration(value: str) -> None:
    error = refused(('"1 second"', value))
    assert 'a duration is a number with a unit, like "1 second"' in error.what
    assert error.where is not None and error.where.endswith("commit.trigger")


@pytest.mark.parametrize(
    ("value", "told"),
    [('"6M"', '"6 min"'), ('"6 m"', '"6 min"'), ('"2 months"', "write days"), ('"1 year"', "write days")],
)
def test_a_duration_that_may_be_another_is_answered_with_what_to_type(value: str, told: str) -> None:
    assert told in refused(('"1 second"', value)).what


@pytest.mark.parametrize("value", ['"64"', '"0MB"', "0", "-1", "true", '"64 parsecs"'])
def test_what_is_no_size(value: str) -> None:
    error = refused(('format = "json"', f"max_per_trigger = {{ bytes = {value} }}"))
    assert "a size is a number of bytes above 0" in error.what


@pytest.mark.parametrize(
    ("old", "new", "where", "key", "near"),
    [
        ("name =", "nme =", "nme", "nme", "name"),
        ("table =", "tabel =", "tabel", "tabel", "table"),
        ("path =", "pth =", "feed.pth", "pth", "path"),
        ("unit =", "units =", "columns.time_hour.units", "units", "unit"),
        ("internal =", "internl =", "partition.internl", "internl", "internal"),
        ("zone =", "time_zone =", "partition.value.time_zone", "time_zone", "zone"),
        ("max_rows =", "max_row =", "bad_rows.max_row", "max_row", "max_rows"),
        ("trigger =", "triger =", "commit.triger", "triger", "trigger"),
        ("[commit]", "[comit]", "comit", "comit", "commit"),
    ],
)
def test_an_unknown_key_is_an_error_with_the_nearest_known_one(
    old: str, new: str, where: str, key: str, near: str
) -> None:
    error = refused((old, new))
    assert (error.what, error.where) == (f"unknown key {key!r}", f"{FILE}: {where}")
    assert error.hint == f"did you mean {near!r}?"
    assert near in str(error.expected)


def test_an_unknown_key_far_from_all_others_is_listed_with_them() -> None:
    error = refused(("max_rows = 0", "xyzzy = 0"))
    assert (error.expected, error.hint) == (
        "quarantine, max_rows, max_fraction, min_rows, allow_null_alias",
        "remove it",
    )


@pytest.mark.parametrize(
    ("change", "what", "expected", "hint"),
    [
        (
            ('format = "json"', "max_per_trigger = 7"),
            "max_per_trigger: input should be a table",
            "a table",
            '{ bytes = "64MB" }',
        ),
        (('format = "json"', "settle = 7"), "settle: a duration is a number with a unit", None, "correct settle"),
        (
            ("[commit]", "[commit]\nkeep_epochs = true"),
            "keep_epochs: input should be a valid",
            "whole number",
            "correct",
        ),
        (('name = "flights"', ""), "missing key 'name'", 'name = "flights"', "add it above the first table"),
        (('path = "feed/*.json"', ""), "missing key 'feed.path'", 'path = "feed/*.json"', "add it to [feed]"),
        (('type = "files"', ""), "missing key 'feed.type'", 'type = "files"', "add it to [feed]"),
        (('name = "flights"', "name = 7"), "name: input should be a valid string", "a text in quotes", "name = "),
        (
            ("max_rows = 0", "max_rows = -1"),
            "max_rows: input should be",
            "greater than or equal to 0",
            "correct max_rows",
        ),
        (
            ('internal = { column = "origin" }', 'internal = "origin"'),
            "internal: input should be a table",
            "a table",
            "internal =",
        ),
        (("[bad_rows]\nmax_rows = 0", ""), None, None, None),
    ],
)
def test_words_for_missing_keys_and_wrong_types(
    change: tuple[str, str], what: str | None, expected: str | None, hint: str | None
) -> None:
    if what is None:
        assert parse(change).spec.bad_rows.max_rows == 1000
        return
    error = refused(change)
    assert error.what.startswith(what) and "instance" not in str(error)
    assert expected is None or expected in str(error.expected)
    assert hint is not None and hint in str(error.hint)


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (('name = "flights"', ""), "missing key 'name'"),
        (('path = "feed/*.json"', ""), "missing key 'feed.path'"),
        (('type = "files"', ""), "missing key 'feed.type'"),
        (('internal = { column = "origin" }', ""), "missing key 'partition.internal'"),
        (('type = "files"', 'type = "filez"'), "feed.type has a value that is not known"),
        (('format = "json"', 'format = "jsn"'), "format has a value that is not known"),
        (('unit = "ms"', 'unit = "sec"'), "unit has a value that is not known"),
        (("max_rows = 0", 'max_rows = "0"'), "max_rows: input should be a valid integer"),
        (("max_rows = 0", "max_rows = -1"), "max_rows: input should be greater than or equal to 0"),
        (("max_rows = 0", "max_fraction = 2.0"), "max_fraction: input should be less than or equal to 1"),
        (('trigger = "1 second"', "keep_epochs = 0"), "keep_epochs: input should be greater than or equal to 1"),
        (('trigger = "1 second"', 'durability = "fsyncs"'), "durability has a value that is not known"),
        (('trigger = "1 second"', 'sync_interval = "10 s"'), "commit: sync_interval is set beside durability"),
        (
            ('trigger = "1 second"', 'durability = "none"\nsync_interval = "10 s"'),
            'commit: sync_interval is set beside durability = "none", which is not "periodic"',
        ),
        (
            ('trigger = "1 second"', 'durability = "periodic"\nsync_interval = "0 s"'),
            "sync_interval: input should be greater than 0",
        ),
        (
            ('trigger = "1 second"', 'durability = "periodic"\nsync_interval = 10'),
            "sync_interval: a duration is a number",
        ),
        (('{ column = "origin" }', "{}"), "internal: give one of column, meta, fixed"),
        (('{ column = "origin" }', '{ column = "a", fixed = "b" }'), "internal: give one of column, meta, fixed"),
        (('column = "time_hour", zone', 'fixed = "x", zone'), "value: fixed stands beside"),
        (("zone =", 'fixed = "x", zone ='), "value: give one of column, fixed"),
        (('unit = "ms"', 'meta = "line"'), "time_hour: meta stands beside"),
        (('format = "json"', "header = true"), 'feed: format is not "csv", which these settings are for: header'),
        (('format = "json"', 'format = "csv"\nheader = false'), "feed: header = false without names"),
        (('format = "json"', 'format = "csv"\nnames = ["a"]'), "feed: names are given, and header is not false"),
        (('format = "json"', "max_per_trigger = {}"), "max_per_trigger: give at least one of bytes, rows, files"),
        (("[bad_rows]", 'clock = "noon"\n[bad_rows]'), 'clock: clock is not "wall", "batch" or a time'),
        (("[bad_rows]", 'clock = "2013-12-31T00:00:00"\n[bad_rows]'), 'clock: clock is not "wall", "batch" or a time'),
        (("[columns]", "[columns]\nignore = [1]"), "ignore: input should be a valid string"),
        (('"feed/*.json"', '"s3://bucket/feed"'), "path: expected a path of this machine"),
        (('{ column = "origin" }', '{ column = "" }'), "column: string should have at least 1 character"),
        (("[columns]", '[columns]\nignore = "a"'), "ignore: input should be a valid list"),
        (("[columns]", "[columns]\nrequired = 1"), "required: input should be a valid boolean"),
    ],
)
def test_wrong_values(change: tuple[str, str], what: str) -> None:
    assert refused(change).what.startswith(what)


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (('format = "json"', 'format = "csv"\ndelimiter = "\\""'), "delimiter and quote of a CSV feed are the same"),
        (('format = "json"', 'format = "csv"\ndelimiter = "\u00e4"'), "delimiter of a CSV feed is not one character"),
        (('format = "json"', 'format = "csv"\nquote = "\\n"'), "quote of a CSV feed is not one character"),
        (
            ('format = "json"', 'format = "csv"\nheader = false\nnames = ["day", "day"]'),
            "names of a CSV feed name a field",
        ),
        (('format = "json"', 'format = "csv"\nheader = false\nnames = ["Day"]'), "names of a CSV feed have no field"),
        (("[columns]", '[columns]\ndistance = { zone = "UTC" }'), "column distance has a zone, and is not an Instant"),
        (('{ column = "origin" }', '{ fixed = "a/b" }'), "internal partition cannot become a path"),
    ],
)
def test_what_only_the_schema_can_tell(change: tuple[str, str], what: str) -> None:
    path = REPOSITORY / "conf" / "streams" / "flights.toml"
    text = RIGHT.replace(*change)
    assert text != RIGHT
    with pytest.raises((SettingsError, InvalidNameError), match=what) as caught:
        checked_schema(Fs(), parse_stream(tomllib.loads(text), path, {}))
    assert caught.value.where is not None


def test_every_fault_is_named() -> None:
    error = refused(("path =", "pth ="), ("max_rows = 0", "max_rows = -1"))
    assert error.what == "unknown key 'pth'"
    assert "feed: missing key 'feed.path'" in error.also
    assert "bad_rows.max_rows" in error.also


def test_names_are_checked_and_the_file_is_named() -> None:
    for change in [('Nyc13.Flight"\nschema', 'Nyc13"\nschema'), ('"flights"', '"../flights"')]:
        with pytest.raises(InvalidNameError) as caught:
            parse(change)
        assert caught.value.where == str(FILE)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="no such stream file"):
        load_stream_file(Fs(), tmp_path / "none.toml", {})
    with pytest.raises(SettingsError, match="the stream file is a directory"):
        load_stream_file(Fs(), tmp_path, {})
    broken = tmp_path / "broken.toml"
    for content in (b"name = ", b"name = '\xff'"):
        broken.write_bytes(content)
        with pytest.raises(SettingsError, match="stream file is not TOML") as caught:
            load_stream_file(Fs(), broken, {})
        assert caught.value.where == str(broken)
