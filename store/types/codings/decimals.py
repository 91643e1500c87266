"""BigDecimal and BigInteger, by the arguments of ``BigDecimalCodec`` and ``BigIntegerCodec``.

*With ``precision,scale``* (of a BigInteger ``precision``) values have one width. A byte 1 for 0 and above or 0 below
it, then the magnitude of value x 10^scale, whose bits are inverted below 0. Null is 00, then FF: a zero below zero.
Arrow has decimals.

*Without arguments* they are blobs. The scale in four bytes, then the unscaled value as two's complement, as few bytes
as hold it and without trailing zeros of the decimal (a BigInteger has scale 0). Arrow has texts.
"""

from __future__ import annotations

import math
import re
from abc import abstractmethod
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sparkhaven.store.types.codings.coding import (
    BlobCoding,
    Coding,
    FixedCoding,
    JavaValues,
    Mask,
    Unfit,
    UnfitError,
    of_values,
    some,
)

MOST_DIGITS = 76  # of an Arrow decimal
LONGEST = 4_000  # digits of a number without bounds; Python makes no more than 4,300 of a text
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,9})?\Z", re.ASCII)


class Numbers(Coding):
    """What both forms take of texts and JSON."""

    sources = {"whole": "checked", "decimal": "checked", "text": "checked"}
    json = "number"

    @abstractmethod
    def _fit(self, number: Decimal) -> Any:
        """The number as ``pa.array`` takes it; UnfitError: the column does not hold it."""

    def parse(self, text: str) -> Any:
        """The number that a text writes, whatever its exponent."""
        if not _NUMBER.match(text) or len(text) > LONGEST:
            raise UnfitError(Unfit.NO_VALUE, self.domain)
        return self._fit(Decimal(text))

    def from_json(self, value: Any) -> Any:
        """Of a number as it is written, or of a text with one."""
        if isinstance(value, str):
            return self.parse(value)
        if isinstance(value, bool) or not isinstance(value, int | Decimal):
            raise UnfitError(Unfit.NO_VALUE, self.domain)
        return self._fit(Decimal(value))


def decimal_texts(array: pa.Array) -> pa.StringArray:
    """Decimals as texts like those of ``plain_text``."""
    texts = array.cast(pa.string())
    if pc.any(pc.match_substring(texts, "E")).as_py():
        return pa.array([None if number is None else plain_text(number) for number in array.to_pylist()], pa.string())
    return pc.replace_substring_regex(texts, r"\.?0+$", "") if array.type.scale else texts


def plain_text(number: Decimal) -> str:
    """The number without exponent and trailing zeros, as BigDecimal's ``stripTrailingZeros().toPlainString()``."""
    text = f"{number:f}"
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return "0" if text in ("-0", "+0", "") else text


# --- with a precision: values of one width ---

_PLAIN = r"^[+-]?[0-9]+(\.[0-9]+)?$"
_EXACT = Context(prec=3 * LONGEST, Emax=10**9, Emin=-(10**9))


@dataclass(frozen=True, slots=True)
class FixedDecimals(Numbers, FixedCoding, JavaValues):
    """Numbers of at most so many digits, ``scale`` of them behind the point. ``rounds``: others are rounded.

    ``whole``: they are those of a BigInteger.
    """

    precision: int
    scale: int
    rounds: bool = False
    whole: bool = False

    @property
    def arrow(self) -> pa.DataType:
        """decimal128 up to 38 digits, decimal256 above."""
        wide = self.precision > 38
        return pa.decimal256(self.precision, self.scale) if wide else pa.decimal128(self.precision, self.scale)

    @property
    def domain(self) -> str:
        """What a value is."""
        if not self.scale:
            return f"a whole number of at most {self.precision} digits"
        return f"a number of at most {self.precision} digits, {self.scale} of them behind the point"

    @property
    def width(self) -> int:
        """Bytes per row."""
        return math.ceil(self.precision * math.log2(10) / 8) + 1

    @property
    def null(self) -> bytes:
        """The bytes of null."""
        return b"\x00" + b"\xff" * (self.width - 1)

    def java_texts(self, array: pa.Array) -> list[str | None]:
        """Digits, and where a BigDecimal has more than six zeros behind the point an exponent."""
        return [None if value is None else str(value) for value in array.to_pylist()]

    def java_hashes(self, array: pa.Array) -> npt.NDArray[np.int32]:
        """Of ``java.math.BigInteger``, or of a ``java.math.BigDecimal`` with the scale of the column."""
        values = (0 if value is None else int(value.scaleb(self.scale, _EXACT)) for value in array.to_pylist())
        hashes = (_java_hash(value) if self.whole else 31 * _java_hash(value) + self.scale for value in values)
        return np.array([(value + 2**31) % 2**32 - 2**31 for value in hashes], np.int32)

    @property
    def compiled(self) -> tuple[str, int]:
        """As decimals of the precision."""
        return "decimals", self.precision

    @property
    def _octets(self) -> int:
        """Bytes of a value in Arrow."""
        return 32 if self.precision > 38 else 16

    def unstorable(self, array: pa.Array) -> Mask | None:
        """Values with more digits than ``arrow`` has, where the entry has no room for them."""
        words, bits = self._words(array), 8 * (self.width - 1)
        below = words[:, -1] >> np.uint64(63) != 0
        bad = np.zeros(len(words), np.bool_)
        for index in range(bits // 64, words.shape[1]):
            unused = np.uint64(2**64 - (1 << max(bits - 64 * index, 0)))
            bad |= words[:, index] & unused != np.where(below, unused, np.uint64(0))
        return of_values(bad, array)

    def _words(self, array: pa.Array) -> npt.NDArray[np.uint64]:
        """Values as (rows, words of eight bytes), the lowest word first."""
        words = self._octets // 8
        buffer = array.buffers()[1]
        if buffer is None or not len(array):
            return np.zeros((len(array), words), np.uint64)
        return np.frombuffer(buffer, "<u8", len(array) * words, array.offset * self._octets).reshape(-1, words)

    def _fit(self, number: Decimal) -> Decimal:
        if not number.is_finite() or (number and number.adjusted() > self.precision):
            raise UnfitError(Unfit.OVERFLOW, self.domain)
        unit = Decimal(1).scaleb(-self.scale)
        fitted = number.quantize(unit, ROUND_HALF_UP, _EXACT) if number.adjusted() > -LONGEST else unit * 0
        if fitted != number and not self.rounds:
            raise UnfitError(Unfit.NOT_EXACT, self.domain)
        if len(fitted.as_tuple().digits) > self.precision and fitted:
            raise UnfitError(Unfit.OVERFLOW, self.domain)
        return fitted or abs(fitted)  # not -0

    def parse_all(self, texts: pa.StringArray) -> tuple[pa.Array, Mask | None]:
        """Of plain numbers with no more digits than the column has; others are in doubt."""
        plain = pc.match_substring_regex(texts, _PLAIN)
        doubt = ~np.asarray(plain.fill_null(True))
        chosen = pc.if_else(plain, texts, None) if doubt.any() else texts
        point = pc.find_substring(chosen, ".")
        lengths = pc.binary_length(chosen)
        behind = np.asarray(pc.if_else(pc.less(point, 0), 0, pc.subtract(pc.subtract(lengths, point), 1)).fill_null(0))
        digits = np.asarray(pc.subtract(lengths, pc.if_else(pc.less(point, 0), 0, 1)).fill_null(0))
        far = (behind > self.scale) | (digits - behind > self.precision - self.scale)
        if far.any():
            doubt |= far
            chosen = pc.if_else(pa.array(far), None, chosen)
        return chosen.cast(self.arrow), some(doubt)

    def convert(self, array: pa.Array) -> tuple[pa.Array, Mask | None]:
        """Of whole numbers and decimals of any width."""
        if array.type == self.arrow:
            return array, None
        if not (pa.types.is_integer(array.type) or pa.types.is_decimal(array.type)):
            return Coding.convert(self, array)
        try:
            wide = array.cast(pa.decimal256(MOST_DIGITS, 0)) if pa.types.is_integer(array.type) else array
            return wide.cast(self.arrow), None
        except pa.ArrowInvalid:
            return self.by_value(array.cast(pa.string()))


def _java_hash(number: int) -> int:
    """``BigInteger.hashCode()``, of which the low 32 bits count."""
    magnitude, digits = abs(number), []
    while magnitude:
        magnitude, digit = divmod(magnitude, 2**32)
        digits.append(digit)
    value = 0
    for digit in reversed(digits):
        value = (31 * value + digit) % 2**32
    return -value if number < 0 else value


# --- without bounds ---

_WRITTEN = r"^(?:0|-?[1-9][0-9]*|-?(?:0|[1-9][0-9]*)\.[0-9]*[1-9])$"  # as ``plain_text`` writes a number
_WRITTEN_WHOLE = r"^(?:0|-?[1-9][0-9]*)$"
_ZEROS_BEHIND = r"^(-?(?:0|[1-9][0-9]*))(?:(\.[0-9]*[1-9])0+|\.0+)$"


@dataclass(frozen=True, slots=True)
class FreeDecimals(Numbers, BlobCoding):
    """Numbers of any length; ``whole``: a BigInteger. Arrow has them as plain decimal texts."""

    whole: bool

    arrow = pa.string()

    @property
    def domain(self) -> str:
        """What a value is."""
        return f"a {'whole ' if self.whole else ''}number of at most {LONGEST} digits"

    def _fit(self, number: Decimal) -> str:
        if not number.is_finite() or (number and abs(number.adjusted()) > LONGEST):
            raise UnfitError(Unfit.OVERFLOW, self.domain)
        if self.whole and number != number.to_integral_value():
            raise UnfitError(Unfit.NOT_EXACT, self.domain)
        return plain_text(number)

    def parse_all(self, texts: pa.StringArray) -> tuple[pa.Array, Mask | None]:
        """Of plain numbers, with zeros behind them or without; others are taken one by one."""
        odd = self._oddly_written(texts)
        if not odd.any():
            return texts, None
        if not self.whole:
            taken = pc.if_else(pc.less_equal(pc.binary_length(texts), LONGEST), texts, "-")
            short = pc.replace_substring_regex(taken, _ZEROS_BEHIND, r"\1\2")
            texts = pc.if_else(pa.array(odd & ~self._oddly_written(short)), short, texts)
            odd = self._oddly_written(texts)
        values, doubt = self.by_value(texts.filter(pa.array(odd)))
        if doubt is not None:
            doubts = np.zeros(len(texts), np.bool_)
            doubts[odd] = doubt
            doubt = doubts
        return pc.replace_with_mask(texts, pa.array(odd), values), doubt

    def _oddly_written(self, texts: pa.StringArray) -> Mask:
        written = pc.match_substring_regex(texts, _WRITTEN_WHOLE if self.whole else _WRITTEN)
        short = pc.less_equal(pc.binary_length(texts), LONGEST)
        return ~np.asarray(pc.fill_null(pc.and_(written, short), True))

    def encode_one(self, value: str) -> bytes:
        """Of a plain decimal text."""
        return encoded_number(value, self.whole)

    def decode_one(self, value: bytes) -> str:
        """A plain decimal text; fewer than five bytes, and a scale beyond all bounds, are bad."""
        text = decoded_number(value, self.whole)
        if text is None:
            raise ValueError("no number")
        return text

    def unstorable(self, array: pa.Array) -> None:
        """Every number can be stored."""

    def convert(self, array: pa.Array) -> tuple[pa.Array, Mask | None]:
        """Of whole numbers, decimals, and texts."""
        if pa.types.is_integer(array.type) or pa.types.is_decimal(array.type):
            return self.parse_all(array.cast(pa.string()))
        return Coding.convert(self, array)


def encoded_number(text: str, whole: bool) -> bytes:
    """Scale and unscaled value of a plain decimal text, without trailing zeros of a decimal."""
    front, _, fraction = text.partition(".")
    digits, scale = front + fraction, len(fraction)
    if not whole:
        kept = digits.rstrip("0")
        digits, scale = (kept, scale - len(digits) + len(kept)) if kept not in ("", "-", "+") else ("0", 0)
    magnitude = int(digits.lstrip("+-0") or "0")  # Python counts zeros in front as digits
    unscaled = -magnitude if digits.startswith("-") else magnitude
    size = (unscaled + (unscaled < 0)).bit_length() // 8 + 1
    return scale.to_bytes(4, "big", signed=True) + unscaled.to_bytes(size, "big", signed=True)


def decoded_number(value: bytes, whole: bool) -> str | None:
    """The plain decimal text of scale and unscaled value; None: they are none, or beyond all bounds."""
    scale = int.from_bytes(value[:4], "big", signed=True)
    if len(value) < 5 or abs(scale) > 2 * LONGEST or (whole and scale):
        return None
    unscaled = int.from_bytes(value[4:], "big", signed=True)
    digits_at_most = unscaled.bit_length() * 30_103 // 100_000 + 1  # or one less
    if digits_at_most + max(-scale, 0) > LONGEST + 2:  # a number of LONGEST + 1 is written, too
        return None
    if scale <= 0:
        return str(unscaled * 10**-scale)
    sign, digits = ("-", str(-unscaled)) if unscaled < 0 else ("", str(unscaled))
    digits = digits.rjust(scale + 1, "0")
    fraction = digits[-scale:].rstrip("0")
    return f"{sign}{digits[:-scale]}.{fraction}" if fraction else sign + digits[:-scale]


# --- by the arguments of a codec ---


def decimal_coding(codec: str, arguments: str, width: int | None) -> FixedDecimals | FreeDecimals:
    """By the codec's simple name and arguments; ValueError says what is expected instead."""
    parts = re.fullmatch(r"(?:([1-9]\d{0,4}),(\d{1,5})(?:,(true|false|allowRounding))?)?", arguments)
    if codec != "BigDecimalCodec" or parts is None:
        raise ValueError("BigDecimalCodec with precision,scale[,allowRounding], or nothing")
    if not arguments:
        return FreeDecimals(whole=False)
    precision, scale = int(parts[1]), int(parts[2])
    if precision > MOST_DIGITS or scale > precision:
        raise ValueError(f"BigDecimalCodec with a precision of at most {MOST_DIGITS}, and a scale not above it")
    return FixedDecimals(precision, scale, rounds=parts[3] in ("true", "allowRounding"))


def integer_coding(codec: str, arguments: str, width: int | None) -> FixedDecimals | FreeDecimals:
    """By the codec's simple name and arguments; ValueError says what is expected instead."""
    if codec != "BigIntegerCodec" or not re.fullmatch(r"([1-9]\d{0,4})?", arguments):
        raise ValueError("BigIntegerCodec with a precision, or nothing")
    if not arguments:
        return FreeDecimals(whole=True)
    if int(arguments) > MOST_DIGITS:
        raise ValueError(f"BigIntegerCodec with a precision of at most {MOST_DIGITS}")
    return FixedDecimals(int(arguments), 0, whole=True)
