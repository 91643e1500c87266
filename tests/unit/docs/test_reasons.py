"""Codes of rejected rows are a contract: what they are, that each is given somewhere, and that the page has them."""

from __future__ import annotations

import re

from sparkhaven.store.quarantine.rejected_rows import Reason
from tests.support.places import REPOSITORY
from tools.docs.tables import reason_table

PACKAGES = ("store", "ingest", "readers", "writers", "jobs")
CODES = """
a-quoted-field-does-not-end
absent-field
cannot-name-an-internal-partition
decoder-failed
empty
equals-the-null-value-of-the-type
finer-than-a-nanosecond
half-a-surrogate-pair
has-a-fraction
has-no-time-zone
instant-before-1900-of-an-unknown-zone
instant-out-of-bounds
int96-of-a-writer-that-does-not-say-whether-it-is-an-instant
late
line-too-long
neither-0-nor-1
nested-too-deeply
no-duration
no-frame
no-object
no-room-in-the-sets-of-the-location
no-such-day
no-such-offset
no-such-time-of-day
no-table
no-time-of-day
no-timestamp
no-value-of-the-enum
no-whole-day
not-a-boolean
not-a-finite-number
not-a-number
not-a-value-of-the-type
not-an-instant
not-avro
not-exactly-representable
not-in-the-charset
not-json
not-one-character
not-protobuf
not-utf-16
not-utf-16be
not-utf-16le
not-utf-8
not-windows-1250
not-windows-1251
not-windows-1252
null-internal-partition
null-partition-value null-where-the-column-stores-none
other-length
outside-the-range-of-an-instant
overflow
reads-back-as-the-empty-string
record-too-long
record-with-a-line-that-is-too-long
required
text-after-a-closing-quote
this-local-time-does-not-exist
too-many-digits
too-wide-for-the-location
unknown-field
wrong-json-type
wrong-number-of-fields
wrong-type
"""


def sources() -> str:
    """The code of all packages but the enumeration."""
    files = [path for package in PACKAGES for path in (REPOSITORY / package).rglob("*.py")]
    return "\n".join(path.read_text() for path in files if path.name != "rejected_rows.py")


def test_codes_stay_what_users_have_stored() -> None:
    assert sorted(reason.value for reason in Reason) == CODES.split()


def test_each_reason_is_given_by_a_decoder_and_none_is_made_of_text() -> None:
    named = set(re.findall(r"\bReason\.([A-Z0-9_]+)\b", sources()))
    assert named == set(Reason.__members__)
    assert re.findall(r"\bReason[(\[].*", sources()) == []


def test_the_page_has_each_code_with_its_meaning_and_what_to_do() -> None:
    page = (REPOSITORY / "docs" / "reference" / "reasons.md").read_text()
    assert reason_table() in page
    for reason in Reason:
        assert f"| `{reason}` | {reason.meaning} | {reason.remedy} |\n" in page
        assert reason.meaning.endswith(".") and reason.remedy.endswith(".")
    assert "reference/reasons.md" in (REPOSITORY / "docs" / "howto" / "quarantine.md").read_text()
