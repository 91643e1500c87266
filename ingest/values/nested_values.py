"""Arrays and maps of elements that have a plain type: each element follows the rules of a column of that type."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any

from sparkhaven.ingest.spec.stream_spec import Target
from sparkhaven.ingest.values.refusals import Refusal, Value
from sparkhaven.store.quarantine.reasons import Reason
from sparkhaven.store.types.codings.coding import Coding
from sparkhaven.store.types.datatypes import data_type
from sparkhaven.store.types.model import Column, Kind, Storage

Element = Callable[[Any, Target, bool], Value | Refusal]
"""The value of an element for the column of its type, by the rules of a source."""


@lru_cache(maxsize=16)
def element_target(name: str) -> Target:
    """The column that an element of this plain type could be of."""
    column = Column("element", data_type(name), Kind.NORMAL, Storage.FIXED, -1, None)
    return Target(column, "element", "iso", None, None, False)


def has_settings(target: Target) -> bool:
    """Whether a column has settings that its elements follow, if it has any."""
    return target.unit != "iso" or (target.zone, target.far, target.form) != (None, None, None)


def with_settings(take: Element, target: Target) -> Element:
    """The rules of a source for elements of a column with settings of its own."""
    if not has_settings(target):
        return take

    def taken(value: Any, element: Target, alias: bool) -> Value | Refusal:
        one = replace(element, unit=target.unit, zone=target.zone, far=target.far, form=target.form)
        return take(value, one, alias)

    return taken


def nested_value(value: Any, coding: Coding, name: str, alias: bool, element: Element) -> Any:
    """A list or dict as a column of the coding has it, or why it is refused. ``name``: the plain type of elements."""
    if coding.json == "object":
        return _map(value, coding, name, alias, element)
    if not isinstance(value, list):
        return Refusal(Reason.NO_VALUE_OF_TYPE, coding.domain)
    values = []
    for given in value:
        taken = element(given, element_target(name), alias)
        if isinstance(taken, Refusal):
            return _within(taken, coding)
        if taken is None and name == "Boolean":
            return Refusal(Reason.NO_VALUE_OF_TYPE, coding.domain)
        values.append(taken)
    return values


def _map(value: Any, coding: Coding, name: str, alias: bool, element: Element) -> Any:
    if not isinstance(value, dict):
        return Refusal(Reason.NO_VALUE_OF_TYPE, coding.domain)
    entries = []
    for key, given in value.items():
        taken = element(given, element_target(name), alias)
        if isinstance(taken, Refusal):
            return _within(taken, coding)
        entries.append((key, taken))
    return entries


def _within(refusal: Refusal, coding: Coding) -> Refusal:
    return replace(refusal, expected=f"{coding.domain}, each {refusal.expected}")
