"""Stream files with ``[[tables]]``: what they say, and the error for each way to get one wrong."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from sparkhaven.ingest.spec import TableRoute, TableRoutes
from sparkhaven.jobs.settings.stream_file import StreamSettings, parse_stream, parse_tables
from sparkhaven.store.errors import SettingsError

FILE = Path("/conf/md.toml")
TEXT = """
name = "md"
[feed]
type = "kafka"
bootstrap = "127.0.0.1:9092"
topics = ["trades", "quotes"]
format = "json"
[[tables]]
table = "Md.Trade"
schema = "trade.schema"
where = { column = "type", equals = ["T", "t"] }
[tables.columns]
At = { from = "time" }
ignore = ["extra"]
[tables.partition]
internal = { fixed = "0" }
value = { column = "At" }
[[tables]]
table = "Md.Quote"
schema = "quote.schema"
where = { column = "type", equals = "Q" }
[tables.partition]
internal = { fixed = "0" }
value = { column = "At" }
[bad_rows]
max_rows = 7
"""
TRADE = 'where = { column = "type", equals = ["T", "t"] }'
VALUE = 'value = { column = "At" }'
QUOTE = 'where = { column = "type", equals = "Q" }'


def parsed(*changes: tuple[str, str]) -> tuple[StreamSettings, ...]:
    text = TEXT
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    return parse_tables(tomllib.loads(text), FILE, {})


def refused(*changes: tuple[str, str]) -> SettingsError:
    with pytest.raises(SettingsError) as caught:
        parsed(*changes)
    assert str(FILE) in str(caught.value)
    return caught.value


def test_each_table_has_its_own_settings_and_what_is_shared() -> None:
    trade, quote = parsed()
    assert (trade.spec.stream, quote.spec.stream) == ("md", "md")
    assert (trade.spec.table, quote.spec.table) == ("Md.Trade", "Md.Quote")
    assert (str(trade.schema_file), str(quote.schema_file)) == ("/conf/trade.schema", "/conf/quote.schema")
    assert [item.column for item in trade.spec.columns] == ["At"] and quote.spec.columns == ()
    assert (trade.spec.ignore, quote.spec.ignore) == (("extra",), ())
    assert trade.spec.bad_rows.max_rows == quote.spec.bad_rows.max_rows == 7
    routes = (TableRoute("Md.Trade", ("T", "t")), TableRoute("Md.Quote", ("Q",)))
    assert trade.spec.routes == TableRoutes(routes, 0, "column", "type")
    assert quote.spec.routes == TableRoutes(routes, 1, "column", "type")
    assert trade.spec.fed_tables == ("Md.Trade", "Md.Quote")


def test_routes_by_topic_and_the_rest() -> None:
    trade, quote = parsed((TRADE, 'where = { topic = "trades" }'), (QUOTE, "else = true"))
    assert trade.spec.routes == TableRoutes(
        (TableRoute("Md.Trade", ("trades",)), TableRoute("Md.Quote", rest=True)), 0, "topic"
    )
    assert quote.spec.routes is not None and (quote.spec.routes.rest, quote.spec.routes.refusing) == (1, 1)
    (routes,) = {settings.spec.routes for settings in parsed(('name = "md"', 'name = "md"\nelse = "ignore"'))[:1]}
    assert routes is not None and (routes.ignore, routes.rest, routes.refusing) == (True, None, 0)


def test_a_command_for_one_table_says_that_there_are_several() -> None:
    with pytest.raises(SettingsError, match="several tables") as caught:
        parse_stream(tomllib.loads(TEXT), FILE, {})
    assert caught.value.found == "Md.Trade, Md.Quote"


@pytest.mark.parametrize(
    ("change", "what", "found"),
    [
        (('name = "md"', 'name = "md"\ntable = "Md.Trade"'), "`table` and [[tables]] are both given", "table, tables"),
        (('"Md.Quote"', '"Md.Trade"'), "table Md.Trade is there twice", "Md.Trade, Md.Trade"),
        ((QUOTE, ""), "tables: table Md.Quote has neither where nor else", None),
        ((QUOTE, f"{QUOTE}\nelse = true"), "tables: table Md.Quote has both where and else", None),
        ((QUOTE, QUOTE.replace('"Q"', '"t"')), "rows would go to two tables", "'t' for Md.Trade and for Md.Quote"),
        ((QUOTE, QUOTE.replace('"Q"', '["Q", "Q"]')), "a text is given twice", "'Q' for Md.Quote and for Md.Quote"),
        ((QUOTE, QUOTE.replace('"type"', '"kind"')), "the tables of a feed are told apart by different", "type, kind"),
        ((QUOTE, 'where = { topic = "quotes" }'), "the tables of a feed are told apart by different", "type, topic"),
        ((QUOTE, 'where = { column = "type" }'), "where: give column and equals", None),
        ((QUOTE, 'where = { column = "type", equals = [] }'), "where: an empty list takes no row", None),
        ((QUOTE, QUOTE.replace('"Q"', "1")), "equals: input should be a valid string", "1"),
        ((QUOTE, QUOTE.replace('"Q"', "[1]")), "equals: input should be a valid string", "[1]"),
        ((QUOTE, "where = { topic = 1 }"), "topic: input should be a valid string", "1"),
        ((f"{VALUE}\n[bad", f'{VALUE}\nclock = "batch"\n[bad'), 'clock = "batch"', "batch"),
    ],
)
def test_what_is_wrong_is_named(change: tuple[str, str], what: str, found: str | None) -> None:
    error = refused(change)
    assert error.what.startswith(what), error
    assert found is None or error.found == found
    assert error.hint and "list[" not in str(error) and ".str" not in str(error)


def test_places_for_the_rest_contradict_each_other() -> None:
    two = refused((TRADE, "else = true"), (QUOTE, "else = true"))
    assert (two.what, two.found) == ("two places are given for the rows of no other table", "Md.Trade, Md.Quote")
    ignored = refused((QUOTE, "else = true"), ('name = "md"', 'name = "md"\nelse = "ignore"'))
    assert ignored.found == 'Md.Quote, else = "ignore"'


def test_a_topic_must_be_one_of_the_feed() -> None:
    error = refused((TRADE, 'where = { topic = "trade" }'), (QUOTE, "else = true"))
    assert (error.found, error.hint) == ("trade", "did you mean 'trades'?")
    files = 'type = "files"\npath = "feed"\nformat = "json"'
    kafka = TEXT[TEXT.index("type =") : TEXT.index("[[tables]]")].strip()
    error = refused((kafka, files), (TRADE, 'where = { topic = "trades" }'), (QUOTE, "else = true"))
    assert error.what == "a feed without topics is routed by topic"


@pytest.mark.parametrize(
    ("change", "key", "near"),
    [
        ((QUOTE, QUOTE.replace("where", "were")), "were", "where"),
        ((QUOTE, QUOTE.replace("equals", "equal")), "equal", "equals"),
        (("[tables.columns]", "[tables.colums]"), "colums", "columns"),
        (('internal = { fixed = "0" }', 'internl = { fixed = "0" }'), "internl", "internal"),
        (("[bad_rows]", "[bad_row]"), "bad_row", "bad_rows"),
    ],
)
def test_an_unknown_key_has_the_nearest_known_one(change: tuple[str, str], key: str, near: str) -> None:
    error = refused(change)
    assert error.what == f"unknown key {key!r}" and error.hint == f"did you mean {near!r}?"


def test_a_feed_of_another_class_has_to_know_several_tables() -> None:
    kafka = TEXT[TEXT.index("type =") : TEXT.index("[[tables]]")].strip()
    module = "tests.unit.jobs.settings.test_stream_tables:OneTableFeed"
    error = refused((kafka, f'type = "{module}"\npath = "x.db"\ntable = "t"'))
    assert error.what == "this feed does not decode for several tables"


from examples.sqlite_feed import SqliteFeed  # noqa: E402
from sparkhaven.ingest.feeds.base import PlannedFeed  # noqa: E402


class OneTableFeed(SqliteFeed):
    """A feed that does not decode for several tables."""

    decode_tables = PlannedFeed.decode_tables
