"""Which settings of ``[columns]`` a column of each type can have."""

from __future__ import annotations

from sparkhaven.ingest.spec.stream_spec import ColumnSpec, TextForm
from sparkhaven.ingest.values.date_patterns import date_pattern
from sparkhaven.ingest.values.text_forms import NUMBERS
from sparkhaven.store.errors import SettingsError
from sparkhaven.store.types.model import Column

STRICT = TextForm()
INSTANTS = ("Instant", "Instant[]")


def check_form(spec: ColumnSpec, column: Column, where: str) -> None:
    """SettingsError for a setting that the column cannot have, or that contradicts another."""
    name, form = column.type.name, spec.form or STRICT
    number, boolean = name in NUMBERS, name == "Boolean"
    dated = (name in ("LocalDate", "LocalTime") or name in INSTANTS) and spec.unit == "iso"
    coding = column.type.coding
    quotable = number or boolean or spec.unit != "iso"
    rules = [
        (spec.far is not None, name in INSTANTS, "far", "an Instant"),
        (form.pattern is not None, dated, "format", "an Instant, a LocalDate or a LocalTime without unit"),
        (form.trim, coding is None or "text" in coding.sources, "trim", "a type that a text writes: no array or map"),
        (form.thousands != "", number, "thousands", "a number"),
        (form.decimal != ".", number, "decimal", "a number"),
        (bool(form.true or form.false), boolean, "true or false", "a Boolean"),
        (form.quoted, quotable, "quoted", "a number, a Boolean, or a type with unit"),
        (form.as_text, name == "String", "as_text", "a String"),
        (spec.lossy, name in ("float", "double"), "lossy", "a float or double"),
    ]
    for is_set, fits, key, expected in rules:
        if is_set and not fits:
            raise SettingsError(
                f"column {column.name} cannot have the setting {key}", where=where, expected=expected, found=name
            )
    if bool(form.true) != bool(form.false) or set(form.true) & set(form.false):
        raise SettingsError(
            f"column {column.name} lacks texts for true or for false, or has one for both",
            where=where,
            expected='like true = ["1", "t"] and false = ["0", "f"]',
            found=f"true = {list(form.true)}, false = {list(form.false)}",
        )
    for key, mark in (("thousands", form.thousands), ("decimal", form.decimal)):
        if mark and (len(mark) != 1 or mark.isalnum() or mark in "+-"):
            raise SettingsError(
                f"{key} of column {column.name} is not a single mark",
                where=where,
                expected="one character other than a letter, digit or sign",
                found=repr(mark),
            )
    if form.thousands == form.decimal:
        raise SettingsError(
            f"column {column.name} has the same mark for thousands and decimal", where=where, found=repr(form.decimal)
        )
    if form.pattern is not None:
        try:
            if date_pattern(form.pattern, clock=name == "LocalTime").has_clock and name == "LocalDate":
                raise ValueError("a LocalDate has no time of day")
        except ValueError as error:
            raise SettingsError(
                f"format of column {column.name} is not a date pattern",
                where=where,
                expected='a pattern like "%H%M%S"' if name == "LocalTime" else 'a pattern like "%Y/%m/%d %H:%M:%S"',
                found=f"{form.pattern}: {error}",
            ) from None
