"""Instants: ISO texts, texts of other patterns, and numbers that count time since 1970."""

from __future__ import annotations

import re

from sparkhaven.ingest.inference.field_facts import FRACTION, WHOLE, Facts
from sparkhaven.ingest.inference.field_readings import Reading
from sparkhaven.ingest.inference.types.type_choice import Fits, TypeChoice, first, seen
from sparkhaven.ingest.spec.stream_spec import TextForm, Unit

EPOCHS: tuple[tuple[Unit, int], ...] = (("s", 1), ("ms", 10**3), ("us", 10**6), ("ns", 10**9))
"""Units of time since 1970, and how many of them a second has."""

PATTERNS = (
    "%Y/%m/%d %H:%M:%S",
    "%Y%m%d %H:%M:%S",
    "%Y%m%dT%H%M%S",
    "%Y%m%dT%H%M%S%z",
    "%Y-%m-%d %H:%M:%S %z",
    "%d.%m.%Y %H:%M:%S",
    "%d.%m.%Y %H:%M",
    "%m/%d/%Y %H:%M:%S",
    "%d/%m/%Y %H:%M:%S",
    "%m/%d/%Y %I:%M:%S %p",
    "%d/%b/%Y:%H:%M:%S %z",
    "%a, %d %b %Y %H:%M:%S %z",
    "%b %d %Y %H:%M:%S",
)
DAYS = ("%d.%m.%Y", "%Y/%m/%d", "%Y%m%d", "%d-%b-%Y")  # patterns of dates, each of which fits one order only
CLOCKS = ("%H%M%S", "%I:%M %p", "%I:%M:%S %p", "%H:%M:%SZ", "%H%M")  # patterns of times of day
DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}\Z")
_CLOCK = re.compile(r"[0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,9})?)?\Z")
_EARLIEST, _LATEST = 631_152_000, 4_102_444_800  # 1990 and 2100, in seconds since 1970


def moments(facts: Facts, zone: str, fits: Fits) -> TypeChoice | None:
    """An Instant for texts that are all moments, a LocalDate for dates, a LocalTime for times of day."""
    example = next(iter(facts.counts))
    for pattern, kind, words in ((DAY, "LocalDate", "dates"), (_CLOCK, "LocalTime", "times of day")):
        if all(map(pattern.match, facts.counts)):
            choice = first(facts, [Reading(kind)], fits, "", words)
            if choice is not None:
                return choice
    choice = first(facts, [Reading("Instant")], fits, "", f"ISO instants with their offset, like {example}")
    if choice is not None:
        return choice
    local = Reading("Instant", zone=zone)
    if fits(local):
        note = f"texts without an offset are taken for times in {zone}. Give the right zone with --zone"
        return TypeChoice(
            local, f"Instant: {seen(facts, f'ISO instants like {example}')}, some without an offset", (note,)
        )
    fitting = [reading for reading in patterned(zone) if fits(reading)]
    if not fitting:
        return None
    patterns = " and ".join(str(reading.form.pattern) for reading in fitting if reading.form is not None)
    if len(fitting) > 1:
        also = f'{patterns} both fit. Write dataType="Instant" here and the right format under [columns]'
        return TypeChoice(Reading("String"), f"String: {seen(facts, f'texts like {example}')}", (also,))
    note = f"they are taken for times in {zone}. Give the right zone with --zone"
    words = f"instants like {example}, which are {patterns}"
    return TypeChoice(fitting[0], f"Instant: {seen(facts, words)}", (note,) if fitting[0].zone else ())


def patterned(zone: str) -> list[Reading]:
    return [
        Reading("Instant", zone=None if "%z" in pattern else zone, form=TextForm(pattern=pattern))
        for pattern in PATTERNS
    ]


def units(facts: Facts) -> list[Unit]:
    """The unit in which all values, if they are numbers, are moments from 1990 to 2100; at most one."""
    if facts.low is None or facts.high is None or not set(facts.kinds) <= {WHOLE, FRACTION}:
        return []
    low, high = facts.low, facts.high
    return [unit for unit, scale in EPOCHS if _EARLIEST * scale <= low and high <= _LATEST * scale]
