"""Numbers, booleans and instants of typed sources, in columns of every type, by the table of conversions."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

from sparkhaven.ingest.spec.stream_spec import Target
from sparkhaven.ingest.values.exact_values import check_float, from_json
from sparkhaven.ingest.values.instants import check_instant, local_instant
from sparkhaven.ingest.values.refusals import Refusal, Value
from sparkhaven.ingest.values.wire_values import Moment
from sparkhaven.store.conversions.conversion_table import SIGNIFICANT
from sparkhaven.store.quarantine.reasons import Reason
from sparkhaven.store.types.datatypes import CHAR_NULL


def number_value(value: Any, target: Target, alias: bool) -> Value | Refusal:
    """A number or boolean of a typed source."""
    name = target.column.type.name
    if name in SIGNIFICANT and not isinstance(value, bool):
        return check_float(value, target, alias)
    if isinstance(value, float):
        if not math.isfinite(value):
            return Refusal(Reason.NOT_FINITE, f"a value for {name}", str(value))
        value = Decimal(value)
    if name == "char" and not isinstance(value, bool):
        return _unit(value, alias)
    if name == "Boolean" and not isinstance(value, bool) and (target.form is None or not target.form.true):
        return bool(value) if value in (0, 1) else Refusal(Reason.NOT_0_OR_1, "0 for false, 1 for true")
    return from_json(value, target, alias)


def declared_value(value: Any, target: Target, alias: bool) -> Value | Refusal:
    """A value of a typed source that may be no number."""
    if value is None or isinstance(value, str):
        return from_json(value, target, alias)
    if isinstance(value, Moment) and value.kind != "time of day" and target.column.type.name == "Instant":
        return (check_instant if value.kind == "instant" else local_instant)(value.ns, target, alias)
    if not isinstance(value, int | float | Decimal):
        return Refusal(Reason.WRONG_TYPE, f"a value for {target.column.type.name}", type(value).__name__)
    return number_value(value, target, alias)


def _unit(value: int | Decimal, alias: bool) -> Value | Refusal:
    """A UTF-16 unit by its number."""
    if value == CHAR_NULL:
        return None if alias else Refusal(Reason.NULL_ALIAS, "a UTF-16 unit other than U+FFFF")
    whole = isinstance(value, int) and 0 <= value <= 0xFFFF
    return int(value) if whole else Refusal(Reason.NOT_ONE_CHARACTER, "a UTF-16 unit")
