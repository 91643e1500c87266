"""How a merge chooses storage partitions: by formula, in turn or by free space; recorded, and kept by later merges."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparkhaven.readers.arrow.opening import open_table
from sparkhaven.store.errors import CorruptFileError, RetryableStorageError, SettingsError
from sparkhaven.store.layout import Layout, without_generation
from sparkhaven.store.merges.merge_records import MergeRecord, decode_record, encode_record, newest
from sparkhaven.store.merges.merge_run import decode_run, encode_run
from sparkhaven.store.places import TablePlace
from sparkhaven.store.types.model import DISTRIBUTIONS
from sparkhaven.writers.partitions import add_partition, writable_names
from tests.support.disks.model_fs import Crash, KillingFs, QuickFs
from tests.support.tables.intraday_rows import IntradayRows
from tests.support.writers.merge_cases import SCHEMA, TABLE, as_table, comparable, random_row
from tests.support.writers.merge_runs import FS, history_bytes, merge

DAYS = [f"2024-03-{day:02}" for day in range(4, 16)]


class SizedFs(QuickFs):
    """Partitions whose volumes have the free bytes that are given by name."""

    def __init__(self, **free: int) -> None:
        self.free = {name.removeprefix("p"): size for name, size in free.items()}

    def free_bytes(self, path: Path) -> int:
        return self.free.get(path.name, max(self.free.values()))


def table_of(root: Path, *partitions: str, days: int = 6, schema: bytes = SCHEMA) -> IntradayRows:
    """Rows of several days, and a storage partition of each name."""
    rng = random.Random(7)
    db = IntradayRows(root, schema, fs=FS)
    db.commit({("a", day): as_table([random_row(rng) for _ in range(9)]) for day in DAYS[:days]})
    for name in partitions:
        add_partition(FS, db.layout, "Test", name)
    return db


def record_of(db: IntradayRows, day: str) -> MergeRecord:
    record = newest(db.place, day)
    assert record is not None
    return record


def partitions_of(db: IntradayRows, day: str) -> list[str]:
    """The storage partitions that have rows of a date."""
    return sorted({without_generation(output.internal) for output in record_of(db, day).outputs})


def rows_of(root: Path) -> list[str]:
    names = [*as_table([]).column_names, "Date"]
    table = open_table(root, "Test.Every").to_arrow(names)
    at = table.schema.get_field_index("T")
    rows: list[dict[str, Any]] = table.set_column(at, "T", table["T"].cast("int64")).to_pylist()
    return sorted(repr({name: comparable(value) for name, value in row.items()}) for row in rows)


def close(layout: Layout, name: str) -> None:
    FS.unlink(layout.writable_partitions("Test") / name)


def test_dates_take_turns_and_each_is_whole(tmp_path: Path) -> None:
    db = table_of(tmp_path, "0", "1", "2")
    before = rows_of(tmp_path)
    merge(db.layout, *DAYS[:6], distribution="round-robin")
    chosen = [partitions_of(db, day) for day in DAYS[:6]]
    assert [len(names) for names in chosen] == [1] * 6
    order = [name for (name,) in chosen]
    assert order[3:] == order[:3] and sorted(order[:3]) == ["0", "1", "2"]
    assert rows_of(tmp_path) == before


def test_night_after_night_goes_on_with_the_turn(tmp_path: Path) -> None:
    together, alone = table_of(tmp_path / "a", "0", "1", "2"), table_of(tmp_path / "b", "0", "1", "2")
    merge(together.layout, *DAYS[:6], distribution="round-robin")
    for day in DAYS[:6]:
        merge(alone.layout, day, distribution="round-robin")
    assert [partitions_of(together, day) for day in DAYS[:6]] == [partitions_of(alone, day) for day in DAYS[:6]]


def test_free_space_is_used_in_proportion_and_a_full_volume_is_left_out(tmp_path: Path) -> None:
    db = table_of(tmp_path, "0", "1", "2", days=12)
    fs = SizedFs(p0=3 << 40, p1=1 << 40, p2=10)
    merge(db.layout, *DAYS, distribution="free-space", fs=fs)
    counts = Counter(name for day in DAYS for name in partitions_of(db, day))
    assert counts == {"0": 9, "1": 3}


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_a_later_merge_keeps_the_recorded_choice(tmp_path: Path, distribution: Any) -> None:
    db = table_of(tmp_path, "0", "1")
    merge(db.layout, *DAYS[:6], distribution=distribution)
    first = {day: (partitions_of(db, day), record_of(db, day).run.partitions) for day in DAYS[:6]}
    for name in ("2", "3", "4"):
        add_partition(FS, db.layout, "Test", name)
    db.commit({("a", day): as_table([random_row(random.Random(1))]) for day in DAYS[:3]})
    rows = rows_of(tmp_path)
    merge(db.layout, *DAYS[:3])  # supplements
    merge(db.layout, *DAYS[3:6], rewrite=True, distribution=distribution)
    for day in DAYS[:6]:
        run = record_of(db, day).run
        assert run.distribution == distribution
        assert run.partitions == first[day][1]
        assert set(partitions_of(db, day)) <= set(run.partitions)
    for day in DAYS[3:6]:
        assert partitions_of(db, day) == first[day][0]
    assert rows_of(tmp_path) == rows


def test_a_date_leaves_a_partition_that_is_no_longer_writable(tmp_path: Path) -> None:
    db = table_of(tmp_path, "0")
    merge(db.layout, *DAYS[:2], distribution="round-robin")
    add_partition(FS, db.layout, "Test", "1")
    close(db.layout, "0")
    merge(db.layout, DAYS[0], rewrite=True)
    assert [output.internal for output in record_of(db, DAYS[0]).outputs] == ["1.g2"]
    assert record_of(db, DAYS[0]).run.distribution == "round-robin"


def test_another_distribution_needs_a_rewrite(tmp_path: Path) -> None:
    db = table_of(tmp_path, "0", "1", "2")
    merge(db.layout, DAYS[0], distribution="round-robin")
    db.commit({("a", DAYS[0]): as_table([random_row(random.Random(2))])})
    merge(db.layout, DAYS[0], distribution="formula")
    assert record_of(db, DAYS[0]).run.distribution == "round-robin"
    merge(db.layout, DAYS[0], distribution="formula", rewrite=True)
    assert record_of(db, DAYS[0]).run.distribution == "formula"
    assert record_of(db, DAYS[0]).run.partitions == ("0", "1", "2")


def test_only_some_partitions_are_the_array_of_the_formula(tmp_path: Path) -> None:
    db, other = table_of(tmp_path / "a", "0", "1", "2"), table_of(tmp_path / "b", "1", "2")
    merge(db.layout, DAYS[0], only=("2", "1"))
    merge(other.layout, DAYS[0])
    assert record_of(db, DAYS[0]).run.partitions == ("1", "2")
    assert history_bytes(db.layout) == history_bytes(other.layout)
    with pytest.raises(SettingsError) as raised:
        merge(db.layout, DAYS[1], only=("1", "7"))
    assert (raised.value.found, raised.value.expected) == ("7", "some of 0, 1, 2")


def test_the_schema_says_it_where_no_option_does(tmp_path: Path) -> None:
    text = SCHEMA.replace(b"  <Column", b'  <MergeAttributes distribution="round-robin"/>\n  <Column', 1)
    db = table_of(tmp_path, "0", "1", schema=text)
    assert db.layout.schema(TABLE).read_bytes() == text
    merge(db.layout, *DAYS[:2])
    merge(db.layout, DAYS[2], distribution="formula")
    assert [record_of(db, day).run.distribution for day in DAYS[:3]] == ["round-robin", "round-robin", "formula"]
    assert partitions_of(db, DAYS[0]) != partitions_of(db, DAYS[1])


def test_a_record_without_a_distribution_reads_as_formula(tmp_path: Path) -> None:
    db = table_of(tmp_path, "0", "1")
    merge(db.layout, DAYS[0])
    run = encode_run(record_of(db, DAYS[0]).run)
    assert "distribution" not in run
    assert decode_run(run).distribution == "formula"
    merge(db.layout, DAYS[1], distribution="free-space")
    record = record_of(db, DAYS[1])
    assert decode_record(encode_record(record), "here") == record
    with pytest.raises(ValueError, match="no distribution: lots"):
        decode_run({**run, "distribution": "lots"})


def test_what_a_killed_merge_staged_elsewhere_is_removed(tmp_path: Path) -> None:
    db = table_of(tmp_path, "0", days=1)
    with pytest.raises(Crash):
        merge(db.layout, DAYS[0], fs=KillingFs(crash_at="merge-check:before"))
    volume = tmp_path / "volume"
    volume.mkdir()
    add_partition(FS, db.layout, "Test", "1", volume=volume)
    close(db.layout, "0")
    assert [path.name for path in db.layout.system("Test").iterdir() if path.name.startswith(".stage")]
    merge(db.layout, DAYS[0])
    assert partitions_of(db, DAYS[0]) == ["1"]
    assert not [path.name for path in db.layout.system("Test").iterdir() if path.name.startswith(".stage")]


def test_a_date_of_a_closed_partition_without_a_record_is_not_doubled(tmp_path: Path) -> None:
    db = table_of(tmp_path, "0", days=1)
    merge(db.layout, DAYS[0])
    FS.remove_tree(db.place.merges)  # history of another program
    add_partition(FS, db.layout, "Test", "1")
    close(db.layout, "0")
    with pytest.raises(CorruptFileError, match="no merge record, and may have the rows that are intraday too"):
        merge(db.layout, DAYS[0])


def test_no_volume_with_room_is_an_error_that_names_the_command(tmp_path: Path) -> None:
    db = table_of(tmp_path, "0", "1")
    with pytest.raises(RetryableStorageError) as raised:
        merge(db.layout, DAYS[0], distribution="free-space", fs=SizedFs(p0=1, p1=2))
    assert "partitions roll Test --volume DIR" in str(raised.value.hint)


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["merge", "again", "late", "open", "close"]),
        st.sampled_from(DISTRIBUTIONS),
        st.integers(0, 3),
    ),
    min_size=2,
    max_size=10,
)


@given(STEPS)
@settings(max_examples=40, deadline=None)
def test_a_row_is_never_in_two_partitions(tmp_path_factory: pytest.TempPathFactory, steps: list[Any]) -> None:
    """Whatever partitions come and go: all rows once, in partitions that the record names and that were writable."""
    root = tmp_path_factory.mktemp("db")
    db, rng = table_of(root, "0", "1", days=4), random.Random(3)
    rows, kept = rows_of(root), dict[str, tuple[tuple[str, ...], str]]()
    for kind, distribution, number in steps:
        day, writable = DAYS[number], writable_names(FS, db.layout, "Test")
        if kind == "open":
            add_partition(FS, db.layout, "Test", str(number))
        elif kind == "close" and len(writable) > 1:
            close(db.layout, writable[number % len(writable)])
        elif kind == "late":
            db.commit({("b", day): as_table([random_row(rng) for _ in range(3)])})
            rows = rows_of(root)
        elif kind in ("merge", "again"):
            merge(db.layout, day, distribution=distribution, rewrite=kind == "again" and day in kept)
            run = record_of(db, day).run
            partitions, before = kept.get(day, ((), distribution))
            other = kind == "again" and distribution != before
            if partitions and set(partitions) <= set(writable) and not other:
                assert (run.partitions, run.distribution) == (partitions, before)
            assert set(run.partitions) <= {*writable, *partitions}
            kept[day] = run.partitions, run.distribution
        assert rows_of(root) == rows
        place = TablePlace(FS, db.layout, TABLE)
        for day in kept:
            record = newest(place, day)
            assert record is not None and record.proof is not None
            assert sum(output.rows for output in record.outputs) == record.proof.rows_out
