"""Avro payloads as records: one a message, by a schema file or by the id that the payload begins with.

With a registry a payload is a zero byte, the id of its schema in four bytes (big-endian), and the record. The registry
is a directory of files ``<id>.avsc``, or the address of a schema registry that answers ``GET /schemas/ids/<id>``; each
id is asked for once a process. ``ingest.records`` makes rows of them.
"""

from __future__ import annotations

import base64
import io
import json
import struct
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time
from functools import lru_cache
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit, urlunsplit
from uuid import UUID

import fastavro

from ingest.avro_proof import Check, check_payload, checker, fields_in
from ingest.exact import Refusal, Value, check_instant
from ingest.json_paths import path_of, unknown_names, value_at
from ingest.kafka_feed import AvroSource
from ingest.records import NotARecordError, from_binary
from ingest.spec import Target
from store.errors import RetryableFeedError, SettingsError
from store.fs import Fs

HEAD = struct.Struct(">bI")
ASK_SECONDS = 30.0
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Schema = Any
Found = dict[str, Any]


class AvroRecords:
    """The records of one stream; SettingsError if the schema of a file is none."""

    format = "Avro"

    def __init__(self, targets: Sequence[Target], source: AvroSource, *, alias: bool = False) -> None:
        self._targets, self._alias = tuple(targets), alias
        self._paths = [path_of(t.source) for t in self._targets]
        self._schemas = Schemas(source)
        if source.registry is None:
            for t, path in zip(self._targets, self._paths, strict=True):
                self._require(t, path)

    def _require(self, target: Target, path: Sequence[str]) -> None:
        """SettingsError for a column of whose field the schema knows nothing: it would be null in every row."""
        there = fields_in(self._schemas.of_file, path)
        if there is not None:
            raise SettingsError(
                f"column {target.column.name} has no field in the Avro schema",
                where="feed.avro.schema",
                expected=", ".join(sorted(there)) or "a record there",
                found=target.source,
                hint="name the field with `from` under [columns], as the schema spells it",
            )

    def read(self, payload: bytes) -> Found:
        """The record of a payload."""
        return self._schemas.record(payload)

    def value(self, record: Found, place: int) -> Value | Refusal:
        """The value of a target; null where the record has none."""
        there = value_at(record, self._paths[place])
        return there if isinstance(there, Refusal) else from_avro(there, self._targets[place], self._alias)

    def shown(self, record: Found, place: int) -> str:
        """The field that the target comes from, or lies in."""
        return repr(record.get(self._paths[place][0]))

    def unknown(self, record: Found) -> list[str]:
        """Fields that no target takes."""
        return unknown_names(record, self._paths)


def from_avro(value: Any, target: Target, alias: bool = False) -> Value | Refusal:
    """A value as fastavro gives it; the rules are those of JSON, with times as instants and NaN as a number."""
    name = target.column.type.name
    if isinstance(value, datetime):
        if name != "Instant":
            return Refusal("wrong type (a time)", f"a value for {name}")
        if value.tzinfo is None:
            return Refusal("has no time zone", "timestamp-millis or timestamp-micros, which are in UTC")
        passed = value - _EPOCH
        return check_instant(((passed.days * 86_400 + passed.seconds) * 10**6 + passed.microseconds) * 1000, alias)
    if isinstance(value, date | time):
        return Refusal(f"wrong type ({type(value).__name__})", f"a value for {name}")
    return from_binary(str(value) if isinstance(value, UUID) else value, target, alias)


@dataclass(slots=True)
class Schemas:
    """The schemas of a source, each parsed once. ``ask`` gets the text of a schema by its id."""

    source: AvroSource
    ask: Callable[[str, int], str] | None = None
    _parsed: dict[int, tuple[Schema, Check]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.source.registry is None:
            self._take(0, self.source.schema or "", "feed.avro.schema")

    @property
    def of_file(self) -> Schema:
        """The schema of a source without a registry."""
        return self._parsed[0][0]

    def record(self, payload: bytes) -> dict[str, Any]:
        """The record of a payload; nothing may be left over."""
        schema, check, start = self._schema_of(payload)
        check_payload(check, payload, start)
        stream = io.BytesIO(payload)
        stream.seek(start)
        try:
            found = fastavro.schemaless_reader(stream, schema, None)
        except (EOFError, ValueError, IndexError, OverflowError, KeyError, TypeError, struct.error) as error:
            raise NotARecordError(str(error)[:200] or type(error).__name__) from None
        if not isinstance(found, dict):
            raise NotARecordError("the schema is of no record")
        return found

    def _take(self, number: int, text: str, where: str) -> None:
        schema = parse_avro(text, where)
        self._parsed[number] = schema, checker(schema)

    def _schema_of(self, payload: bytes) -> tuple[Schema, Check, int]:
        registry = self.source.registry
        if registry is None:
            return *self._parsed[0], 0
        if len(payload) < HEAD.size or payload[0] != 0:
            raise NotARecordError("it does not begin with a zero byte and the id of its schema")
        number = HEAD.unpack_from(payload)[1]
        if number not in self._parsed:
            self._take(number, (self.ask or schema_text)(registry, number), f"schema {number} of the registry")
        return *self._parsed[number], HEAD.size


def parse_avro(text: str, where: str) -> Schema:
    """A schema by its JSON text; SettingsError if it is none."""
    try:
        return fastavro.parse_schema(json.loads(text))
    except (ValueError, TypeError, KeyError, fastavro.schema.SchemaParseException) as error:
        raise SettingsError(
            "no Avro schema", where=where, found=str(error)[:300] or type(error).__name__, expected="an .avsc file"
        ) from None


@lru_cache(maxsize=1000)  # what an id means never changes
def schema_text(registry: str, number: int) -> str:
    """The text of a schema by its id; NotARecordError if there is none.

    RetryableFeedError without an answer, SettingsError where we may not ask.
    """
    if not registry.startswith(("http://", "https://")):
        path = Path(registry) / f"{number}.avsc"
        if Fs().stat(path) is None:
            raise NotARecordError(f"there is no schema {path}")
        return Fs().read(path).decode("utf-8")
    request = schema_request(registry, number)
    address = request.full_url
    try:
        with urllib.request.urlopen(request, timeout=ASK_SECONDS) as answer:  # noqa: S310 checked above
            found: Mapping[str, Any] = json.loads(answer.read())
            return str(found["schema"])
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == 404:
            raise NotARecordError(f"there is no schema {address}") from None
        if error.code in (401, 403):
            hint = "give user and password in the address: https://${USER}:${PASSWORD}@host"
            raise SettingsError("the registry refuses us", where=address, found=error, hint=hint) from None
        raise RetryableFeedError("the registry does not give a schema", where=address, found=error) from None
    except (OSError, ValueError, KeyError, HTTPException) as error:
        raise RetryableFeedError("the registry does not answer", where=address, found=error) from None


def schema_request(registry: str, number: int) -> urllib.request.Request:
    """What is asked for a schema. User and password of the address go into a header, so that no message shows them."""
    parts = urlsplit(registry)
    path = f"{parts.path.rstrip('/')}/schemas/ids/{number}"
    made = urllib.request.Request(urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], path, "", "")))  # noqa: S310
    if parts.username is not None:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        made.add_unredirected_header("Authorization", f"Basic {base64.b64encode(pair.encode()).decode()}")
    return made
