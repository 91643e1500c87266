"""Which type a field gets, and why: the narrowest one that leaves room, of those that take every value of the sample.

For each type there are readings, from the plain one to those that need a setting; types are offered in the order of
preference, and the first that fits is kept. The reason says what was seen.

Of numbers there are whole ones with room to grow, others, and those that are written in a way of their own. Instants
are ISO texts, texts of other patterns, and numbers that count time since 1970. The name of a field lets expect more of
its values: an identifier, a moment.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal

import pyarrow as pa

from sparkhaven.ingest.formats.json.field_paths import path_of
from sparkhaven.ingest.inference.field_facts import (
    ARRAY,
    BOOLEAN,
    FRACTION,
    OBJECT,
    PLURAL,
    TEXT,
    WHOLE,
    Facts,
    Reading,
)
from sparkhaven.ingest.sample_rows import Form
from sparkhaven.ingest.spec import TextForm, Unit
from sparkhaven.ingest.values.exact_values import SPECIAL_TEXT, is_number, nearest_double
from sparkhaven.ingest.values.json_text import exact_number
from sparkhaven.ingest.values.text_forms import NUMBERS
from sparkhaven.store.conversions.conversion_table import INTEGER_BITS, SIGNIFICANT, Group, source_of
from sparkhaven.store.types.codings.decimals import MOST_DIGITS

Fits = Callable[[Reading], bool]
"""Whether the decoder takes every value of the sample so."""
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
_MOST = 76  # digits of a codec of one width
COMFORT = 2**31 // 16  # an int that is larger may soon be too large
_NUMERIC = re.compile(r"[ \t]*[+-]?[0-9][0-9.,]*[ \t]*\Z")
_CODE = re.compile(r"[ \t]*[+-]?0[0-9]")
_MARKS = ((False, ",", "."), (True, ",", "."), (False, ".", ","), (True, ".", ","))
CHARS = 100  # values of one letter that make a char
AS_TEXT = TextForm(as_text=True)
_FRACTION_DIGITS = {"s": "0", "ms": "3", "us": "6", "ns": "9"}
_WORDS = (("1", "0"), ("t", "f"), ("T", "F"), ("y", "n"), ("Y", "N"), ("yes", "no"), ("Yes", "No"), ("YES", "NO"))
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


@dataclass(frozen=True, slots=True)
class TypeChoice:
    """A reading and why; ``also`` are further sentences. No reading: the field cannot be stored."""

    reading: Reading | None
    reason: str
    also: tuple[str, ...] = ()


def first(facts: Facts, readings: list[Reading], fits: Fits, why: str, words: str | None = None) -> TypeChoice | None:
    """The first of some readings that fits; ``why`` is said of it, ``words`` its values are. None if none does."""
    words = words or PLURAL[facts.only or TEXT]
    for reading in readings:
        if fits(reading):
            return TypeChoice(reading, f"{reading.type}: {seen(facts, words)}{why}")
    return None


def seen(facts: Facts, words: str) -> str:
    """How many of the rows are what they are said to be, and how many are null."""
    nulls = f", {facts.nulls:,} {'is' if facts.nulls == 1 else 'are'} null" if facts.nulls else ""
    return f"{facts.values:,} of {facts.rows:,} values are {words}{nulls}"


def between(facts: Facts, words: str) -> str:
    """What numbers are, with the smallest and the largest."""
    if facts.low is None or facts.high is None:
        return words
    return f"{words} from {_number(facts.low)} to {_number(facts.high)}"


def _number(value: int | Decimal) -> str:
    return f"{value:,}" if isinstance(value, int) and abs(value) < 10**30 else f"{value:.6g}"


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


def numbers(facts: Facts, source: str, fits: Fits) -> TypeChoice | None:
    if moment(source):
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
    growing = grows(source)
    if small and not growing:
        choice = first(facts, [Reading("int")], fits, "", words)
        if choice is not None:
            return choice
    why = " (values of such a name grow)" if small else " (an int would leave them little room)"
    long = first(facts, [Reading("long")], fits, why, words)
    found_units = [] if identifies(source) else units(facts)
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


def choose(facts: Facts, source: str, form: Form, zone: str, fits: Fits) -> TypeChoice:
    """The type of a field. ``zone`` is that of texts without an offset; ``fits`` asks the decoder."""
    if not facts.values:
        return TypeChoice(
            Reading("String"), f"String: all {facts.rows:,} values are null, so nothing is known of its type"
        )
    if form == "parquet":
        return _declared(facts, source, zone, fits)
    kinds, choice = set(facts.kinds), None
    if facts.only == BOOLEAN:
        choice = first(facts, [Reading("Boolean")], fits, "")
    elif kinds <= {WHOLE, FRACTION}:
        choice = numbers(facts, source, fits)
    elif facts.only == TEXT:
        choice = moments(facts, zone, fits) or _letters(facts, fits)
    if choice is None and form == "csv" and kinds <= {TEXT, WHOLE, FRACTION}:
        choice = written_otherwise(facts, fits)
    if choice is None and form == "json" and TEXT in kinds and kinds <= {TEXT, WHOLE, FRACTION} and not facts.only:
        choice = quoted(facts, fits)
    if facts.only == ARRAY:
        choice = _array(facts, fits)
    return choice or _text(facts, form, fits)


def readings_of(kind: str, facts: Facts, form: Form, zone: str) -> Iterator[Reading]:
    """Readings of a type that somebody chose, from the plain one on."""
    yield Reading(kind)
    if kind == "String" and form in ("json", "parquet"):
        yield Reading(kind, form=AS_TEXT)
    elif kind in ("float", "double") and form == "parquet":
        yield Reading(kind, lossy=True)
    elif kind == "Instant":
        yield Reading(kind, zone=zone)
        yield from (Reading(kind, unit=unit) for unit in units(facts))
        yield from patterned(zone)
        yield from (Reading(kind, unit=unit) for unit, _ in EPOCHS)
        yield Reading(kind, zone=zone, far="clamp")
    elif kind == "Boolean":
        yield from (Reading(kind, form=TextForm(true=(yes,), false=(no,))) for yes, no in _WORDS)
        yield Reading(kind, form=TextForm(quoted=True))
    elif kind == "Instant[]":
        yield Reading(kind, zone=zone)
        yield from (Reading(kind, unit=unit) for unit, _ in EPOCHS)
    elif kind == "LocalDate":
        yield Reading(kind, form=TextForm(trim=True))
        yield from (Reading(kind, form=TextForm(pattern=pattern)) for pattern in DAYS)
        yield Reading(kind, unit="d")
        yield from (Reading(kind, unit=unit) for unit, _ in EPOCHS)
    elif kind == "LocalTime":
        yield Reading(kind, form=TextForm(trim=True))
        yield from (Reading(kind, form=TextForm(pattern=pattern)) for pattern in CLOCKS)
    if kind in NUMBERS:
        yield from (Reading(kind, form=number_form) for number_form in (TextForm(quoted=True), *forms()))


def _array(facts: Facts, fits: Fits) -> TypeChoice | None:
    """Arrays whose elements are of one kind. Of empty ones nothing is known."""
    if all(text == "[]" for text in facts.counts):
        return None
    fractions = any("." in text or "e" in text or "E" in text for text in facts.counts)
    kinds = ("boolean[]", *(() if fractions else ("long[]",)), "double[]", "Instant[]", "String[]")
    return first(facts, [Reading(kind) for kind in kinds], fits, "", "arrays")


def _letters(facts: Facts, fits: Fits) -> TypeChoice | None:
    letters = facts.values >= CHARS and all(len(t) == 1 and t.isascii() and t.isalpha() for t in facts.counts)
    return first(facts, [Reading("char")], fits, "", "single letters") if letters else None


def _text(facts: Facts, form: Form, fits: Fits) -> TypeChoice:
    plain = form == "csv" or facts.only == TEXT
    if plain:
        words = "texts" if facts.only == TEXT else "texts, as no one type takes all"
    elif facts.only in (ARRAY, OBJECT):
        words = f"{PLURAL[str(facts.only)]}, of which the JSON text is kept"
    elif facts.only is not None:
        words = f"{PLURAL[facts.only]} that no type takes, of which the JSON text is kept"
    else:
        words = "of several kinds: of those that are no texts the JSON text is kept"
    also: tuple[str, ...] = ()
    if len(facts.kinds) > 1:
        kinds = "; ".join(f"{facts.kinds[kind]:,} {PLURAL[kind]}, first {facts.first[kind]}" for kind in facts.first)
        also = (f"values conflict: {kinds}",)
    elif facts.only == TEXT and (exact := decimal_in_texts(facts)) is not None and fits(exact):
        also = (f"if they are numbers, write {exact.declared}, which has every digit, in quotes too",)
    reading = Reading("String", form=None if plain else AS_TEXT)
    return TypeChoice(reading, f"String: {seen(facts, f'{words}, {facts.distinct:,} different')}", also)


def _declared(facts: Facts, source: str, zone: str, fits: Fits) -> TypeChoice:
    """By the types that files declare; what no other type takes is kept as text."""
    every = facts.types
    groups = {source_of(kind).group for kind in every}
    if groups == {Group.TEXT}:
        return moments(facts, zone, fits) or _letters(facts, fits) or _text(facts, "parquet", fits)
    tries: list[Reading] = []
    if groups == {Group.BOOLEAN}:
        tries = [Reading("Boolean")]
    elif groups == {Group.UUID}:
        tries = [Reading("String")]
    elif all(pa.types.is_integer(t) or (pa.types.is_decimal(t) and t.scale == 0) for t in every):
        tries = [Reading("Instant", unit=unit) for unit in units(facts)] if moment(source) else []
        tries += [Reading(kind) for kind in ("short", "int", "long") if _holds(kind, every)]
        tries.append(Reading("BigInteger", arguments=str(max(map(_digits, every)))))
    elif groups == {Group.DECIMAL}:
        whole = max(kind.precision - kind.scale for kind in every)
        scale = max(0, *(kind.scale for kind in every))
        exact = f"{max(whole, 0) + scale},{scale}" if max(whole, 0) + scale <= MOST_DIGITS else None
        tries = [Reading("BigDecimal", arguments=exact)]
    elif groups <= {Group.WHOLE, Group.FLOATING, Group.DECIMAL}:
        small = all(t in (pa.float16(), pa.float32()) for t in every)
        tries = [*([Reading("float")] if small else []), Reading("double"), Reading("double", lossy=True)]
    elif groups == {Group.DATE}:
        tries = [Reading("LocalDate")]
    elif groups == {Group.NESTED}:
        kinds = ("boolean", "short", "int", "long", "float", "double", "Instant", "String")
        tries = [Reading(f"{kind}[]") for kind in kinds if _elements(kind, every)]
    elif groups <= {Group.TIMESTAMP, Group.LOCAL, Group.DATE}:
        tries = [Reading("Instant"), Reading("Instant", zone=zone), Reading("Instant", zone=zone, far="clamp")]
    elif groups == {Group.SPAN} and len(every) == 1:
        digits = _FRACTION_DIGITS.get(every[0].unit) if pa.types.is_time(every[0]) else None
        tries = [*([] if digits is None else [Reading("LocalTime", arguments=digits)]), Reading("long")]
    named = " and ".join(map(str, every))
    for reading in [*tries, *([Reading("String", form=AS_TEXT)] if Group.BYTES not in groups else [])]:
        if fits(reading):
            notes = _notes(reading, groups, zone)
            return TypeChoice(reading, f"{reading.type}: {seen(facts, f'of Parquet type {named}')}", notes)
    hint = ". If the bytes are texts, set binary_as_text = true in [feed]" if Group.BYTES in groups else ""
    return TypeChoice(None, f"Parquet type {named} has no column type in this release{hint}")


def _notes(reading: Reading, groups: set[Group], zone: str) -> tuple[str, ...]:
    notes = []
    if reading.zone:
        notes.append(f"values without a zone are taken for times in {zone}. Give the right zone with --zone")
    if reading.far:
        notes.append("values beyond 1677 to 2262 become the nearest that can be stored")
    if reading.lossy:
        notes.append("a double does not hold every value. The nearest is stored, digits beyond 15 may be lost")
    if groups == {Group.SPAN} and reading.type == "long":
        notes.append("a long holds the count of its unit")
    if reading.form == AS_TEXT:
        notes.append("the text of each value is kept. No column type takes them")
    return tuple(notes)


def _elements(name: str, types: tuple[pa.DataType, ...]) -> bool:
    """Whether arrays of a plain type have room for every element of these types of lists, but for the null value."""
    if not all(hasattr(kind, "value_type") and not pa.types.is_map(kind) for kind in types):
        return False
    sources = [source_of(kind.value_type) for kind in types]
    if name in INTEGER_BITS:
        half = 1 << (INTEGER_BITS[name] - 1)
        return all(s.group is Group.WHOLE and -half <= s.low and s.high < half for s in sources)
    if name in SIGNIFICANT:
        return all(s.group is Group.FLOATING and s.digits <= SIGNIFICANT[name] for s in sources)
    group = {"boolean": Group.BOOLEAN, "Instant": Group.TIMESTAMP}.get(name, Group.TEXT)
    return all(s.group is group for s in sources)


def _digits(kind: pa.DataType) -> int:
    """Digits of any whole number of a type."""
    return int(kind.precision) if pa.types.is_decimal(kind) else 20


def _holds(kind: str, types: tuple[pa.DataType, ...]) -> bool:
    bits = {"short": 16, "int": 32, "long": 64}[kind]
    return all(_bits(t) <= bits for t in types)


def _bits(kind: pa.DataType) -> int:
    """Bits of a signed number with room for all values of the type; a null value of bytes is in their range."""
    if pa.types.is_decimal(kind):
        return 32 if kind.precision <= 9 else 64 if kind.precision <= 18 else 10**6
    if pa.types.is_unsigned_integer(kind):
        return min(2 * int(kind.bit_width), 64)
    return max(16, int(kind.bit_width))


def name_words(source: str) -> frozenset[str]:
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
    return any(form.fullmatch(word) for word in name_words(source))
