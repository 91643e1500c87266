"""The default rules and those of a schema, on rows where each of them can fail."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from sparkhaven.store.epochs.state.log_values import Batch, OffsetRange
from sparkhaven.store.errors import TableNotFoundError, ValidationFailedError
from sparkhaven.store.layout import LocationKey
from sparkhaven.store.merges.merge_records import newest
from sparkhaven.store.merges.validations import RuleResult, Validation
from sparkhaven.store.types.model import DedupeRule
from sparkhaven.writers.validation.date_validation import validate_date
from sparkhaven.writers.validation.rows.date_rows import PassSizes
from tests.support.commands import run
from tests.support.disks.contents import flip
from tests.support.tables.intraday_rows import IntradayRows
from tests.support.tables.live_rows import compact
from tests.support.writers.merge_cases import DAY, SCHEMA, TABLE, as_table
from tests.support.writers.merge_runs import FS, merge
from tests.support.writers.plain_rows import plain_rows
from tests.support.writers.removals import empty
from tests.support.writers.validated_dates import validated


def result(found: Validation, rule: str) -> RuleResult:
    return next(r for r in found.results if r.rule == rule)


def test_the_gate_passes_a_sound_merge_and_names_what_it_compared(tmp_path: Path) -> None:
    db, found = validated(tmp_path, "", plain_rows())
    assert found.passed
    assert found.require() is found
    assert (found.rows, found.generation) == (20, 1)
    assert [r.rule for r in found.results] == ["RowCount", "RowCountPerGroup", *["DigestEqual"] * 12, "RowDigestEqual"]
    assert result(found, "RowCount").measured == 20
    db.commit({("a", DAY): as_table(plain_rows(2))})
    later = validate_date(db.place, DAY)
    assert later.passed
    assert result(later, "LaterRows").measured == 2


def test_after_truncate_the_record_stands_for_intraday(tmp_path: Path) -> None:
    db, _ = validated(tmp_path, "", plain_rows())
    empty(db)
    found = validate_date(db.place, DAY)
    assert found.passed
    assert "since intraday was removed" in result(found, "RowCount").message
    per_group = result(found, "RowCountPerGroup")
    assert per_group.passed
    assert "is compared instead of its counts" in per_group.message


def test_a_changed_value_in_history_fails_the_digest_of_its_column(tmp_path: Path) -> None:
    db, _ = validated(tmp_path, "", plain_rows())
    path = db.layout.history_location(TABLE, LocationKey("0", DAY)) / "L.dat"
    flip(path, 4096)
    found = validate_date(db.place, DAY)
    assert [r.column for r in found.results if r.passed is False] == ["L"]
    with pytest.raises(ValidationFailedError, match="1 of 14 rules failed"):
        found.require()


def swap(path: Path, one: int, other: int, *, first: int = 4096) -> None:
    """Exchanges two entries of 8 bytes: a digest of the column alone does not see it."""
    data = bytearray(path.read_bytes())
    here, there = (slice(first + 8 * row, first + 8 * row + 8) for row in (one, other))
    assert data[here] != data[there]
    data[here], data[there] = data[there], data[here]
    path.write_bytes(data)


@pytest.mark.parametrize("left_out", ["nothing", "duplicates", "withdrawn", "deleted"])
@pytest.mark.parametrize("truncated", [False, True])
def test_values_that_stand_in_other_rows_fail_the_digest_of_rows(
    tmp_path: Path, left_out: str, *, truncated: bool
) -> None:
    db = IntradayRows(tmp_path, SCHEMA, fs=FS)
    db.commit({("a", DAY): as_table(plain_rows())})
    if left_out == "withdrawn":
        db.log.close()
        deleted = run(tmp_path, "delete-rows", str(TABLE), "--where", "I < 3")
        assert deleted.exit_code == 0, deleted.output
    merge(db.layout, dedupe=DedupeRule(("Note",), "last") if left_out == "duplicates" else None)
    if left_out == "deleted":
        db.log.close()
        deleted = run(tmp_path, "delete-rows", str(TABLE), "--where", "I < 3")
        assert deleted.exit_code == 0, deleted.output
    if truncated:
        empty(db)
    sound = validate_date(db.place, DAY)
    assert sound.passed and result(sound, "RowDigestEqual").measured is not None
    record = newest(db.place, DAY)
    assert record is not None and record.proof is not None
    assert (record.proof.left_out.rows > 0) == (left_out != "nothing")
    (output,) = record.outputs
    swap(db.layout.history_location(TABLE, LocationKey(output.internal, DAY)) / "D.dat", 0, output.rows - 1)
    found = validate_date(db.place, DAY)
    assert [r.rule for r in found.results if r.passed is False] == ["RowDigestEqual"]


CASES = [
    ('<assertSize min="1" max="20"/>', {}, True, 20),
    ('<assertSize min="21" max="30"/>', {}, False, 20),
    ('<assertFracNull column="I" min="0" max="0"/>', {}, True, 0.0),
    ('<assertFracNull column="I" min="0" max="0.04"/>', {"I": None}, False, 0.05),
    ('<assertFracNull column="I" min="0" max="0.05"/>', {"I": None}, True, 0.05),
    ('<assertAllValuesInDistinctSet column="Venue" expectedValues="X, Y,Z"/>', {}, True, "'X', 'Y', 'Z'"),
    ('<assertAllValuesInDistinctSet column="Venue" expectedValues="X,Y"/>', {}, False, "'X', 'Y', 'Z'"),
    ('<assertAllValuesInDistinctSet column="Venue" expectedValues="X,Y,Z"/>', {"Venue": None}, False, "'X', 'Y', 'Z'"),
    (
        '<assertAllValuesInDistinctSet column="Venue" expectedValues="X,Y,Z" removeNull="true"/>',
        {"Venue": None},
        True,
        "'X', 'Y', 'Z'",
    ),
    ('<assertAllValuesInDistinctSet column="Note" expectedValues="n0,n1,n2,n3"/>', {}, True, "'n0', 'n1', 'n2', 'n3'"),
    ('<assertAllValuesBetween column="I" minValue="0" maxValue="19"/>', {}, True, "0 .. 19"),
    ('<assertAllValuesBetween column="I" minValue="0" maxValue="18"/>', {}, False, "0 .. 19"),
    ('<assertAllValuesBetween column="I" minValue="0" maxValue="19"/>', {"I": None}, False, "1 .. 19"),
    ('<assertAllValuesBetween column="D" minValue="0" maxValue="19"/>', {"D": math.nan}, False, "1.0 .. 19.0"),
    ('<assertAllValuesBetween column="D" minValue="0" maxValue="19" removeNaN="true"/>', {"D": math.nan}, True, None),
    ('<assertAllValuesBetween column="D" minValue="0" maxValue="19" removeInf="true"/>', {"D": math.inf}, True, None),
    ('<assertAllValuesBetween column="D" minValue="0" maxValue="19"/>', {"D": math.inf}, False, "1.0 .. inf"),
    ('<assertAllValuesBetween column="Note" minValue="n0" maxValue="n3"/>', {}, True, "n0 .. n3"),
    ('<assertAllValuesBetween column="Note" minValue="n0" maxValue="n2"/>', {}, False, "n0 .. n3"),
    ('<assertColumnGrouped column="Sym"/>', {}, True, 0),
    ('<assertColumnGrouped column="Venue"/>', {}, False, None),
    ('<assertColumnGrouped column="Note"/>', {}, False, None),
    ('<assertColumnGrouped column="I"/>', {}, True, None),
    ('<assertColumnGrouped column="Flag"/>', {}, True, None),
]


@pytest.mark.slow
@pytest.mark.parametrize(("rule", "change", "passes", "measured"), CASES)
def test_rules(tmp_path: Path, rule: str, change: dict[str, Any], passes: bool, measured: object) -> None:
    rows = plain_rows()
    rows[0] |= change
    _, found = validated(tmp_path, rule, rows)
    last = found.results[-1]
    assert last.rule in rule
    assert last.passed is passes, last.message
    if measured is not None:
        assert last.measured == measured


def test_a_date_that_was_never_merged(tmp_path: Path) -> None:
    db, _ = validated(tmp_path, "", plain_rows())
    with pytest.raises(TableNotFoundError, match="no history to validate"):
        validate_date(db.place, "2024-01-01")


def test_a_group_that_goes_over_blocks_is_still_one(tmp_path: Path) -> None:
    rules = '<assertColumnGrouped column="Sym"/><assertColumnGrouped column="Venue"/>'
    _, found = validated(tmp_path, rules, plain_rows(), PassSizes(rows=4))
    assert [r.passed for r in found.results[-2:]] == [True, False]


def test_contiguous_offsets_are_not_evaluated_over_settled_epochs(tmp_path: Path) -> None:
    xml = SCHEMA.replace(b"</Table>", b"<Validator><assertOffsetsContiguous/></Validator></Table>")
    db, rows = IntradayRows(tmp_path, xml, fs=FS), plain_rows()
    for number, (start, stop) in enumerate(((0, 7), (7, 20)), 1):
        report = db._append(LocationKey("a", DAY), as_table(rows[start:stop]))
        ranges = (OffsetRange("ticks", 0, start, stop),)
        batch = Batch("test", number, (), (report,), db.schema.version, stop - start, ranges=ranges)
        db.log.publish(db.log.commit(batch))
    merge(db.layout)
    rule = result(validate_date(db.place, DAY), "assertOffsetsContiguous")
    assert (rule.passed, rule.measured, rule.message) == (True, 0, "0 gaps between committed ranges")
    compact(db)
    rule = result(validate_date(db.place, DAY), "assertOffsetsContiguous")
    settled = f"epochs of stream rows up to {db.log.state.floor} are settled, and their gaps are no longer recorded"
    assert (rule.passed, rule.measured, rule.message) == (None, None, f"not evaluated: {settled}")
