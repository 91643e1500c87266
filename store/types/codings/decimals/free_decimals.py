"""BigDecimal and BigInteger without arguments: blobs.

The scale in four bytes, then the unscaled value as two's complement, as few bytes as hold it and without trailing zeros
of the decimal (a BigInteger has scale 0). Arrow has texts.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparkhaven.store.types.codings.coding import (
    BlobCoding,
    Coding,
    Ends,
    Mask,
    Octets,
    Unfit,
    UnfitError,
    some,
)
from sparkhaven.store.types.codings.decimals.decimal_numbers import LONGEST, Numbers, plain_text

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

    def encode(self, array: pa.Array) -> tuple[Ends, Octets, Mask | None]:
        """``array``: plain decimal texts."""
        parts = [b"" if text is None else encoded_number(text, self.whole) for text in array.to_pylist()]
        ends = np.cumsum([0, *map(len, parts)], dtype=np.int64)[1:]
        return ends, np.frombuffer(b"".join(parts), np.uint8), None

    def decode(self, ends: Ends, data: pa.Buffer) -> tuple[pa.Array, Mask | None]:
        """Plain decimal texts; fewer than five bytes, and a scale beyond all bounds, are bad."""
        octets, bounds = bytes(data), ends.tolist()
        values = [octets[start:stop] for start, stop in pairwise(bounds)]
        texts = [decoded_number(value, self.whole) if value else None for value in values]
        bad = np.array([text is None and bool(value) for text, value in zip(texts, values, strict=True)], np.bool_)
        return pa.array(texts, self.arrow), some(bad)

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
