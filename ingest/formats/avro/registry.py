"""Schemas by their id, from a directory or a schema registry, each asked for once a process.

A directory has files ``<id>.avsc``. A registry answers ``GET /schemas/ids/<id>`` with the text of a schema, its type
(Avro where none is named), and its references: named types that it uses and other subjects define, which
``GET /subjects/<subject>/versions/<version>`` gives. What an id means never changes. An id that the registry does not
know, or whose schema is not of Avro, is no fault of the stream: the messages that carry it are bad rows, and it is not
asked for again for a while, since a schema may still be registered. Without an answer nothing is known, so the stream
fails and may be tried again.
"""

from __future__ import annotations

import base64
import json
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from functools import lru_cache
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlsplit, urlunsplit

import fastavro

from sparkhaven.ingest.formats.avro.logical import with_own_names
from sparkhaven.ingest.formats.avro.payload_proof import Check, checker
from sparkhaven.ingest.formats.avro.whole_columns import Definitions, definitions_in, whole
from sparkhaven.ingest.formats.binary_records import NotARecordError
from sparkhaven.store.errors import RetryableFeedError, SettingsError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.types.frozen import frozen

ASK_SECONDS = 30.0
FORGET_SECONDS = 60.0  # until an id without a usable schema is asked for again
MAX_KNOWN = 1000
MAX_REFERENCES = 200

Schema = Any
Usable = tuple[Schema, Check]
Ask = Callable[[str, str], Mapping[str, Any] | None]


@frozen
class _Unusable:
    """Why an id has no schema for us, and until when that is believed (seconds of the caller's clock)."""

    reason: str
    until: float


class Registry:
    """The schemas of one directory or address. ``ask`` gets an answer by its path; None: it has no such thing."""

    def __init__(self, place: str, *, fs: Fs | None = None, ask: Ask | None = None) -> None:
        self._place, self._fs, self._ask = place, fs or Fs(), ask or answer
        self._known: dict[int, Usable | _Unusable] = {}

    def schema(self, number: int, now: float) -> Usable:
        """The schema of an id and the check of its payloads; ``now`` in seconds that never go back.

        NotARecordError if there is none of Avro, RetryableFeedError without an answer, SettingsError where we may not
        ask.
        """
        known = self._known.get(number)
        if known is None or (isinstance(known, _Unusable) and now >= known.until):
            try:
                known = self._look(number)
            except NotARecordError as error:
                # to look into a directory again costs nothing, and a corrected file is seen at once
                known = _Unusable(str(error), now + FORGET_SECONDS if _is_address(self._place) else now)
            self._known.pop(number, None)
            while len(self._known) >= MAX_KNOWN:
                del self._known[next(iter(self._known))]
            self._known[number] = known
        if isinstance(known, _Unusable):
            raise NotARecordError(known.reason)
        return known

    def _look(self, number: int) -> Usable:
        schema = self._of_id(number) if _is_address(self._place) else self._of_file(number)
        try:
            parsed = fastavro.parse_schema(with_own_names(schema))
            return parsed, checker(parsed)
        except (*NO_SCHEMA, RecursionError) as error:
            raise NotARecordError(f"schema {number} of the registry is no Avro schema: {_summary(error)}") from None

    def _of_file(self, number: int) -> Any:
        path = Path(self._place) / f"{number}.avsc"
        if self._fs.stat(path) is None:
            raise NotARecordError(f"there is no schema {path}")
        return _json(self._fs.read(path).decode("utf-8", "replace"), f"schema {path}")

    def _of_id(self, number: int) -> Any:
        path = f"schemas/ids/{number}"
        found = self._ask(self._place, path)
        if found is None:
            raise NotARecordError(f"there is no schema {address(self._place, path)}")
        named = f"schema {number} of the registry"
        schema = _avro(found, named)
        if not found.get("references"):
            return schema
        definitions: Definitions = {}
        self._refer(found, named, definitions, set())
        try:
            return whole(schema, definitions)
        except (*NO_SCHEMA, RecursionError) as error:
            raise NotARecordError(f"{named} is no Avro schema: {_summary(error)}") from None

    def _refer(
        self, found: Mapping[str, Any], named: str, definitions: Definitions, seen: set[tuple[str, str]]
    ) -> None:
        """Collects the named types of everything that a schema refers to, directly or not."""
        for reference in found.get("references") or ():
            subject, version = str(reference["subject"]), str(reference["version"])
            if (subject, version) in seen:
                continue
            seen.add((subject, version))
            if len(seen) > MAX_REFERENCES:
                raise NotARecordError(f"{named} refers to more than {MAX_REFERENCES} schemas")
            path = f"subjects/{quote(subject, safe='')}/versions/{quote(version, safe='')}"
            there = self._ask(self._place, path)
            if there is None:
                raise NotARecordError(
                    f"{named} refers to {reference.get('name')}: there is no schema {address(self._place, path)}"
                )
            schema = _avro(there, f"version {version} of subject {subject}")
            self._refer(there, named, definitions, seen)
            definitions |= definitions_in(schema)


@lru_cache(maxsize=8)
def kept_registry(place: str) -> Registry:
    """The registry of this process for a place; what it has learnt is kept as long as the process."""
    return Registry(place)


NO_SCHEMA = (ValueError, TypeError, KeyError, AttributeError, fastavro.schema.SchemaParseException)


def _avro(found: Mapping[str, Any], named: str) -> Any:
    """The schema in an answer; NotARecordError if it is of another kind."""
    kind = str(found.get("schemaType") or "AVRO")
    if kind != "AVRO":
        raise NotARecordError(f"{named} is of type {kind}, not Avro")
    return _json(str(found["schema"]), named)


def _json(text: str, named: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise NotARecordError(f"{named} is no Avro schema: {_summary(error)}") from None


def _summary(error: Exception) -> str:
    return str(error)[:200] or type(error).__name__


def _is_address(place: str) -> bool:
    return place.startswith(("http://", "https://"))


def answer(registry: str, path: str) -> Mapping[str, Any] | None:
    """What a registry says to a ``GET``; None if it has no such thing.

    RetryableFeedError without an answer that can be read, SettingsError where we may not ask.
    """
    request = made_request(registry, path)
    where = request.full_url
    try:
        with urllib.request.urlopen(request, timeout=ASK_SECONDS) as opened:  # noqa: S310 by _is_address
            found = json.loads(opened.read())
            if not isinstance(found["schema"], str):
                raise TypeError("its schema is no text")
            return {**found, "references": _references(found.get("references"))}
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == 404:
            return None
        if error.code in (401, 403):
            hint = "give user and password in the address: https://${USER}:${PASSWORD}@host"
            raise SettingsError("the registry refuses access", where=where, found=error, hint=hint) from None
        raise RetryableFeedError(
            "the registry does not give a schema", where=where, found=error, hint="read the log of the registry"
        ) from None
    except (OSError, ValueError, KeyError, TypeError, HTTPException) as error:
        raise RetryableFeedError(
            "the registry does not answer with a schema",
            where=where,
            expected='{"schema": "..."}',
            found=f"{type(error).__name__}: {error}",
            hint="check that it runs and can be reached from this machine, or correct feed.avro.registry",
        ) from None


def _references(given: Any) -> list[dict[str, Any]]:
    return [{name: item[name] for name in ("name", "subject", "version")} for item in given or ()]


def address(registry: str, path: str) -> str:
    """Where something is asked for, without user and password."""
    return made_request(registry, path).full_url


def made_request(registry: str, path: str) -> urllib.request.Request:
    """A request. User and password of the address go into a header, so that no message shows them."""
    parts = urlsplit(registry)
    place = parts.netloc.rpartition("@")[2]
    made = urllib.request.Request(  # noqa: S310 by _is_address
        urlunsplit((parts.scheme, place, f"{parts.path.rstrip('/')}/{path}", "", ""))
    )
    if parts.username is not None:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        made.add_unredirected_header("Authorization", f"Basic {base64.b64encode(pair.encode()).decode()}")
    return made
