"""What compares with what: a column and a literal in one sort, the literal as a number of that sort.

An Instant becomes nanoseconds, a date days, a time nanoseconds of the day, a char its UTF-16 unit. A number beside a
decimal becomes units of its last digit, exactly as it is written: statistics hold the same numbers. A number beside a
float or a double becomes the nearest one, as DuckDB casts it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Context, Decimal

import numpy as np

from sparkhaven.store.expressions.predicate.nodes import TYPES, Literal, PredicateError, PredicateNode, Sort
from sparkhaven.store.instants import parse_instant
from sparkhaven.store.types.codings.coding import UnfitError
from sparkhaven.store.types.codings.decimals import LONGEST, MOST_DIGITS
from sparkhaven.store.types.codings.local_date import LocalDateCoding
from sparkhaven.store.types.codings.local_time import LocalTimeCoding
from sparkhaven.store.types.model import Column

_LONG_DIGITS = 19
_FAR = 1_000  # exponents beyond it are above or below every decimal
_WIDE = Context(prec=2 * LONGEST)
_EXACT = 1 << 53  # whole numbers below it are doubles
_FORMS = {
    Sort.INSTANT: "an Instant compares with a text like '2026-11-20T14:30:00Z'."
    " Nanoseconds since 1970 are epoch_ns(column)",
    Sort.DATE: "a date compares with a text like '2024-03-05'",
    Sort.TIME: "a time of the day compares with a text like '13:30:00.5'",
    Sort.DECIMAL: "a decimal compares with a decimal or a number like 12.34",
    Sort.BYTES: r"bytes compare with '\xAB\xCD'::BLOB or from_base64('q80=')",
    Sort.BOOLEAN: "a Boolean compares with true or false",
    Sort.TEXT: "a text compares with a text in single quotes, or with a column of texts",
    Sort.CHAR: "a char compares with a text of one character",
}


def same_kind(left: PredicateNode, right: PredicateNode, sign: str, character: int) -> None:
    """PredicateError: two columns of kinds that cannot be compared, or whose digits no type holds."""
    sorts = {left.sort, right.sort}
    numbers = (left.sort.number and right.sort.number) or sorts == {Sort.DECIMAL, Sort.INTEGER}
    if len(sorts) > 1 and not numbers:
        raise _other_kind(left, right, sign, character)
    if Sort.DECIMAL in sorts:
        forms = [node.digits or (_LONG_DIGITS, 0) for node in (left, right)]
        digits = max(precision - scale for precision, scale in forms) + max(scale for _, scale in forms)
        if digits > MOST_DIGITS:
            raise PredicateError(TYPES, character, f"at most {MOST_DIGITS} digits on both sides", f"{digits} digits")


def beside(column: Column, node: PredicateNode, literal: PredicateNode, sign: str, character: int) -> PredicateNode:
    """A literal in the sort of the column that it is compared with. PredicateError: it has no such form."""
    form = _BESIDE.get(node.sort)
    if form is not None:
        formed = form(column, node, literal, character)
        if formed is not None:
            return formed
    if literal.sort is node.sort:
        return literal
    raise _other_kind(node, literal, sign, character)


def exact_beside(column: Column, literal: PredicateNode) -> bool:
    """Whether a comparison of numbers is the same in 64 bits as in the type that DuckDB casts both sides to.

    It is not for a NaN, which Arrow and statistics do not order.
    """
    if isinstance(literal.value, float) and math.isnan(literal.value):
        return False
    whole = column.type.name not in ("float", "double")
    return not (whole and isinstance(literal.value, float) and abs(literal.value) >= _EXACT)


def _other_kind(left: PredicateNode, right: PredicateNode, sign: str, character: int) -> PredicateError:
    both = f"{left.sort.value} and {right.sort.value}"
    hint = next((text for sort, text in _FORMS.items() if sort in (left.sort, right.sort)), None)
    return PredicateError(TYPES, character, f"two of a kind for {sign}", both, hint)


def _literal(sort: Sort, value: Literal) -> PredicateNode:
    return PredicateNode("literal", sort, (), value)


def _integer(column: Column, node: PredicateNode, literal: PredicateNode, character: int) -> PredicateNode | None:
    return literal if literal.sort.number else None


def _float(column: Column, node: PredicateNode, literal: PredicateNode, character: int) -> PredicateNode | None:
    if not literal.sort.number:
        return None
    written = str(literal.value)
    if column.type.name != "float" or isinstance(literal.value, float):
        return _literal(Sort.FLOAT, float(written))
    with np.errstate(over="ignore"):
        return _literal(Sort.FLOAT, float(np.float32(written)))


def _instant(column: Column, node: PredicateNode, literal: PredicateNode, character: int) -> PredicateNode | None:
    if not isinstance(literal.value, str):
        return None
    try:
        return _literal(Sort.INSTANT, parse_instant(literal.value))
    except ValueError as error:
        raise PredicateError(TYPES, character, str(error), repr(literal.value)) from None


def _char(column: Column, node: PredicateNode, literal: PredicateNode, character: int) -> PredicateNode | None:
    if isinstance(literal.value, str):
        if len(literal.value) != 1 or ord(literal.value) > 0xFFFF:
            raise PredicateError(TYPES, character, "a text of one character beside a char", repr(literal.value))
        return _literal(Sort.CHAR, ord(literal.value))
    if literal.sort is Sort.INTEGER:
        return _literal(Sort.CHAR, literal.value)  # type: ignore[arg-type]  # an int
    return None


def _date(column: Column, node: PredicateNode, literal: PredicateNode, character: int) -> PredicateNode | None:
    if not isinstance(literal.value, str):
        return None
    try:
        return _literal(Sort.DATE, LocalDateCoding(compact=False).parse(literal.value))
    except UnfitError as error:
        raise PredicateError(TYPES, character, error.expected, repr(literal.value)) from None


def _time(column: Column, node: PredicateNode, literal: PredicateNode, character: int) -> PredicateNode | None:
    if not isinstance(literal.value, str):
        return None
    try:
        return _literal(Sort.TIME, LocalTimeCoding(9).parse(literal.value))
    except UnfitError as error:
        raise PredicateError(TYPES, character, error.expected, repr(literal.value)) from None


def _decimal(column: Column, node: PredicateNode, literal: PredicateNode, character: int) -> PredicateNode | None:
    """A number in units of the last digit of the column."""
    assert node.digits is not None  # noqa: S101 - of every column of decimals
    if isinstance(literal.value, bool) or not isinstance(literal.value, int | Decimal | str):
        return None
    try:
        number = Decimal(literal.value, _WIDE)
    except ArithmeticError:
        number = Decimal("NaN")
    if not number.is_finite() or len(number.as_tuple().digits) > LONGEST:
        raise PredicateError(TYPES, character, "a number like 12.34 beside a decimal", repr(literal.value))
    return _literal(Sort.DECIMAL, _units(number, node.digits[1]))


def _units(number: Decimal, scale: int) -> int | Decimal:
    """``number`` x 10^scale; what is beyond every decimal, and next to 0, as a number that is there too."""
    if number and abs(number.adjusted()) > _FAR:
        number = Decimal(1).scaleb(_FAR if number.adjusted() > 0 else -_FAR).copy_sign(number)
    units = number.scaleb(scale, _WIDE)
    return int(units) if units == units.to_integral_value(context=_WIDE) else units


_Form = Callable[[Column, PredicateNode, PredicateNode, int], PredicateNode | None]
_BESIDE: dict[Sort, _Form] = {
    Sort.INTEGER: _integer,
    Sort.FLOAT: _float,
    Sort.INSTANT: _instant,
    Sort.CHAR: _char,
    Sort.DATE: _date,
    Sort.TIME: _time,
    Sort.DECIMAL: _decimal,
}
