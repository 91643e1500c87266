"""What a PromQL expression names: its metrics with the labels of their selectors, and the labels that it groups by.

It knows the functions and keywords that our dashboard and alerts use; any other name is refused, so that a misspelt
metric is not taken for something else.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from sparkhaven.jobs.monitor.metrics.catalogue import CATALOGUE, OF_LOGS, OF_TABLES, PREFIX, Metric

FUNCTIONS = frozenset(
    {
        *("count", "sum", "min", "max", "rate", "increase", "delta", "max_over_time", "absent"),
        *("histogram_quantile", "time", "vector"),
    }
)
GROUPING = frozenset({"by", "without", "on", "ignoring", "group_left", "group_right"})
OPERATORS = frozenset({"and", "or", "unless", "bool"})
METRICS = {item.name: item for item in (*CATALOGUE, *OF_TABLES, *OF_LOGS)}
_TOKEN = re.compile(
    r"""\s*(?:(?P<range>\[[^]]*\])|(?P<selector>\{(?:[^}"]|"(?:[^"\\]|\\.)*")*\})|(?P<name>[A-Za-z_:][\w:]*)|(?P<number>[0-9.]+(?:e[0-9]+)?)"""
    r"""|(?P<other>==|!=|<=|>=|[-+*/<>(),]))"""
)
_MATCHER = re.compile(r'\s*(\w+)\s*(?:=~|!~|!=|=)\s*"(?:[^"\\]|\\.)*"\s*(?:,|$)')


@dataclass(frozen=True)
class Named:
    """``metrics``: name and labels of each selector. ``grouped``: labels after ``by`` and the like."""

    metrics: tuple[tuple[str, frozenset[str]], ...]
    grouped: frozenset[str]


def named(expression: str) -> Named:
    """What an expression names. ValueError: it has something that this module does not know."""
    metrics: list[tuple[str, frozenset[str]]] = []
    grouped: set[str] = set()
    tokens = _tokens(expression)
    at = 0
    while at < len(tokens):
        kind, text = tokens[at]
        following = tokens[at + 1] if at + 1 < len(tokens) else ("", "")
        at += 1
        if kind == "selector":
            raise ValueError(f"a selector without a metric: {text}")
        if kind != "name":
            continue
        if text in GROUPING:
            end = tokens.index(("other", ")"), at)
            grouped.update(word for what, word in tokens[at:end] if what == "name")
            at = end
        elif text.startswith(PREFIX):
            labels: frozenset[str] = frozenset()
            if following[0] == "selector":
                labels, at = _labels(following[1]), at + 1
            metrics.append((text.removeprefix(PREFIX), labels))
        elif text not in OPERATORS and not (text in FUNCTIONS and (following[1] == "(" or following[1] in GROUPING)):
            raise ValueError(f"unknown name {text!r} in {expression!r}")
    return Named(tuple(metrics), frozenset(grouped))


def _tokens(expression: str) -> list[tuple[str, str]]:
    found, at = [], 0
    while at < len(expression.rstrip()):
        match = _TOKEN.match(expression, at)
        if match is None:
            raise ValueError(f"cannot read {expression[at:]!r} of {expression!r}")
        found.append((str(match.lastgroup), match[match.lastgroup or 0]))
        at = match.end()
    return found


def _labels(selector: str) -> frozenset[str]:
    inner, at, found = selector[1:-1], 0, set()
    while at < len(inner):
        match = _MATCHER.match(inner, at)
        if match is None:
            raise ValueError(f"cannot read the selector {selector!r}")
        found.add(match[1])
        at = match.end()
    return frozenset(found)


def series(name: str) -> tuple[Metric, frozenset[str]] | None:
    """The metric that a series belongs to, and the labels of the series; None: there is no such series."""
    item = METRICS.get(name)
    if item is not None:
        return None if item.kind == "histogram" else (item, frozenset(item.labels))
    for suffix, more in (("_bucket", {"le"}), ("_sum", set[str]()), ("_count", set[str]())):
        item = METRICS.get(name.removesuffix(suffix))
        if item is not None and item.kind == "histogram":
            return item, frozenset(item.labels) | more
    return None


def faults(expression: str, shown: Iterable[str] = ()) -> list[str]:
    """What is wrong with an expression, as sentences; ``shown``: the labels that its legend names."""
    try:
        found = named(expression)
    except ValueError as error:
        return [str(error)]
    said, labels = [], set[str]()
    for name, used in found.metrics:
        known = series(name)
        if known is None:
            said.append(f"no series {PREFIX}{name}")
            continue
        labels |= known[1]
        said += [f"{PREFIX}{name} has no label {label}" for label in sorted(used - known[1])]
    if not found.metrics:
        said.append("names no metric")
    grouped = {*found.grouped, *shown}
    return said + [f"no metric of it has the label {label}" for label in sorted(grouped - labels)]
