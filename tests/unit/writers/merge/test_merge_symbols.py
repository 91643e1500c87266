"""Symbol tables too large for one hash table are sorted, ranked and encoded in slices, and counted as memory."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pyarrow as pa

from sparkhaven.store.layout import LocationKey
from sparkhaven.store.merges.history import load_history
from sparkhaven.writers.merge.plan.date_plan import plan_merge
from sparkhaven.writers.merge.plan.merge_pins import Pins
from sparkhaven.writers.merge.plan.merge_plan import MergeOptions
from sparkhaven.writers.merge.sources.merge_source import BlockSizes
from sparkhaven.writers.merge.sources.sort_keys import INT_NULL, is_sorted, rank_lut, sorted_symbols
from tests.support.tables.intraday_rows import IntradayRows
from tests.support.writers.merge_cases import (
    DAY,
    SCHEMA,
    STRINGS,
    TABLE,
    as_table,
    naive_order,
    random_row,
    read_location,
)
from tests.support.writers.merge_runs import FS, history_bytes, make, merge, same


def test_slices_give_what_one_table_gives() -> None:
    rng = random.Random(4)
    texts = [rng.choice(STRINGS) + str(rng.randrange(40)) for _ in range(300)]
    parts = [pa.array([*texts[:120], None]), pa.array(texts[120:])]
    union = sorted_symbols(parts)
    assert union.to_pylist() == sorted(set(texts), key=lambda text: text.encode("utf-16-be"))
    lut = rank_lut(parts[0], union)
    assert np.array_equal(rank_lut(parts[0], union, 7), lut)
    assert lut[120] == lut[-1] == INT_NULL
    assert is_sorted(union)
    plain = union.to_pylist()
    for place in (0, 6, 7, 8, len(plain) - 2):
        swapped, doubled = list(plain), list(plain)
        swapped[place], swapped[place + 1] = swapped[place + 1], swapped[place]
        doubled[place + 1] = doubled[place]
        for wrong in (pa.array(swapped), pa.array(doubled)):
            assert not is_sorted(wrong)
    assert not is_sorted(pa.array([None, "a"]))
    assert is_sorted(pa.array([], pa.string()))


def test_a_merge_in_slices_gives_the_same_bytes(tmp_path: Path) -> None:
    one, rows = make(tmp_path / "one", 300, partitions=1)
    merge(one.layout)
    two, _ = make(tmp_path / "two", 300, partitions=1)
    merge(two.layout, sizes=BlockSizes(symbols=2))
    assert history_bytes(one.layout) == history_bytes(two.layout)
    same(read_location(two.layout, two.schema, LocationKey("0", DAY)), naive_order(rows, []))


def test_a_supplement_has_no_symbols_of_the_rows_before(tmp_path: Path) -> None:
    db, _ = make(tmp_path, 100, partitions=1)
    merge(db.layout)
    late = [random_row(random.Random(5)) | {"Sym": "late", "Venue": None}]
    db.commit({("a", DAY): as_table(late)})
    ((name, rows),) = merge(db.layout)[0].destinations
    place = db.layout.partitions("Test") / name / DAY / TABLE.table
    assert (rows, FS.read(place / "Sym.sym.bytes"), FS.read(place / "Venue.sym.bytes")) == (1, b"late", b"")


def test_symbol_tables_count_as_memory(tmp_path: Path) -> None:
    db = IntradayRows(tmp_path, SCHEMA, fs=FS)
    rows = [random_row(random.Random(1)) | {"Venue": f"{i:01000d}"} for i in range(4000)]
    db.commit({("a", DAY): as_table(rows)})
    options = MergeOptions(memory=256 << 20)
    plan = plan_merge(db.place, load_history(db.place, DAY), options, Pins(db.place), dry_run=True).plan
    assert plan is not None
    assert 3 * 4_000_000 < plan.dictionary_cost() < 3 * 4_000_000 + 200_000
    assert plan.usable() == options.usable - plan.dictionary_cost()
