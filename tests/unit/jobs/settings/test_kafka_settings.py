"""``type = "kafka"`` in a stream file: what it may say, and that a secret in it is never shown."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from sparkhaven.ingest.feeds.kafka.options import ClientSettings, KafkaOptions, Start
from sparkhaven.ingest.spec import AvroSource, ColumnSpec, CsvOptions, Limit, ProtobufSource, StreamSpec
from sparkhaven.jobs.settings.stream_file import parse_stream
from sparkhaven.jobs.settings.stream_schema import checked_schema
from sparkhaven.store.errors import SettingsError
from sparkhaven.store.io.fs import Fs
from tests.support.ingest.protoc import compiled

FILE = Path("/etc/streams/ticks.toml")
REST = """
name = "ticks"
table = "Test.Tick"
schema = "Test.Tick.schema"
[partition]
internal = { meta = "partition" }
value = { fixed = "2026-11-21" }
"""


def parse(feed: str, columns: str = "", **environ: str) -> StreamSpec:
    text = f'{REST}\n[feed]\ntype = "kafka"\nbootstrap = "h:9092"\n{feed}\n[columns]\n{columns}'
    return parse_stream(tomllib.loads(text), FILE, environ).spec


def feed_of(text: str, **environ: str) -> KafkaOptions:
    feed = parse(text, **environ).feed
    assert isinstance(feed, KafkaOptions)
    return feed


def test_defaults_and_all_keys() -> None:
    plain = feed_of('topics = ["a", "b", "a"]')
    assert plain == KafkaOptions(
        "h:9092", ("a", "b"), csv=CsvOptions(header=False), max_per_trigger=Limit(rows=1_000_000)
    )
    full = feed_of(
        """pattern = "tick-.*"
        start = { timestamp = "2026-11-21T00:00:00Z" }
        format = "csv"
        names = ["a", "b"]
        key = { format = "json" }
        max_per_trigger = { bytes = "64MB", rows = 5 }
        tombstones = "ignore"
        allow_gap = true
        client = { "security.protocol" = "SSL", "check.crcs" = false, "fetch.max.wait.ms" = 5 }"""
    )
    assert (full.pattern, full.start) == ("tick-.*", Start("timestamp", at_ms=1_795_219_200_000))
    assert (full.format, full.csv.names, full.key_format) == ("csv", ("a", "b"), "json")
    assert full.max_per_trigger == Limit(bytes=64_000_000, rows=5)
    assert (full.tombstones, full.allow_gap) == ("ignore", True)
    assert full.client.values == (
        ("check.crcs", "false"),
        ("fetch.max.wait.ms", "5"),
        ("security.protocol", "SSL"),
    )


def test_a_start_within_a_millisecond_has_no_message_before_it() -> None:
    start = feed_of('topics = ["a"]\nstart = { timestamp = "2026-11-21T00:00:00.0005Z" }').start
    assert start == Start("timestamp", at_ms=1_795_219_200_001)


def test_start_offsets_and_key_columns() -> None:
    assert feed_of('topics = ["a"]\nstart = { "a:0" = 17 }').start == Start("offsets", offsets=(("a", 0, 17),))
    columns = parse('topics = ["a"]', 'Sym = { key = "sym" }\nAt = { meta = "offset" }').columns
    assert columns == (ColumnSpec("Sym", "sym", of="key"), ColumnSpec("At", meta="offset"))


def test_avro_by_schema_file_and_by_registry(tmp_path: Path) -> None:
    (tmp_path / "v.avsc").write_text("{}")
    text = f'topics = ["a"]\nformat = "avro"\navro = {{ schema = "{tmp_path}/v.avsc" }}\n'
    (tmp_path / "keys").mkdir()
    feed = feed_of(text + f'key = {{ format = "avro", avro = {{ registry = "{tmp_path}/x/../keys" }} }}')
    assert (feed.avro, feed.key_avro) == (AvroSource("{}"), AvroSource(registry=f"{tmp_path}/keys"))
    with pytest.raises(SettingsError, match="no such registry") as caught:
        feed_of(text + 'key = { format = "avro", avro = { registry = "keys" } }')
    assert caught.value.where == "/etc/streams/keys"  # beside the stream file
    remote = 'topics = ["a"]\nformat = "avro"\navro = { registry = "https://r:8081" }'
    assert feed_of(remote).avro == AvroSource(registry="https://r:8081")
    with pytest.raises(SettingsError, match="no such Avro schema"):
        feed_of(text.replace("v.avsc", "w.avsc"))


def test_protobuf_by_a_descriptor_set_that_is_held_against_the_columns(tmp_path: Path) -> None:
    proto = 'syntax = "proto3"; package p; message Tick { int64 Id = 1; string Sym = 2; }'
    (tmp_path / "tick.desc").write_bytes(compiled(tmp_path, proto))
    part = f'{{ schema = "{tmp_path}/tick.desc", message = "p.Tick" }}'
    text = f'topics = ["a"]\nformat = "protobuf"\nprotobuf = {part}\n'
    feed = feed_of(text + f'key = {{ format = "protobuf", protobuf = {part} }}')
    known = ProtobufSource((tmp_path / "tick.desc").read_bytes(), "p.Tick", f"{tmp_path}/tick.desc")
    assert (feed.protobuf, feed.key_protobuf) == (known, known)
    with pytest.raises(SettingsError, match="no such Protobuf schema"):
        feed_of(text.replace("tick.desc", "tock.desc"))

    schema = REST.replace('"Test.Tick.schema"', f'"{tmp_path}/Test.Tick.schema"')
    columns = '<Column name="Id" dataType="long"/><Column name="Price" dataType="double"/>'
    (tmp_path / "Test.Tick.schema").write_text(
        '<Table namespace="Test" name="Tick" storageType="NestedPartitionedOnDisk">'
        '<Partitions keyFormula="${autobalance_single}"/>'
        f'<Column name="Date" dataType="String" columnType="Partitioning"/>{columns}</Table>'
    )
    whole = f'{schema}\n[feed]\ntype = "kafka"\nbootstrap = "h:9092"\n{text}\n'
    with pytest.raises(SettingsError, match="column Price has no field in the message"):
        checked_schema(Fs(), parse_stream(tomllib.loads(whole), FILE, {}))
    typed = whole + '[columns]\nPrice = { from = "Sym" }'
    with pytest.raises(SettingsError, match="column Price of type double cannot take the field"):
        checked_schema(Fs(), parse_stream(tomllib.loads(typed), FILE, {}))


@pytest.mark.parametrize(
    ("feed", "what"),
    [
        ('topics = ["a"]\nformat = "protobuf"', 'feed: format = "protobuf" without'),
        ('topics = ["a"]\nprotobuf = { schema = "x", message = "y" }', 'feed: format = "protobuf" without'),
        ('topics = ["a"]\nkey = { format = "protobuf" }', 'feed: key.format = "protobuf" without'),
        ('topics = ["a"]\nformat = "protobuf"\nprotobuf = { schema = "x" }', "missing key 'feed.protobuf.message'"),
        ('topics = ["a"]\nformat = "avro"', 'feed: format = "avro" without'),
        ('topics = ["a"]\navro = { schema = "x" }', 'feed: format = "avro" without'),
        ('topics = ["a"]\nformat = "avro"\navro = {}', "avro: give one of schema, registry"),
        ("", "feed: give one of topics, pattern"),
        ('topics = ["a"]\npattern = "b"', "feed: give one of topics, pattern"),
        ("topics = []", "topics: list should have at least 1 item"),
        ('topics = ["a b"]', "topics: string should match pattern"),
        ('pattern = "("', "pattern: not a regular expression"),
        ('topics = ["a"]\nstart = "first"', 'start: expected "earliest"'),
        ('topics = ["a"]\nstart = { "a" = 17 }', 'start: expected "earliest"'),
        ('topics = ["a"]\nstart = { "a:0" = -1 }', 'start: expected "earliest"'),
        ('topics = ["a"]\nstart = { timestamp = "yesterday" }', "start: "),
        ('topics = ["a"]\nformat = "csv"', 'feed: format = "csv" without names'),
        ('topics = ["a"]\nnames = ["a"]', 'feed: format is not "csv"'),
        ('topics = ["a"]\nclient = { "ssl.ca.location" = "x" }', "client: ssl.ca.location is a name of librdkafka"),
        ('topics = ["a"]\nclient = { "auto.offset.reset" = "x" }', "client: auto.offset.reset is a setting that the"),
        ('topics = ["a"]\nmax_per_trigger = { files = 1 }', "feed: max_per_trigger of a kafka feed"),
    ],
)
def test_wrong_values(feed: str, what: str) -> None:
    with pytest.raises(SettingsError) as caught:
        parse(feed)
    assert caught.value.what.startswith(what)


def test_a_secret_is_taken_from_the_environment_and_never_shown() -> None:
    client = 'client = { "sasl.password" = "${PASSWORD}" }'
    feed = feed_of(f'topics = ["a"]\n{client}', PASSWORD="tiger")
    assert feed.client == ClientSettings((("sasl.password", "tiger"),))
    assert "tiger" not in repr(feed) + str(feed) + feed.path + feed.client.hide("refused tiger")
    with pytest.raises(SettingsError) as caught:
        feed_of('topics = ["a"]\nclient = { "sasl.password" = ["tiger"] }')
    assert "tiger" not in str(caught.value)
