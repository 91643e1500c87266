"""Merges that leave duplicates out, against a plain loop: rows, counts, proof, validation, and removal after it."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from sparkhaven.readers.arrow.opening import open_table
from sparkhaven.store.errors import MergeError, SettingsError, ValidationFailedError
from sparkhaven.store.layout import TableName
from sparkhaven.store.merges.merge_records import decode_record, encode_record, newest
from sparkhaven.store.merges.merge_run import LeftOut
from sparkhaven.store.types.model import DedupeRule
from sparkhaven.store.types.row_ranges import RowRanges
from sparkhaven.writers.merge.date_merges import DateMerges
from sparkhaven.writers.merge.date_result import MergeOutcome
from sparkhaven.writers.merge.executor import LocalExecutor
from sparkhaven.writers.merge.plan import date_plan as duplicates
from sparkhaven.writers.merge.plan.merge_inputs import unmerged
from sparkhaven.writers.merge.plan.merge_pins import Pins
from sparkhaven.writers.merge.plan.merge_plan import NO_RULE, MergeOptions, parse_dedupe
from sparkhaven.writers.merge.sources.merge_source import BlockSizes
from sparkhaven.writers.partitions import add_partition
from sparkhaven.writers.validation.date_validation import validate_date
from tests.support.tables.intraday_rows import IntradayRows
from tests.support.writers.coded_rows import SCHEMA as CODED
from tests.support.writers.coded_rows import coded_row, coded_table
from tests.support.writers.merge_cases import DAY, SCHEMA, as_table, comparable, naive_key, random_row
from tests.support.writers.merge_runs import FS, merge
from tests.support.writers.removals import empty, unlink

Row = dict[str, Any]
RULES = [
    DedupeRule(("L",)),
    DedupeRule(("Sym", "S"), "last"),
    DedupeRule(("D", "Flag")),
    DedupeRule(("Note",), "last", "T"),
    DedupeRule(("F", "Venue"), "first", "Note"),
    DedupeRule(("T",), "last", "B"),
]


def key_of(row: Row, names: Sequence[str]) -> tuple[Any, ...]:
    values = [row[name] for name in names]
    return tuple("nan" if v != v else v + 0.0 if isinstance(v, float) else v for v in values)


def plainly(rows: Sequence[Row], rule: DedupeRule) -> tuple[list[Row], int]:
    """The rows that are kept, and how many of the others equal the one in their place."""
    kept: dict[tuple[Any, ...], Row] = {}
    name = rule.order_by
    order = list(rows) if name is None else sorted(rows, key=lambda row: naive_key(row[name]))
    for row in order if rule.keep == "last" else reversed(order):
        kept[key_of(row, rule.keys)] = row
    others = [row for row in rows if row is not kept[key_of(row, rule.keys)]]
    identical = sum(repr(every(row)) == repr(every(kept[key_of(row, rule.keys)])) for row in others)
    return [row for row in rows if row is kept[key_of(row, rule.keys)]], identical


def every(row: Row) -> dict[str, Any]:
    return {name: comparable(value) for name, value in row.items()}


def stored(root: Path) -> list[str]:
    names = [*as_table([]).column_names]
    return sorted(repr(every(row)) for row in rows_of(root, names))


def rows_of(root: Path, names: Sequence[str]) -> list[Row]:
    table = open_table(root, "Test.Every").to_arrow(list(names))
    at = table.schema.get_field_index("T")
    rows: list[Row] = table.set_column(at, "T", table["T"].cast("int64")).to_pylist()
    return rows


def made(root: Path, count: int, xml: bytes = SCHEMA) -> tuple[IntradayRows, list[Row]]:
    """Rows of which a third come twice, in two sources; in the order of the sources."""
    rng = random.Random(1)
    rows = [random_row(rng) for _ in range(count)]
    rows += [dict(rng.choice(rows)) for _ in range(count // 3)]
    rng.shuffle(rows)
    db, cut = IntradayRows(root, xml, fs=FS), len(rows) // 3
    for name in "01":
        add_partition(FS, db.layout, "Test", name)
    db.commit({("a", DAY): as_table(rows[:cut]), ("b", DAY): as_table(rows[cut:])})
    return db, rows


WAYS = {
    "small": {},
    "columns": {"workers": 2, "parallel_rows": 10},
    "pieces": {"memory": 1 << 22, "parallel_rows": 10, "sizes": BlockSizes(rows=50, chunk_rows=20, texts=16)},
    "parquet": {"format": "parquet"},
    "both": {"format": "both"},
}


@pytest.mark.parametrize(
    ("way", "rule"), [*(("small", rule) for rule in RULES), *zip(WAYS, RULES[1:], strict=False)], ids=str
)
def test_one_row_of_each_key_is_kept_as_a_plain_loop_does(tmp_path: Path, rule: DedupeRule, way: str) -> None:
    db, rows = made(tmp_path, 300)
    kept, identical = plainly(rows, rule)
    (result,) = merge(db.layout, dedupe=rule, **WAYS[way])
    assert (result.rows_in, result.rows_out) == (len(rows), len(kept))
    assert (result.left_out, result.identical) == (len(rows) - len(kept), identical)
    assert stored(tmp_path) == sorted(repr(every(row)) for row in kept)
    record = newest(db.place, DAY)
    assert record is not None and record.proof is not None and record.proof.holds
    assert (record.proof.dropped, record.run.dedupe) == (len(rows) - len(kept), rule)
    assert validate_date(db.place, DAY).passed
    empty(db)
    unlink(db)
    assert stored(tmp_path) == sorted(repr(every(row)) for row in kept)
    assert validate_date(db.place, DAY).passed


@pytest.mark.parametrize("rule", RULES, ids=DedupeRule.words)
def test_passes_over_the_keys_find_the_same(tmp_path: Path, rule: DedupeRule) -> None:
    db, _ = made(tmp_path, 300)
    sources = unmerged(db.place, Pins(db.place).locations(DAY), {})
    whole = duplicates.find_duplicates(FS, db.schema, sources, rule, 1 << 30)
    parts = duplicates.find_duplicates(FS, db.schema, sources, rule, 400 * duplicates.ROW_BYTES // 7)
    assert parts.left_out == whole.left_out != LeftOut()
    pairs = zip(parts.kept, whole.kept, strict=True)
    assert all(one is not None and other is not None and one.positions.tolist() == other.positions.tolist()
               for one, other in pairs)  # fmt: skip


@pytest.mark.parametrize("name", ["Day", "Clock", "Px", "Whole"])
def test_keys_of_types_with_a_codec(tmp_path: Path, name: str) -> None:
    rng = random.Random(3)
    rows = [coded_row(rng, number) for number in range(40)]
    rows += [{**rng.choice(rows), "N": number} for number in range(40, 60)]
    db = IntradayRows(tmp_path, CODED, fs=FS)
    db.commit({("a", DAY): coded_table(db.schema, rows)})
    merge(db.layout, table=TableName("Test", "Coded"), dedupe=DedupeRule((name,), "last", "N"))
    kept = {row[name]: row["N"] for row in rows}
    assert sorted(open_table(tmp_path, "Test.Coded").to_arrow(["N"])["N"].to_pylist()) == sorted(kept.values())
    assert validate_date(db.place, DAY).passed


def test_late_rows_are_merged_with_all_others_by_the_rule_of_the_date(tmp_path: Path) -> None:
    rule = DedupeRule(("L",), "last", "T")
    db, rows = made(tmp_path, 60)
    merge(db.layout, dedupe=rule)
    rng = random.Random(7)
    late = [random_row(rng) for _ in range(9)]
    db.commit({("c", DAY): as_table(late)})
    (result,) = merge(db.layout)
    kept, _ = plainly([*rows, *late], rule)
    assert (result.outcome, result.rows_out, result.left_out) == (MergeOutcome.MERGED, len(kept), 80 + 9 - len(kept))
    assert stored(tmp_path) == sorted(repr(every(row)) for row in kept)
    empty(db)
    unlink(db)
    later = [random_row(rng) for _ in range(9)]
    db.commit({("d", DAY): as_table(later)})
    merge(db.layout)
    kept, _ = plainly([*kept, *later], rule)
    assert stored(tmp_path) == sorted(repr(every(row)) for row in kept)
    assert validate_date(db.place, DAY).passed
    record = newest(db.place, DAY)
    assert record is not None and record.proof is not None
    assert (record.proof.rows_in, record.proof.rows_out) == (80 + 18, len(kept))


def test_an_upsert_lets_new_rows_win_over_history(tmp_path: Path) -> None:
    db, rows = made(tmp_path, 60)
    rule = DedupeRule(("Sym",), "last", upsert=True)
    merge(db.layout, dedupe=rule)
    rng = random.Random(7)
    late = [random_row(rng) for _ in range(5)]
    db.commit({("a", DAY): as_table(late)})  # in the order of the sources it lies before those of b
    merge(db.layout)
    first, _ = plainly(rows, rule)
    kept, _ = plainly([*first, *late], rule)
    assert stored(tmp_path) == sorted(repr(every(row)) for row in kept)
    assert validate_date(db.place, DAY).passed


def test_another_rule_merges_the_date_again_and_none_brings_the_rows_back(tmp_path: Path) -> None:
    db, rows = made(tmp_path, 60)
    merge(db.layout)
    (again,) = merge(db.layout, dedupe=NO_RULE)
    assert again.outcome is MergeOutcome.NOTHING
    for rule in (DedupeRule(("L",)), DedupeRule(("L",), "last")):
        merge(db.layout, dedupe=rule)
        assert stored(tmp_path) == sorted(repr(every(row)) for row in plainly(rows, rule)[0])
        (again,) = merge(db.layout, dedupe=rule)
        assert again.outcome is MergeOutcome.NOTHING
    merge(db.layout, dedupe=NO_RULE)
    assert stored(tmp_path) == sorted(repr(every(row)) for row in rows)


def test_a_dry_run_counts_what_would_be_left_out(tmp_path: Path) -> None:
    db, rows = made(tmp_path, 60)
    rule = DedupeRule(("L",))
    kept, identical = plainly(rows, rule)
    options, executor = MergeOptions(dedupe=rule), LocalExecutor(1)
    (result,) = DateMerges(db.place, options, executor, lambda: 0.0).planned([DAY])
    assert (result.rows_in, result.left_out, result.identical) == (len(rows), len(rows) - len(kept), identical)
    assert newest(db.place, DAY) is None


@pytest.mark.parametrize("shift", [1, 2])
def test_rows_that_the_rule_did_not_leave_out_are_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shift: int
) -> None:
    """A fault in the choice of rows: of other ones as many, which the validation sees, or of fewer."""
    db, _ = made(tmp_path, 60)
    original = duplicates.find_duplicates

    def faulty(*args: Any) -> duplicates.Duplicates:
        found = original(*args)
        first = found.kept[0]
        assert first is not None and first.start == 0
        kept = first.positions + 1 if shift == 1 else first.positions[1:]
        return duplicates.Duplicates((RowRanges.at(kept), *found.kept[1:]), found.left_out)

    monkeypatch.setattr("sparkhaven.writers.merge.plan.date_plan.find_duplicates", faulty)
    if shift == 2:
        with pytest.raises(MergeError, match="other rows"):
            merge(db.layout, dedupe=DedupeRule(("L",)))
        return
    merge(db.layout, dedupe=DedupeRule(("L",)))
    assert not validate_date(db.place, DAY).passed
    with pytest.raises(ValidationFailedError):
        empty(db)


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ({"keep": "last"}, "--keep"),
        ({"dedupe": "L", "last_by": "L"}, "--dedupe --last-by"),
        ({"last_by": "L", "keep": "first"}, "--last-by --keep"),
        ({"upsert": "L", "order_by": "T"}, "--upsert --order-by"),
        ({"dedupe": "L", "keep": "newest"}, "'newest'"),
        ({"dedupe": "Nix"}, "Nix"),
        ({"dedupe": "L,L"}, "L, L"),
        ({"dedupe": " , "}, "no column"),
        ({"dedupe": "Date"}, "Date"),
        ({"dedupe": "L", "order_by": "D"}, "D, a double"),
        ({"dedupe": "none", "keep": "last"}, "none"),
    ],
)
def test_options_that_give_no_rule_are_refused(tmp_path: Path, options: dict[str, str], found: str) -> None:
    db = IntradayRows(tmp_path, SCHEMA, fs=FS)
    with pytest.raises(SettingsError) as caught:
        parse_dedupe(db.schema, **options)
    assert found in str(caught.value.found)


@pytest.mark.parametrize(
    ("attributes", "rule"),
    [
        ('dedupeKeys="L, Sym"', DedupeRule(("L", "Sym"))),
        ('dedupeKeys="L" keep="last" orderBy="T"', DedupeRule(("L",), "last", "T")),
        ('lastBy="L" orderBy="T"', DedupeRule(("L",), "last", "T")),
        ('upsertInto="L" format="Parquet" codec="ZSTD"', DedupeRule(("L",), "last", upsert=True)),
    ],
)
def test_a_schema_states_the_rule_for_its_merges(tmp_path: Path, attributes: str, rule: DedupeRule) -> None:
    xml = SCHEMA.replace(b"</Table>", f"<MergeAttributes {attributes}/></Table>".encode())
    db, rows = made(tmp_path, 60, xml=xml)
    assert db.schema.dedupe == rule
    merge(db.layout)
    assert stored(tmp_path) == sorted(repr(every(row)) for row in plainly(rows, rule)[0])
    merge(db.layout, dedupe=NO_RULE)
    assert stored(tmp_path) == sorted(repr(every(row)) for row in rows)
    for _ in range(2):  # what was chosen holds, as an order does, for re-merges and rows that come later
        assert merge(db.layout, dedupe=NO_RULE)[0].outcome is MergeOutcome.NOTHING
        merge(db.layout, rewrite=True)
        assert stored(tmp_path) == sorted(repr(every(row)) for row in rows)
        rows = [*rows, dict(rows[0])]
        db.commit({("b", DAY): as_table(rows[-1:])})
        assert merge(db.layout)[0].outcome is MergeOutcome.SUPPLEMENT
        assert stored(tmp_path) == sorted(repr(every(row)) for row in rows)
    record = newest(db.place, DAY)
    assert record is not None and decode_record(encode_record(record), "") == record
    merge(db.layout, dedupe=rule)
    if not rule.upsert:
        assert stored(tmp_path) == sorted(repr(every(row)) for row in plainly(rows, rule)[0])
