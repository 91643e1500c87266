"""Types with a codec in words by which the Java reader finds the decoder: a kind, then its numbers and words.

=====================  ==========================================  ======================================
words                  type                                        bytes of a value, as in
=====================  ==========================================  ======================================
dates W                LocalDate in W bytes                        ``codings.local_date``
times D                LocalTime with D digits                     ``codings.local_time``
decimals P S           BigDecimal or BigInteger with a precision   ``codings.decimals``
numbers, wholes        BigDecimal, BigInteger of any length        ``codings.decimals``
octets N               byte[] of N bytes that are never null       ``codings.byte_array``
nullable-octets N      byte[] of N bytes                           ``codings.byte_array``
bytes                  byte[], and classes that nobody knows       ``codings.byte_array``
row-sets               RowSet                                      ``codings.row_set``
arrays L               arrays of a primitive, by its letter        ``codings.java_array``
chars U string|int     char[] with null U, and option ``char``     ``codings.java_array``
instants F             Instant[], with option ``instant``          ``codings.instant_array``
texts                  String[]                                    ``codings.string_array``
maps K                 maps of texts to values of kind K           ``codings.string_map``
=====================  ==========================================  ======================================

StringSet has none: its bits are symbols of the location.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sparkhaven.readers.spark.options import ReadOptions
from sparkhaven.store.types.codings.byte_array import ByteArrays, FixedBytes
from sparkhaven.store.types.codings.coding import Coding
from sparkhaven.store.types.codings.decimals.fixed_decimals import FixedDecimals
from sparkhaven.store.types.codings.decimals.free_decimals import FreeDecimals
from sparkhaven.store.types.codings.instant_array import InstantArrays
from sparkhaven.store.types.codings.java_array import JavaArrays
from sparkhaven.store.types.codings.local_date import LocalDateCoding
from sparkhaven.store.types.codings.local_time import LocalTimeCoding
from sparkhaven.store.types.codings.row_set import RowSets
from sparkhaven.store.types.codings.string_array import StringArrays
from sparkhaven.store.types.codings.string_map import StringMaps

_WORDS: dict[type[Coding], Callable[[Any, ReadOptions], str]] = {
    LocalDateCoding: lambda coding, options: f"dates {coding.width}",
    LocalTimeCoding: lambda coding, options: f"times {coding.digits}",
    FixedDecimals: lambda coding, options: f"decimals {coding.precision} {coding.scale}",
    FreeDecimals: lambda coding, options: "wholes" if coding.whole else "numbers",
    FixedBytes: lambda coding, options: f"{'nullable-' if coding.nullable else ''}octets {coding.length}",
    ByteArrays: lambda coding, options: "bytes",
    RowSets: lambda coding, options: "row-sets",
    JavaArrays: lambda coding, options: (
        f"chars {coding.null} {options.char}" if coding.letter == "C" else f"arrays {coding.letter}"
    ),
    InstantArrays: lambda coding, options: f"instants {options.instant}",
    StringArrays: lambda coding, options: "texts",
    StringMaps: lambda coding, options: f"maps {coding.kind}",
}


def has_decoder(coding: Coding) -> bool:
    """Whether the Java reader has a decoder of the coding."""
    return type(coding) in _WORDS


def decoder_words(coding: Coding, options: ReadOptions) -> str | None:
    """The words of a coding's decoder; None: the Java reader has none."""
    words = _WORDS.get(type(coding))
    return None if words is None else words(coding, options)
