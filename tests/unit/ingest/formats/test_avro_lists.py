"""Lists whose entries take no bytes: a few bytes must not become lists without end."""

from __future__ import annotations

import fastavro
import pytest

from sparkhaven.ingest.formats.avro.payload_proof import MAX_EMPTY, check_payload, checker
from sparkhaven.ingest.formats.binary_records import NotARecordError

NULLS = {"type": "array", "items": "null"}
LISTS = {"type": "record", "name": "R", "fields": [{"name": "v", "type": {"type": "array", "items": NULLS}}]}


def varint(number: int) -> bytes:
    """A number as Avro has it."""
    number *= 2
    made = b""
    while number >= 0x80:
        made += bytes([number & 0x7F | 0x80])
        number >>= 7
    return made + bytes([number])


def lists(count: int, entries: int) -> bytes:
    """A record with so many lists of so many nulls."""
    return varint(count) + (varint(entries) + b"\0") * count + b"\0"


def test_entries_without_bytes_are_counted_over_all_lists_of_a_payload() -> None:
    check = checker(fastavro.parse_schema(LISTS))
    check_payload(check, lists(10, MAX_EMPTY // 10), 0)
    check_payload(check, lists(10, MAX_EMPTY // 10), 0)  # each payload begins anew
    for count, entries in ((11, MAX_EMPTY // 10), (50_000, MAX_EMPTY), (1, MAX_EMPTY + 1)):
        with pytest.raises(NotARecordError, match=r"a list of|without bytes"):
            check_payload(check, lists(count, entries), 0)
