"""Schemas by their id, from a directory or a schema registry, each asked for once a process.

A directory has files ``<id>.avsc``. A registry answers ``GET /schemas/ids/<id>`` with the text of a schema, its type
(Avro where none is named), and its references: named types that it uses and other subjects define, which
``GET /subjects/<subject>/versions/<version>`` gives. What an id means never changes. An id that the registry does not
know, or whose schema is not of Avro, is no fault of the stream: the messages that carry it are bad rows, and it is not
asked for again for a while, since a schema may still be registered. Without an answer nothing is known, so the stream
fails and may be tried again.

A schema and the named types that it refers to become one schema that needs nothing else. Names are made full
(``namespace.name``) everywhere, and each referenced type is defined at the first place that uses it, as the
specification asks for a single document.
"""

from __future__ import annotations

import base64
import json
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlsplit, urlunsplit

import fastavro

from sparkhaven.ingest.formats.avro.payload_proof import Check, as_record, checker, with_own_names
from sparkhaven.ingest.formats.binary_records import NotARecordError
from sparkhaven.store.errors import RetryableFeedError, SettingsError
from sparkhaven.store.io.fs import Fs

PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
NAMED = frozenset({"record", "error", "enum", "fixed"})

Definitions = dict[str, Any]  # full name -> schema of a named type, with full names inside


def definitions_in(schema: Any) -> Definitions:
    """Every named type that a schema defines, by full name. KeyError or TypeError if it is no schema."""
    definitions: Definitions = {}
    _walk(schema, "", {}, set(), definitions)
    return definitions


def whole(schema: Any, definitions: Mapping[str, Any]) -> Any:
    """The schema with the definitions that it uses inside. KeyError or TypeError if it is no schema."""
    return _walk(schema, "", definitions, set(), {})


def _walk(
    schema: Any, namespace: str, definitions: Mapping[str, Any], defined: set[str], collected: Definitions
) -> Any:
    if isinstance(schema, str):
        if schema in PRIMITIVES:
            return schema
        name = _full(schema, namespace)
        if name in defined or name not in definitions:
            return name
        return _walk(definitions[name], "", definitions, defined, collected)
    if isinstance(schema, list):
        return [_walk(branch, namespace, definitions, defined, collected) for branch in schema]
    kind = schema["type"]
    if not isinstance(kind, str) or (kind not in NAMED and kind not in ("array", "map", *PRIMITIVES)):
        return {**schema, "type": _walk(kind, namespace, definitions, defined, collected)}
    resolved = dict(schema)
    for inner in ("items", "values"):
        if inner in resolved:
            resolved[inner] = _walk(resolved[inner], namespace, definitions, defined, collected)
    if kind in NAMED:
        name = _full(schema["name"], schema.get("namespace", namespace))
        if name in defined:
            return name
        defined.add(name)
        resolved |= {"name": name, "namespace": name.rpartition(".")[0]}
        if "fields" in schema:
            own = resolved["namespace"]
            resolved["fields"] = [
                {**field, "type": _walk(field["type"], own, definitions, defined, collected)}
                for field in schema["fields"]
            ]
        collected[name] = resolved
    return resolved


def _full(name: str, namespace: str) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"


ASK_SECONDS = 30.0
FORGET_SECONDS = 60.0  # until an id without a usable schema is asked for again
MAX_KNOWN = 1000
MAX_REFERENCES = 200

Schema = Any
Usable = tuple[Schema, Check]
Ask = Callable[[str, str], Mapping[str, Any] | None]


@dataclass(frozen=True, slots=True)
class _Unusable:
    """Why an id has no schema for us, and until when that is believed (seconds of the caller's clock)."""

    reason: str
    until: float


class Registry:
    """The schemas of one directory or address. ``ask`` gets an answer by its path; None: it has no such thing."""

    def __init__(self, location: str, *, ask: Ask | None = None) -> None:
        self._location, self._fs, self._ask = location, Fs(), ask or answer
        self._entries: dict[int, Usable | _Unusable] = {}

    def schema(self, number: int, now: float) -> Usable:
        """The schema of an id and the check of its payloads; ``now`` in seconds that never go back.

        NotARecordError if there is none of Avro, RetryableFeedError without an answer, SettingsError where we may not
        ask.
        """
        entry = self._entries.get(number)
        if entry is None or (isinstance(entry, _Unusable) and now >= entry.until):
            try:
                entry = self._look(number)
            except NotARecordError as error:
                # to look into a directory again costs nothing, and a corrected file is seen at once
                entry = _Unusable(str(error), now + FORGET_SECONDS if _is_address(self._location) else now)
            self._entries.pop(number, None)
            while len(self._entries) >= MAX_KNOWN:
                del self._entries[next(iter(self._entries))]
            self._entries[number] = entry
        if isinstance(entry, _Unusable):
            raise NotARecordError(entry.reason)
        return entry

    def _look(self, number: int) -> Usable:
        title = f"schema {number} of the registry"
        try:
            schema = self._of_id(number, title) if _is_address(self._location) else self._of_file(number)
            parsed = fastavro.parse_schema(with_own_names(as_record(schema)))
            return parsed, checker(parsed)
        except NotARecordError:
            raise
        except (*NO_SCHEMA, RecursionError) as error:
            raise NotARecordError(f"{title} is no Avro schema: {_summary(error)}") from None

    def _of_file(self, number: int) -> Any:
        path = Path(self._location) / f"{number}.avsc"
        if self._fs.stat(path) is None:
            raise NotARecordError(f"there is no schema {path}")
        return _json(self._fs.read(path).decode("utf-8", "replace"), f"schema {path}")

    def _of_id(self, number: int, title: str) -> Any:
        path = f"schemas/ids/{number}"
        reply = self._ask(self._location, path)
        if reply is None:
            raise NotARecordError(f"there is no schema {address(self._location, path)}")
        schema = _avro(reply, title)
        if not reply.get("references"):
            return schema
        definitions: Definitions = {}
        self._refer(reply, title, definitions, set())
        return whole(schema, definitions)

    def _refer(
        self, reply: Mapping[str, Any], title: str, definitions: Definitions, visited: set[tuple[str, str]]
    ) -> None:
        """Collects the named types of everything that a schema refers to, directly or not."""
        for reference in reply.get("references") or ():
            subject, version = str(reference["subject"]), str(reference["version"])
            if (subject, version) in visited:
                continue
            visited.add((subject, version))
            if len(visited) > MAX_REFERENCES:
                raise NotARecordError(f"{title} refers to more than {MAX_REFERENCES} schemas")
            path = f"subjects/{quote(subject, safe='')}/versions/{quote(version, safe='')}"
            referenced = self._ask(self._location, path)
            if referenced is None:
                raise NotARecordError(
                    f"{title} refers to {reference.get('name')}: there is no schema {address(self._location, path)}"
                )
            schema = _avro(referenced, f"version {version} of subject {subject}")
            self._refer(referenced, title, definitions, visited)
            definitions |= definitions_in(schema)


@lru_cache(maxsize=8)
def kept_registry(location: str) -> Registry:
    """The registry of this process for a location; what it has learnt is kept as long as the process."""
    return Registry(location)


NO_SCHEMA = (ValueError, TypeError, KeyError, AttributeError, fastavro.schema.SchemaParseException)


def _avro(reply: Mapping[str, Any], title: str) -> Any:
    kind = str(reply.get("schemaType") or "AVRO")
    if kind != "AVRO":
        raise NotARecordError(f"{title} is of type {kind}, not Avro")
    return _json(str(reply["schema"]), title)


def _json(text: str, title: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise NotARecordError(f"{title} is no Avro schema: {_summary(error)}") from None


def _summary(error: Exception) -> str:
    return str(error)[:200] or type(error).__name__


def _is_address(location: str) -> bool:
    return location.startswith(("http://", "https://"))


def answer(registry: str, path: str) -> Mapping[str, Any] | None:
    """What a registry says to a ``GET``; None if it has no such thing.

    RetryableFeedError without an answer that can be read, SettingsError where we may not ask.
    """
    request = _request(registry, path)
    where = request.full_url
    try:
        with urllib.request.urlopen(request, timeout=ASK_SECONDS) as opened:  # noqa: S310 by _is_address
            reply = json.loads(opened.read())
            if not isinstance(reply["schema"], str):
                raise TypeError("its schema is no text")
            return {**reply, "references": _references(reply.get("references"))}
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


def _references(references: Any) -> list[dict[str, Any]]:
    return [{name: reference[name] for name in ("name", "subject", "version")} for reference in references or ()]


def address(registry: str, path: str) -> str:
    """Where something is asked for, without user and password."""
    return _request(registry, path).full_url


def _request(registry: str, path: str) -> urllib.request.Request:
    """A request. User and password of the address go into a header, so that no message shows them."""
    parts = urlsplit(registry)
    host = parts.netloc.rpartition("@")[2]
    request = urllib.request.Request(  # noqa: S310 by _is_address
        urlunsplit((parts.scheme, host, f"{parts.path.rstrip('/')}/{path}", "", ""))
    )
    if parts.username is not None:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        request.add_unredirected_header("Authorization", f"Basic {base64.b64encode(pair.encode()).decode()}")
    return request
