"""What compares with what: both sides of a comparison in one sort, literals as numbers of the other side.

An Instant becomes nanoseconds, a date days, a time nanoseconds of the day, a char its UTF-16 unit. A number beside a
decimal becomes units of its last digit, exactly as it is written: statistics hold the same numbers.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from decimal import Context, Decimal

from sparkhaven.store.expressions.predicate.nodes import TYPES, Literal, PredicateError, PredicateNode, Sort
from sparkhaven.store.expressions.tokens import Token
from sparkhaven.store.instants import parse_instant
from sparkhaven.store.types.codings.coding import UnfitError
from sparkhaven.store.types.codings.decimals import LONGEST, MOST_DIGITS
from sparkhaven.store.types.codings.local_date import LocalDateCoding
from sparkhaven.store.types.codings.local_time import LocalTimeCoding

_LONG_DIGITS = 19
_FAR = 1_000  # exponents beyond it are above or below every decimal
_WIDE = Context(prec=2 * LONGEST)
_DECIMAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,9})?", re.ASCII)
_FORMS = {
    Sort.INSTANT: 'an Instant compares with a text like "2026-11-20T14:30:00Z", or with nanoseconds',
    Sort.DATE: 'a date compares with a text like "2024-03-05"',
    Sort.TIME: 'a time of the day compares with a text like "13:30:00.5"',
    Sort.DECIMAL: 'a decimal compares with a decimal, a whole number, or a literal like 12.34 or "12.34"',
    Sort.BYTES: 'bytes compare with a text that writes them in base64, like "q80="',
    Sort.BOOLEAN: "a Boolean compares with true or false",
    Sort.TEXT: "a text compares with a text in quotes, or with a column of texts",
    Sort.CHAR: "a char compares with a text of one character",
}


def comparable(left: PredicateNode, right: PredicateNode, token: Token) -> tuple[PredicateNode, PredicateNode]:
    """Both sides in one sort. PredicateError: they cannot be compared."""
    for node in (left, right):
        if node.sort is Sort.OTHER:
            other = "ask isNull of it, or compare it by `sparkhaven sql QUERY`"
            raise PredicateError(TYPES, token.character, "columns that can be compared", str(node.value), other)
    for sort, beside in _BESIDE.items():
        if sort in (left.sort, right.sort):
            left, right = beside(left, right, token), beside(right, left, token)
            break
    sorts = {left.sort, right.sort}
    numbers = (left.sort.number and right.sort.number) or sorts == {Sort.DECIMAL, Sort.INTEGER}
    if len(sorts) > 1 and not numbers:
        both = f"{left.sort.value} and {right.sort.value}"
        hint = next((text for sort, text in _FORMS.items() if sort in sorts), None)
        raise PredicateError(TYPES, token.character, f"two of a kind for {token.text}", both, hint)
    if Sort.DECIMAL in sorts and "literal" not in (left.op, right.op):
        _check_digits(left, right, token)
    if left.sort in (Sort.BOOLEAN, Sort.BYTES) and token.text not in ("==", "!=", "in"):
        raise PredicateError(TYPES, token.character, f"== or != for {left.sort.value}", token.text)
    return left, right


def _check_digits(left: PredicateNode, right: PredicateNode, token: Token) -> None:
    """PredicateError: no type holds the digits of two columns, of which one may be a whole number."""
    forms = [node.digits or (_LONG_DIGITS, 0) for node in (left, right)]
    digits = max(precision - scale for precision, scale in forms) + max(scale for _, scale in forms)
    if digits > MOST_DIGITS:
        raise PredicateError(TYPES, token.character, f"at most {MOST_DIGITS} digits on both sides", f"{digits} digits")


def _literal(sort: Sort, value: Literal) -> PredicateNode:
    return PredicateNode("literal", sort, (), value)


def _as_instant(node: PredicateNode, other: PredicateNode, token: Token) -> PredicateNode:
    if node.op == "literal" and isinstance(node.value, str):
        try:
            return _literal(Sort.INSTANT, parse_instant(node.value))
        except ValueError as error:
            raise PredicateError(TYPES, token.character, str(error), repr(node.value)) from None
    if node.op == "literal" and node.sort is Sort.INTEGER:
        assert isinstance(node.value, int)  # noqa: S101 - of its sort
        return _literal(Sort.INSTANT, node.value)
    return node


def _as_char(node: PredicateNode, other: PredicateNode, token: Token) -> PredicateNode:
    if node.op != "literal":
        return node
    if isinstance(node.value, str):
        if len(node.value) != 1 or ord(node.value) > 0xFFFF:
            raise PredicateError(TYPES, token.character, "a text of one character beside a char", repr(node.value))
        return _literal(Sort.CHAR, ord(node.value))
    if node.sort is Sort.INTEGER:
        assert isinstance(node.value, int)  # noqa: S101 - of its sort
        return _literal(Sort.CHAR, node.value)
    return node


def _as_date(node: PredicateNode, other: PredicateNode, token: Token) -> PredicateNode:
    if node.op != "literal" or not isinstance(node.value, str):
        return node
    try:
        return _literal(Sort.DATE, LocalDateCoding(compact=False).parse(node.value))
    except UnfitError as error:
        raise PredicateError(TYPES, token.character, error.expected, repr(node.value)) from None


def _as_time(node: PredicateNode, other: PredicateNode, token: Token) -> PredicateNode:
    if node.op != "literal" or not isinstance(node.value, str):
        return node
    try:
        return _literal(Sort.TIME, LocalTimeCoding(9).parse(node.value))
    except UnfitError as error:
        raise PredicateError(TYPES, token.character, error.expected, repr(node.value)) from None


def _as_bytes(node: PredicateNode, other: PredicateNode, token: Token) -> PredicateNode:
    if node.op != "literal" or not isinstance(node.value, str):
        return node
    try:
        return _literal(Sort.BYTES, base64.b64decode(node.value, validate=True))
    except (binascii.Error, ValueError):
        raise PredicateError(TYPES, token.character, "bytes in base64", repr(node.value)) from None


def _as_decimal(node: PredicateNode, other: PredicateNode, token: Token) -> PredicateNode:
    """A literal in units of the last digit of ``other``, a column."""
    if node.op != "literal" or node.sort not in (Sort.INTEGER, Sort.FLOAT, Sort.TEXT):
        return node
    written = str(node.value) if node.exact is None else node.exact
    if not _DECIMAL.fullmatch(written) or len(written) > LONGEST:
        raise PredicateError(
            TYPES, token.character, 'a number like 12.34 or "12.34" beside a decimal', repr(node.value)
        )
    assert other.digits is not None  # noqa: S101 - literals become decimals beside columns only
    return _literal(Sort.DECIMAL, _units(Decimal(written), other.digits[1]))


def _units(number: Decimal, scale: int) -> int | Decimal:
    """``number`` x 10^scale; what is beyond every decimal, and next to 0, as a number that is there too."""
    if number and abs(number.adjusted()) > _FAR:
        number = Decimal(1).scaleb(_FAR if number.adjusted() > 0 else -_FAR).copy_sign(number)
    units = number.scaleb(scale, _WIDE)
    return int(units) if units == units.to_integral_value(context=_WIDE) else units


_BESIDE: dict[Sort, Callable[[PredicateNode, PredicateNode, Token], PredicateNode]] = {
    Sort.INSTANT: _as_instant,
    Sort.CHAR: _as_char,
    Sort.DATE: _as_date,
    Sort.TIME: _as_time,
    Sort.DECIMAL: _as_decimal,
    Sort.BYTES: _as_bytes,
}
