"""Texts as a column's settings allow them, made into the texts that the strict rules take; one by one, or all at once.

Nothing is guessed: what a setting does not name stays as it is, and the strict rules refuse it.

Patterns of dates and times are those of ``strptime``. Both ways make the same ISO text of a text that fits the pattern,
so what that text means is decided in one place. Names of months and days are English, in any case. A number between
separators may lack leading zeros, a year may not. Numbers that adjoin have all of their digits: a short text would not
say which digit is missing. Whole columns become Instants by Arrow where all texts have the same form, by pattern where
some are odd.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparkhaven.ingest.spec import Target, TextForm
from sparkhaven.ingest.values.arrow_columns import (
    Mask,
    Typed,
    compact,
    either,
    instants,
    join,
    mask_of,
    outside,
    some,
    try_cast,
)
from sparkhaven.ingest.values.instants import INSTANT_HIGH, zone_table
from sparkhaven.ingest.values.typed_rows import Refusal
from sparkhaven.store.instants import NS_PER_SECOND
from sparkhaven.store.quarantine.rejected_rows import Reason

MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_LONG = (
    "january|february|march|april|may|june|july|august|september|october|november|december",
    "monday|tuesday|wednesday|thursday|friday|saturday|sunday",
)
_TWO = "[0-9]{1,2}"
_DIGITS = frozenset("0123456789")
_NUMBERS = frozenset("YymdHIMSf")
_FRACTION = re.compile(r"[369]f")
_GROUPS = {
    "Y": r"(?P<Y>[0-9]{4})",
    "y": r"(?P<y>[0-9]{2})",
    "m": f"(?P<m>{_TWO})",
    "d": f"(?P<d>{_TWO})",
    "H": f"(?P<H>{_TWO})",
    "I": f"(?P<I>{_TWO})",
    "M": f"(?P<M>{_TWO})",
    "S": f"(?P<S>{_TWO})",
    "f": r"(?P<f>[0-9]{1,9})",
    "p": r"(?P<p>(?i:am|pm))",
    "z": r"(?P<z>Z|[+-][0-9]{2}:?[0-9]{2})",
    "b": rf"(?P<b>(?i:{'|'.join(MONTHS)}))",
    "B": rf"(?P<b>(?i:{_LONG[0]}))",
    "a": r"(?:(?i:mon|tue|wed|thu|fri|sat|sun))",
    "A": rf"(?:(?i:{_LONG[1]}))",
}
_NEEDED = (("Y", "y"), ("m", "b"), ("d",))
_DAY = (  # the days that there are, in the years from 1700 to 2199
    r"(?:(?:1[7-9]|2[01])[0-9]{2}-(?:(?:0[1-9]|1[0-2])-(?:0[1-9]|1[0-9]|2[0-8])|(?:0[13-9]|1[0-2])-(?:29|30)"
    r"|(?:0[13578]|1[02])-31)|(?:(?:1[7-9]|2[01])(?:0[48]|[2468][048]|[13579][26])|2000)-02-29)"
)
_TIME = r"[T ](?:[01][0-9]|2[0-3])(?::[0-5][0-9](?::[0-5][0-9](?:\.[0-9]{1,9})?)?)?"
_OFFSET = r"(?:Z|[+-](?:[01][0-9]|2[0-3])(?::?[0-5][0-9])?)"
_CLOCK = f"(?:{_TIME}{_OFFSET}?)?"
_ISO_NEAR = f"^{_DAY}{_CLOCK}$"
_DAY_FAR = (  # days of 2263 to 9999, but for leap days
    r"(?:226[3-9]|22[7-9][0-9]|2[3-9][0-9]{2}|[3-9][0-9]{3})-(?:(?:0[1-9]|1[0-2])-(?:0[1-9]|1[0-9]|2[0-8])"
    r"|(?:0[13-9]|1[0-2])-(?:29|30)|(?:0[13578]|1[02])-31)"
)
NUMBERS = frozenset({"byte", "short", "int", "long", "float", "double", "BigDecimal", "BigInteger"})
DATED = ("Instant", "LocalDate", "LocalTime")  # types with a pattern
BLANKS = " \t"
YES = ("true", "True", "TRUE")
NO = ("false", "False", "FALSE")
_ISO_FAR, _ISO_FAR_ZONED = f"^{_DAY_FAR}{_CLOCK}$", f"^{_DAY_FAR}{_TIME}{_OFFSET}$"
_SAFE_LOW, _SAFE_HIGH = -9_214_560_000 * NS_PER_SECOND, 9_214_646_400 * NS_PER_SECOND  # 1678 to 2262-01-01, in ns


@dataclass(frozen=True, slots=True)
class _Part:
    """A sign of a pattern with its digits (``%3f``: 3), or a literal text, whose sign is empty."""

    sign: str
    text: str = ""
    digits: int | None = None

    @property
    def ends_with_digit(self) -> bool:
        """Whether a digit behind this part could belong to it."""
        return self.sign in _NUMBERS or self.sign == "z" if self.sign else self.text in _DIGITS

    @property
    def begins_with_digit(self) -> bool:
        """Whether a digit before this part could belong to it."""
        return self.sign in _NUMBERS if self.sign else self.text in _DIGITS


class DatePattern:
    """One pattern, compiled; ``clock``: of a time of day alone.

    ValueError if it has no year, month or day, or no hour where it is of a time; an unknown sign, or one twice.
    """

    def __init__(self, pattern: str, *, clock: bool = False) -> None:
        self.pattern, self._clock = pattern, clock
        parts = _parts(pattern)
        names = ["b" if part.sign == "B" else part.sign for part in parts if part.sign]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"%{name} stands twice, or twice in other words")
        signs = set(names)
        needed = (("H", "I"),) if clock else _NEEDED
        missing = [" or ".join(f"%{name}" for name in names) for names in needed if not signs & set(names)]
        if clock and signs & {*"Yymdbz"}:
            raise ValueError("a LocalTime has no date and no offset")
        if missing:
            raise ValueError(f"it lacks {', '.join(missing)}")
        if any(len(signs & set(pair)) > 1 for pair in (("Y", "y"), ("m", "b"), ("H", "I"))) or (
            ("I" in signs) != ("p" in signs)
        ):
            raise ValueError("it says a part of the time in two ways, or half of it (%I goes with %p)")
        if (
            ("M" in signs and not signs & {"H", "I"})
            or ("S" in signs and "M" not in signs)
            or ("f" in signs and "S" not in signs)
        ):
            raise ValueError("it has minutes without hours, seconds without minutes, or a fraction without seconds")
        self._signs = signs
        regex = "".join(_group(parts, index) for index in range(len(parts)))
        self._text = f"^{regex}$"
        self._exact = re.compile(f"{regex}\\Z", re.ASCII)

    @property
    def has_clock(self) -> bool:
        """Whether it has a time of day or an offset."""
        return bool({"H", "I", "z"} & self._signs)

    def iso(self, text: str) -> str | None:
        """The ISO text of a text that fits, else None; whether there is such a day is not looked at."""
        match = self._exact.match(text)
        if match is None:
            return None
        part = match.groupdict()
        iso = ""
        if not self._clock:
            year = f"{'19' if part['y'] >= '69' else '20'}{part['y']}" if "y" in part else part["Y"]
            month = f"{MONTHS.index(part['b'][:3].lower()) + 1:02d}" if "b" in part else part["m"].zfill(2)
            iso = f"{year}-{month}-{part['d'].zfill(2)}"
        hour = part.get("H", "00").zfill(2)
        if "I" in part:
            if not 1 <= int(part["I"]) <= 12:
                return None
            hour = f"{int(part['I']) % 12 + (12 if part['p'].lower() == 'pm' else 0):02d}"
        if not {"H", "I", "z"} & self._signs:
            return iso
        iso += f"{'' if self._clock else 'T'}{hour}:{part.get('M', '00').zfill(2)}:{part.get('S', '00').zfill(2)}"
        return iso + (f".{part['f']}" if "f" in part else "") + part.get("z", "")

    def iso_texts(self, texts: pa.StringArray) -> Typed:
        """ISO texts of a column; those that do not fit are null and in doubt."""
        parts = pc.extract_regex(texts, self._text)
        fits = parts.is_valid()
        doubt = mask_of(texts.is_valid()) & ~mask_of(fits)
        part = {name: pc.struct_field(parts, name) for name in parts.type.names}
        two = {name: pc.utf8_lpad(part[name], 2, "0") for name in ("m", "d", "H", "I", "M", "S") if name in part}
        iso = pa.nulls(len(texts), pa.string()) if self._clock else _days(part, two)
        if {"H", "I", "z"} & self._signs:
            hour = two.get("H", pa.repeat("00", len(texts)))
            if "I" in part:
                number = pc.cast(two["I"], pa.int32())
                odd = mask_of(pc.or_(pc.less(number, 1), pc.greater(number, 12)))
                doubt |= odd
                noon = pc.if_else(pc.equal(pc.utf8_lower(part["p"]), "pm"), 12, 0)
                number = pc.add(pc.if_else(pc.equal(number, 12), 0, number), noon)
                hour = pc.utf8_lpad(pc.cast(number, pa.string()), 2, "0")
            zero = pa.repeat("00", len(texts))
            clock = pc.binary_join_element_wise(hour, two.get("M", zero), two.get("S", zero), ":")
            iso = clock if self._clock else pc.binary_join_element_wise(iso, clock, "T")
            if "f" in part:
                iso = pc.binary_join_element_wise(iso, part["f"], ".")
            if "z" in part:
                iso = pc.binary_join_element_wise(iso, part["z"], "")
        kept = pc.if_else(pa.array(doubt), None, pc.if_else(fits, iso, None))
        return compact(kept.cast(pa.string())), some(np.asarray(doubt))


def _days(part: Mapping[str, pa.Array], two: Mapping[str, pa.Array]) -> pa.Array:
    """The dates of a column by its parts; ``two``: those with two digits."""
    if "y" in part:
        year = pc.binary_join_element_wise(pc.if_else(pc.greater_equal(part["y"], "69"), "19", "20"), part["y"], "")
    else:
        year = part["Y"]
    if "b" in part:
        index = pc.index_in(pc.utf8_lower(pc.utf8_slice_codeunits(part["b"], 0, 3)), value_set=pa.array(MONTHS))
        month = pc.utf8_lpad(pc.cast(pc.add(index, 1), pa.string()), 2, "0")
    else:
        month = two["m"]
    return pc.binary_join_element_wise(year, month, two["d"], "-")


def _parts(pattern: str) -> list[_Part]:
    """The parts of a pattern in order. ValueError for an unknown sign."""
    parts: list[_Part] = []
    offset = 0
    while offset < len(pattern):
        fraction = _FRACTION.match(pattern, offset + 1)
        sign = pattern[offset + 1 : offset + 2]
        if pattern[offset] != "%":
            parts.append(_Part("", pattern[offset]))
            offset += 1
            continue
        if fraction is not None:
            parts.append(_Part("f", digits=int(sign)))
        elif sign == "%":
            parts.append(_Part("", "%"))
        elif sign in _GROUPS:
            parts.append(_Part(sign))
        else:
            signs = " ".join(f"%{name}" for name in _GROUPS)
            raise ValueError(f"%{sign} is not known. There are {signs} %3f %6f %9f and %% for a percent sign")
        offset += 3 if fraction is not None else 2
    return parts


def _group(parts: Sequence[_Part], index: int) -> str:
    """The expression of one part. A number beside a number has all of its digits."""
    part = parts[index]
    if not part.sign:
        return re.escape(part.text)
    if part.digits is not None:
        return f"(?P<f>[0-9]{{{part.digits}}})"
    adjoins = any(before.ends_with_digit for before in parts[max(index - 1, 0) : index])
    adjoins |= any(behind.begins_with_digit for behind in parts[index + 1 : index + 2])
    if not adjoins or part.sign not in "mdHIMSf":
        return _GROUPS[part.sign]
    if part.sign != "f":
        return f"(?P<{part.sign}>[0-9]{{2}})"
    first = index
    while first and parts[first - 1].ends_with_digit:
        first -= 1
    # a text that begins with its year has lost no zeros in front, so its length tells the unit
    return "(?P<f>[0-9]{3}|[0-9]{6}|[0-9]{9})" if parts[first].sign == "Y" else "(?P<f>[0-9]{6})"


@lru_cache(maxsize=256)
def date_pattern(pattern: str, *, clock: bool = False) -> DatePattern:
    """The compiled pattern, once a process; ``clock``: of a time of day."""
    return DatePattern(pattern, clock=clock)


def iso_instants(texts: pa.StringArray, target: Target) -> Typed:
    """Instants of ISO texts, all with an offset, all without, or mixed; far ones as the column has them."""
    if target.far is None:
        return _instants(texts, target)
    far = pc.match_substring_regex(texts, _ISO_FAR if target.zone is not None else _ISO_FAR_ZONED).fill_null(False)
    if not pc.any(far).as_py():
        return _instants(texts, target)
    near, doubt = _instants(compact(pc.if_else(far, None, texts)), target)
    end = pa.scalar(None if target.far == "null" else INSTANT_HIGH, pa.int64())
    return pc.if_else(far, end, near.view(pa.int64())).view(near.type), doubt


def _instants(texts: pa.StringArray, target: Target) -> Typed:
    zoned, doubt = try_cast(texts, pa.timestamp("ns", "UTC"), None)
    if doubt is None:
        return in_years(zoned)
    if target.zone is None:
        return _mixed(texts, target)
    local, doubt = try_cast(texts, pa.timestamp("ns"), None)
    if doubt is None:
        return in_years(*from_local(local, target.zone))
    return _mixed(texts, target)


def _mixed(texts: pa.StringArray, target: Target) -> Typed:
    """Instants where some texts have an offset, some have none, and some may be no instants at all."""
    has_offset = pc.match_substring_regex(texts, r"(Z|[+-][0-9]{2}(:?[0-9]{2})?)$")
    has_time = pc.match_substring_regex(texts, r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}")
    with_offset = pc.and_(has_offset, has_time)
    simple = pc.match_substring_regex(texts, _ISO_NEAR)
    zoned = pc.cast(pc.if_else(pc.and_(simple, with_offset), texts, None), pa.timestamp("ns", "UTC"))
    doubt = ~mask_of(simple, null=True)
    plain = pc.and_(simple, pc.invert(with_offset))
    if target.zone is None:
        doubt |= mask_of(plain)
        return join(in_years(zoned), some(doubt))
    local, gap = from_local(pc.cast(pc.if_else(plain, texts, None), pa.timestamp("ns")), target.zone)
    merged = pc.coalesce(zoned, local)
    return join(in_years(merged), either(gap, some(doubt)))


def from_local(local: pa.Array, zone: str) -> Typed:
    """Local times of a zone as Instants; times that the zone never showed are in doubt."""
    null = mask_of(local.is_null()) if local.null_count else None
    plain = local.view(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    far = (plain < _SAFE_LOW) | (plain > _SAFE_HIGH)
    utc, gap = zone_table(zone).to_utc(np.where(far, 0, plain))
    gap |= far
    if null is not None:
        gap &= ~null
    return instants(utc, null), some(gap)


def in_years(values: pa.Array, doubt: Mask | None = None) -> Typed:
    """Leaves Instants outside 1678 to 2261 in doubt, where an offset might have wrapped."""
    return values, either(doubt, outside(values.view(pa.int64()), _SAFE_LOW, _SAFE_HIGH))


def clean(text: str, target: Target) -> str | Refusal | None:
    """The text for the strict rules, None for null, or why it is not of the form that was asked for."""
    form, name = target.form, target.column.type.name
    if form is None:
        return text
    if form.trim:
        text = text.strip(BLANKS)
        if not text and name != "String":
            return None
    if name in DATED and form.pattern is not None:
        iso = date_pattern(form.pattern, clock=name == "LocalTime").iso(text)
        reason = Reason.NOT_AN_INSTANT if name == "Instant" else Reason.NO_VALUE_OF_TYPE
        return Refusal(reason, f"a text like {form.pattern}") if iso is None else iso
    if name not in NUMBERS:
        return text
    if form.thousands and form.thousands in text:
        if not re.match(_grouped(form), text):
            return Refusal(Reason.NOT_A_NUMBER, f"groups of three digits with {form.thousands!r} between them")
        text = text.replace(form.thousands, "")
    if form.decimal != ".":
        if "." in text:
            return Refusal(Reason.NOT_A_NUMBER, f"a number with {form.decimal!r} before its fraction")
        text = text.replace(form.decimal, ".")
    return text


def clean_texts(texts: pa.StringArray, target: Target) -> Typed:
    """The texts of a column for the strict rules; those that are not of the form are in doubt."""
    form, name = target.form, target.column.type.name
    if form is None:
        return texts, None
    if form.trim:
        texts = pc.utf8_trim(texts, BLANKS)
        if name != "String":
            texts = pc.if_else(pc.equal(texts, ""), None, texts)
        texts = compact(texts)
    if name in DATED and form.pattern is not None:
        return date_pattern(form.pattern, clock=name == "LocalTime").iso_texts(texts)
    if name not in NUMBERS:
        return texts, None
    doubt: Mask | None = None
    if form.thousands:
        grouped = pc.match_substring(texts, form.thousands)
        if pc.any(grouped).as_py():
            fits = pc.match_substring_regex(texts, _grouped(form))
            doubt = some(mask_of(grouped) & ~mask_of(fits))
            texts = pc.if_else(fits, pc.replace_substring(texts, form.thousands, ""), texts)
    if form.decimal != ".":
        doubt = either(doubt, some(mask_of(pc.match_substring(texts, "."))))
        texts = pc.replace_substring(texts, form.decimal, ".")
    return compact(texts), doubt


def words(target: Target) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Texts that mean true and false: those of the settings, or the usual ones."""
    form = target.form
    return (form.true, form.false) if form is not None and form.true else (YES, NO)


@lru_cache(maxsize=64)
def _grouped(form: TextForm) -> str:
    mark, point = re.escape(form.thousands), re.escape(form.decimal)
    return rf"^[+-]?[0-9]{{1,3}}({mark}[0-9]{{3}})+({point}[0-9]*)?([eE][+-]?[0-9]+)?$"
