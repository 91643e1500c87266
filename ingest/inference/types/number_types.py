"""Numbers: whole ones with room to grow, others, and those that are written in a way of their own."""

from __future__ import annotations

import re
from decimal import Decimal

from sparkhaven.ingest.inference.field_facts import TEXT, WHOLE, Facts
from sparkhaven.ingest.inference.field_readings import Reading
from sparkhaven.ingest.inference.types import hints
from sparkhaven.ingest.inference.types.moments import units
from sparkhaven.ingest.inference.types.type_choice import Fits, TypeChoice, between, first, seen
from sparkhaven.ingest.spec.stream_spec import TextForm
from sparkhaven.ingest.values.exact_values import SPECIAL_TEXT, is_number, nearest_double
from sparkhaven.ingest.values.json_text import exact_number

_MOST = 76  # digits of a codec of one width
COMFORT = 2**31 // 16  # an int that is larger may soon be too large
_NUMERIC = re.compile(r"[ \t]*[+-]?[0-9][0-9.,]*[ \t]*\Z")
_CODE = re.compile(r"[ \t]*[+-]?0[0-9]")
_MARKS = ((False, ",", "."), (True, ",", "."), (False, ".", ","), (True, ".", ","))


def numbers(facts: Facts, source: str, fits: Fits) -> TypeChoice | None:
    if hints.moment(source):
        for unit in units(facts):
            words = f"{between(facts, 'numbers')}, instants in {unit} since 1970"
            choice = first(facts, [Reading("Instant", unit=unit)], fits, "", words)
            if choice is not None:
                return choice
    if facts.only == WHOLE:
        lost = " (a long has no room for them)"
        return _whole(facts, source, fits) or first(facts, [Reading("BigInteger")], fits, lost, "whole numbers")
    mixed = f", {facts.kinds[WHOLE]:,} of them without a fraction" if facts.kinds[WHOLE] else ""
    decimal = _decimal(facts)
    if decimal is not None:
        choice = first(facts, [decimal], fits, " (a double would lose digits)", between(facts, "numbers"))
        if choice is not None:
            return choice
    return first(facts, [Reading("double")], fits, mixed, between(facts, "numbers"))


def _decimal(facts: Facts) -> Reading | None:
    """A BigDecimal that holds all digits, if a double does not."""
    numbers = [Decimal(text) for text in facts.counts if not SPECIAL_TEXT.match(text)]
    if len(numbers) < len(facts.counts) or all(number == Decimal(repr(nearest_double(number))) for number in numbers):
        return None
    scale = max(0, *(-int(number.as_tuple().exponent) for number in numbers))
    return Reading("BigDecimal", arguments=decimal_arguments(max(number.adjusted() + 1 for number in numbers), scale))


def decimal_in_texts(facts: Facts) -> Reading | None:
    """The type that holds all digits of numbers that stand in quotes; None: a text is no number, or one of a code."""
    texts = facts.counts
    if not all(map(is_number, texts)) or any(map(_CODE.match, texts)):
        return None
    numbers = [exact_number(text) for text in texts]
    scale = max(0, *(-int(Decimal(number).as_tuple().exponent) for number in numbers))
    if not scale:
        return Reading("BigInteger")
    whole = max(Decimal(number).adjusted() + 1 for number in numbers)
    return Reading("BigDecimal", arguments=decimal_arguments(whole, scale))


def decimal_arguments(whole: int, scale: int) -> str | None:
    """Of a codec with so many digits before the point and behind it: 38 digits, or 76, or any number of them."""
    digits = max(whole, 0) + scale
    return None if digits > _MOST else f"{38 if digits <= 38 else _MOST},{scale}"


def written_otherwise(facts: Facts, fits: Fits) -> TypeChoice | None:
    """Numbers of CSV with blanks around them, or with marks of their own."""
    texts = facts.counts
    if not all(map(_NUMERIC.match, texts)) or any(map(_CODE.match, texts)):  # leading zeros: codes, not numbers
        return None
    points, commas = (any(mark in text for text in texts) for mark in ".,")
    for form in forms():
        if form.thousands == "." and not (points and commas):
            continue
        for kind in ("long", "double"):
            if fits(Reading(kind, form=form)):
                words = f"numbers {_as_written(form)}, like {next(iter(texts))}"
                return TypeChoice(Reading(kind, form=form), f"{kind}: {seen(facts, words)}")
    return None


def quoted(facts: Facts, fits: Fits) -> TypeChoice | None:
    """Numbers of JSON of which some stand in quotes."""
    words = f"numbers, {facts.kinds[TEXT]:,} of them in quotes or empty quotes"
    form = TextForm(quoted=True)
    return first(facts, [Reading("long", form=form), Reading("double", form=form)], fits, "", words)


def forms() -> list[TextForm]:
    """Ways to write numbers that a setting allows."""
    marked = [TextForm(trim=trim, thousands=thousands, decimal=point) for trim, thousands, point in _MARKS]
    return [TextForm(trim=True), *marked, TextForm(decimal=","), TextForm(trim=True, decimal=",")]


def _whole(facts: Facts, source: str, fits: Fits) -> TypeChoice | None:
    words = between(facts, "whole numbers")
    low, high = facts.low, facts.high
    small = low is not None and high is not None and low >= -COMFORT and high <= COMFORT
    grows = hints.grows(source)
    if small and not grows:
        choice = first(facts, [Reading("int")], fits, "", words)
        if choice is not None:
            return choice
    why = " (values of such a name grow)" if small else " (an int would leave them little room)"
    long = first(facts, [Reading("long")], fits, why, words)
    found_units = [] if hints.identifies(source) else units(facts)
    if long is None or not found_units:
        return long
    also = f'if they are instants in {found_units[0]} since 1970, write dataType="Instant": schema new finds the unit'
    return TypeChoice(long.reading, long.reason, (also,))


def _as_written(form: TextForm) -> str:
    words = [
        *(["with blanks around them"] if form.trim else []),
        *([f"with {form.thousands!r} between thousands"] if form.thousands else []),
        *([f"with {form.decimal!r} before the fraction"] if form.decimal != "." else []),
    ]
    return " and ".join(words)
