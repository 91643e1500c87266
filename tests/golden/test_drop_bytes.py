"""Bytes of version 1 of a record of a dropped table; files written by it open for ever."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkhaven.store.errors import CorruptFileError, UnsupportedVersionError
from sparkhaven.store.merges.dropped_tables import (
    DroppedHistory,
    DroppedStream,
    DropPhase,
    TableDrop,
    decode_drop,
    encode_drop,
)

GOLDEN = Path(__file__).with_name("drop-v1.drop")
STREAMS = (DroppedStream("s", 9, 4, 17, "/q/s"), DroppedStream("old", 3, 1))
DATES = (DroppedHistory("2026-11-20", 3, 7, {"Sÿm": "0a" * 16}),)
DROP = TableDrop(
    "NS.T", 2, DropPhase.REMOVED, 1_700_000_000_000, "why", 7, 99, b"<T/>", b"{}", STREAMS, DATES, ("/q/s",), 5
)


def test_a_file_of_version_1_opens_and_is_written_the_same() -> None:
    data = GOLDEN.read_bytes()
    assert decode_drop(data, "x") == DROP
    assert encode_drop(DROP) == data
    assert (DROP.intraday_rows, DROP.history_rows) == (17, 7)


def test_damage_and_later_versions_are_errors() -> None:
    data = GOLDEN.read_bytes()
    for wrong in (b"", data[:20], data[:-1], data + b"x", data[:30] + b"?" + data[31:], data[:8] + b"\x09" + data[9:]):
        with pytest.raises(CorruptFileError):
            decode_drop(wrong, "x")
    with pytest.raises(UnsupportedVersionError):
        decode_drop(data.replace(b"SHVDRP1", b"SHVDRP2"), "x")
