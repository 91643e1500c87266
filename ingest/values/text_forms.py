"""Texts as a column's settings allow them, made into the texts that the strict rules take; one by one, or all at once.

Nothing is guessed: what a setting does not name stays as it is, and the strict rules refuse it.
"""

from __future__ import annotations

import re
from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc

from sparkhaven.ingest.spec.stream_spec import Target, TextForm
from sparkhaven.ingest.values.arrow_columns import Mask, Typed, compact, either, mask_of, some
from sparkhaven.ingest.values.date_patterns import date_pattern
from sparkhaven.ingest.values.refusals import Refusal
from sparkhaven.store.quarantine.rejected_rows import Reason

NUMBERS = frozenset({"byte", "short", "int", "long", "float", "double", "BigDecimal", "BigInteger"})
DATED = ("Instant", "LocalDate", "LocalTime")  # types with a pattern
BLANKS = " \t"
YES = ("true", "True", "TRUE")
NO = ("false", "False", "FALSE")


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
