"""What the name of a field lets expect of its values: an identifier, a moment."""

from __future__ import annotations

import re

from sparkhaven.ingest.formats.json.field_paths import path_of

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_GROWING = re.compile(
    "ids?|uid|oid|tid|offset|seq|sequence|serial|hash|counter|epoch|timestamp|ts|nanos|micros|millis|bytes"
)
_IDENTIFYING = re.compile("ids?|uid|uuid|guid|oid|tid|key|hash")
_MOMENT = re.compile(
    "time|timestamp|ts|t|at|date|datetime|day|epoch|created|updated|modified|when|instant|sent|received|clock"
    "|ms|millis|us|micros|ns|nanos|sec|seconds"
)
_EVENT = re.compile("time|timestamp|ts|at|event|trade|quote|datetime|instant|when|occurred")
_INSTRUMENT = re.compile(
    "sym|symbol|ticker|instrument|isin|ric|carrier|device|sensor|host|station|product|account|book"
)


def words(source: str) -> frozenset[str]:
    """The words of the last part of a field's name, in lower case."""
    return frozenset(word.lower() for word in _WORD.findall(path_of(source)[-1]))


def grows(source: str) -> bool:
    """Whether the name is that of an id, an offset or a count of time, which outgrow an int."""
    return _any(source, _GROWING)


def identifies(source: str) -> bool:
    return _any(source, _IDENTIFYING)


def moment(source: str) -> bool:
    return _any(source, _MOMENT) and not identifies(source)


def event(source: str) -> bool:
    """Whether the name is that of the time at which the row's event was."""
    return _any(source, _EVENT)


def instrument(source: str) -> bool:
    """Whether the name is that of what rows are asked for by."""
    return _any(source, _INSTRUMENT)


def _any(source: str, form: re.Pattern[str]) -> bool:
    return any(form.fullmatch(word) for word in words(source))
