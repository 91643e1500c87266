"""What numbers are to columns of BigDecimal and BigInteger, whether they have one width or any."""

from __future__ import annotations

import re
from abc import abstractmethod
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sparkhaven.store.types.codings.coding import Coding, Unfit, UnfitError

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
