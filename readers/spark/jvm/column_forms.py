"""Columns as the JVM knows them: each form in which files may have one, with the bytes that such a file begins with.

A ``.dat`` file begins with a Java stream in one canonical form (``store.format.column.prefix``). The JVM never
deserialises it. It compares the bytes with those that Python expects.

A type with a codec is given in words by which the Java reader finds the decoder: a kind, then its numbers and words.

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
from sparkhaven.store.format.column.prefix import charset_of, encode_prefix, grouping_keys
from sparkhaven.store.types.codings.byte_array import ByteArrays, FixedBytes
from sparkhaven.store.types.codings.coding import Coding
from sparkhaven.store.types.codings.decimals import FixedDecimals, FreeDecimals
from sparkhaven.store.types.codings.instant_array import InstantArrays
from sparkhaven.store.types.codings.java_array import JavaArrays
from sparkhaven.store.types.codings.local_date import LocalDateCoding
from sparkhaven.store.types.codings.local_time import LocalTimeCoding
from sparkhaven.store.types.codings.row_set import RowSets
from sparkhaven.store.types.codings.string_array import StringArrays
from sparkhaven.store.types.codings.string_map import StringMaps
from sparkhaven.store.types.model import Column, Kind

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


def column_entry(column: Column, options: ReadOptions) -> dict[str, object]:
    """``name``, ``id``, ``kind``, and ``forms``, the newest first.

    The partition value has no forms.
    """
    forms = () if column.kind is Kind.PARTITIONING else (column, *reversed(column.earlier))
    return {
        "name": column.name,
        "id": column.id,
        "kind": column.kind.name,
        "forms": [form_entry(form, options) for form in forms],
    }


def form_entry(column: Column, options: ReadOptions) -> dict[str, object]:
    """``type``, ``storage``, ``width`` of an entry, ``charset``, ``null`` (of chars), and prefixes in hexadecimal.

    ``prefix``: of a column without a grouping. ``overflow``: of one whose grouping has a file of its own. The zeros
    up to the first row, at ``dataOffset``, are left out. ``coding``: words of a decoder (``coded_values``); ``domain``:
    what a value is, for people; both null of plain values. ``grouping``: of grouping columns (``grouping_keys``).
    """
    coding = column.type.coding
    grouped = column.kind is Kind.GROUPING and coding is None
    before, head, declared = grouping_keys(column) if grouped else (0, b"", False)
    plain, overflow, offset = _prefixes(column) if column.width else ("", "", 0)
    return {
        "type": column.type.name,
        "storage": column.storage.name,
        "width": column.width,
        "charset": charset_of(column),
        "null": column.type.null if column.type.name == "char" else None,
        "coding": None if coding is None else decoder_words(coding, options),
        "domain": None if coding is None else coding.domain,
        "prefix": plain,
        "overflow": overflow,
        "dataOffset": offset,
        "grouping": {"before": before, "head": head.hex(), "declared": declared} if grouped else None,
    }


def prefix_hex(column: Column) -> str:
    """How a file of a column begins that has no grouping, without the zeros up to the first row."""
    return _prefixes(column)[0]


def _prefixes(column: Column) -> tuple[str, str, int]:
    key = column.type.java, column.width, charset_of(column), column.id
    known = _KNOWN.get(key)
    if known is None:
        plain = encode_prefix(column)
        overflow = encode_prefix(column, overflow=True)
        known = plain.rstrip(b"\0").hex(), overflow.rstrip(b"\0").hex(), len(plain)
        if len(_KNOWN) >= MOST_KNOWN:
            _KNOWN.clear()
        _KNOWN[key] = known
    return known


MOST_KNOWN = 1 << 12
_KNOWN: dict[tuple[str, int, str, int], tuple[str, str, int]] = {}
