"""`sparkhaven metadata list|validate|update`: an index that was lost or damaged is written from the merge records."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sparkhaven.readers.checks.verify import verify
from sparkhaven.store.format.index.tlmi import IndexEntry, decode_tlmi, encode_tlmi
from sparkhaven.store.layout import LocationKey
from sparkhaven.store.merges.merge_records import lock_table
from tests.support.commands import run, run_json
from tests.support.tables.intraday_rows import IntradayRows
from tests.support.writers.export_cases import NEXT
from tests.support.writers.merge_cases import DAY, TABLE, as_table, random_row
from tests.support.writers.merge_runs import FS, make, merge

NAME = str(TABLE)
Entries = list[IndexEntry]


@pytest.fixture
def db(tmp_path: Path) -> IntradayRows:
    """Two dates: one with a supplement, one as Parquet, merged twice."""
    made, _ = make(tmp_path, 20)
    row = as_table([random_row(random.Random(1))])
    made.commit({("a", NEXT): row})
    merge(made.layout)
    merge(made.layout, NEXT, format="parquet")
    made.commit({("a", DAY): row, ("b", NEXT): row})
    merge(made.layout)
    merge(made.layout, NEXT, rewrite=True)
    return made


def changed(db: IntradayRows, change: Callable[[Entries], Entries]) -> None:
    path = db.layout.metadata_index(TABLE)
    path.write_bytes(encode_tlmi(change(decode_tlmi(path.read_bytes(), path))))


def differences(db: IntradayRows, command: str = "validate", *words: str) -> tuple[int, list[tuple[str, Any]]]:
    code, value = run_json(db.root, "metadata", command, NAME, *words)
    return code, [(each["kind"], each["date"]) for each in value["differences"]]


STRAY = IndexEntry(LocationKey("9", "2020-01-01"), 5, 1)
CHANGES: dict[str, tuple[Callable[[Entries], Entries], tuple[str, str]]] = {
    "missing": (lambda entries: entries[1:], ("missing", DAY)),
    "extra": (lambda entries: [*entries, STRAY], ("extra", "2020-01-01")),
    "size": (lambda entries: [replace(entries[0], rows=99), *entries[1:]], ("size", DAY)),
    "format": (lambda entries: [replace(entries[0], format="PARQUET"), *entries[1:]], ("format", DAY)),
    "time": (lambda entries: [replace(entries[0], modified_ms=7), *entries[1:]], ("time", DAY)),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_difference_is_told_and_mended(db: IntradayRows, name: str) -> None:
    path = db.layout.metadata_index(TABLE)
    before = path.read_bytes()
    change, told = CHANGES[name]
    assert differences(db) == (0, [])
    changed(db, change)
    wrong = path.read_bytes()
    assert differences(db) == (1, [told])
    assert differences(db, "update", "--dry-run") == (0, [told]) and path.read_bytes() == wrong
    assert differences(db, "update") == (0, [told])
    assert path.read_bytes() == before, "as the merges wrote it"
    assert differences(db) == (0, []) and verify(FS, db.layout, TABLE).errors == 0


@pytest.mark.parametrize(("content", "kind"), [(None, "lost"), (b"", "damaged"), (b"\xdb\x2b\xb2\xdb", "damaged")])
def test_a_lost_or_damaged_index_is_written_again(db: IntradayRows, content: bytes | None, kind: str) -> None:
    path = db.layout.metadata_index(TABLE)
    before = path.read_bytes()
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    (found,) = [each for each in verify(FS, db.layout, TABLE).findings if each.severity == "error"]
    assert found.hint is not None and f"sparkhaven metadata update {NAME}" in found.hint
    assert differences(db) == (1, [(kind, None)])
    code, value = run_json(db.root, "metadata", "update")
    assert (code, value["written"], path.read_bytes()) == (0, True, before)
    again = run_json(db.root, "metadata", "update")[1]
    assert (again["written"], again["differences"]) == (False, [])


def test_entries_are_listed_with_their_formats(db: IntradayRows) -> None:
    code, value = run_json(db.root, "metadata", "list", NAME)
    entries = {(each["date"], each["format"]): each["rows"] for each in value["entries"]}
    assert code == 0 and sum(each["rows"] for each in value["entries"]) == 23
    assert {form for date, form in entries if date == NEXT} == {"PARQUET"}
    assert {form for date, form in entries if date == DAY} == {"DEEPHAVEN"}
    assert DAY in run(db.root, "metadata", "list", "Test").stdout


@pytest.mark.parametrize("asked", [NAME, "Test", "Te*.Ev*", "*"])
def test_tables_by_name_namespace_and_pattern(db: IntradayRows, asked: str) -> None:
    assert run_json(db.root, "metadata", "validate", asked)[1]["table"] == NAME


def test_nothing_matches(db: IntradayRows) -> None:
    for asked in ("No.Table", "No", "T?.*"):
        code, value = run_json(db.root, "metadata", "update", asked)
        assert (code, value["error"]["type"]) == (2, "TableNotFoundError")


def test_a_running_merge_keeps_an_update_away(db: IntradayRows) -> None:
    with lock_table(db.place):
        assert run_json(db.root, "metadata", "update", NAME)[0] == 3
        assert differences(db) == (0, [])
