"""A rejected row of a typed source, back from its text: the values are those of the source, or of who repaired it.

A number with a point is a double, one without a whole number, and a string the text of a value that JSON has no number
for. So what was refused because a column does not hold it exactly is refused again, until it is repaired or ``lossy``.
"""

from __future__ import annotations

import re
from dataclasses import replace
from decimal import Decimal
from typing import Any

from sparkhaven.ingest.spec.stream_spec import Target
from sparkhaven.ingest.values.declared_numbers import number_value
from sparkhaven.ingest.values.exact_values import exact_number, from_json, from_text, is_number
from sparkhaven.ingest.values.instants import settled
from sparkhaven.ingest.values.refusals import Refusal, Value, out_of_range
from sparkhaven.store.conversions.conversion_table import SIGNIFICANT

_FAR_YEAR = re.compile(r"[0-9]{5,}-|-[0-9]+-")


def from_row_text(value: Any, target: Target, alias: bool = False) -> Value | Refusal:
    """A value of such an object (``json.loads`` with ``parse_float=Decimal``) by the rules of its column."""
    name, form = target.column.type.name, target.form
    if isinstance(value, int | Decimal):
        if name == "String" or (name == "Boolean" and form is not None and form.true):
            return from_json(value, target, alias)
        return number_value(float(value) if isinstance(value, Decimal) else value, target, alias)
    if not isinstance(value, str):
        return from_json(value, target, alias)
    if name == "Instant" and "-" in value[1:]:
        if _FAR_YEAR.match(value):
            return settled(out_of_range(not value.startswith("-")), target)
        target = replace(target, unit="iso")
    if name in SIGNIFICANT and form is None and is_number(value):
        return number_value(exact_number(value), target, alias)
    return from_text(value, target, alias)
