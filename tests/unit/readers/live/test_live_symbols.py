"""Symbols of a live table: those of later epochs are read on from those that are known."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkhaven.store.errors import CorruptFileError
from sparkhaven.store.layout import LocationKey
from tests.support.tables.intraday_rows import IntradayRows
from tests.support.tables.live_rows import SMALL, small
from tests.support.tables.live_tables import Engine
from tests.support.writers.merge_cases import DAY


def test_a_damaged_end_of_a_later_symbol_is_named_by_its_number(tmp_path: Path) -> None:
    db = IntradayRows(tmp_path, SMALL)
    db.commit({("a", DAY): small(2, 1)})
    engine = Engine(tmp_path)
    attached = engine.attach("NS_T")
    assert attached.column("Sym") == ["s1", "s1"]
    db.commit({("a", DAY): small(2, 2)})
    path = db.place.intraday_location(LocationKey("a", DAY)) / "Sym.sym"
    path.write_bytes(path.read_bytes()[:8] + bytes(8))  # the end of the second symbol lies before that of the first
    engine.look()
    with pytest.raises(CorruptFileError, match=r"Sym\.sym, entry 1, byte 8 of the data"):
        attached.column("Sym")
