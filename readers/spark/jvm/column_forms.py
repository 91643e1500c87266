"""Columns as the JVM knows them: each form in which files may have one, with the bytes that such a file begins with.

A ``.dat`` file begins with a Java stream in one canonical form (``store.format.column.prefix``). The JVM never
deserialises it. It compares the bytes with those that Python expects.
"""

from __future__ import annotations

from sparkhaven.readers.spark.jvm.coded_values import decoder_words
from sparkhaven.readers.spark.options import ReadOptions
from sparkhaven.store.format.column.prefix import charset_of, encode_prefix, grouping_keys
from sparkhaven.store.types.model import Column, Kind


def column_entry(column: Column, options: ReadOptions) -> dict[str, object]:
    """``name``, ``id``, ``labels`` (earlier names), ``kind``, and ``forms``, the newest first.

    The partition value has no forms.
    """
    forms = () if column.kind is Kind.PARTITIONING else (column, *reversed(column.earlier))
    return {
        "name": column.name,
        "id": column.id,
        "kind": column.kind.name,
        "labels": list(column.labels),
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
