"""Every rule of a schema on rows where it holds and on rows where it does not; those that cannot be evaluated fail."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from sparkhaven.store.errors import ValidationFailedError
from sparkhaven.store.merges.validations import RuleResult
from sparkhaven.store.schema.document.schema_file import parse_schema
from sparkhaven.store.schema.document.validator_rules import RULE_SPECS
from sparkhaven.writers.validation.date_validation import RULES, DateRows, RuleRuns, validate_date
from sparkhaven.writers.validation.rows.date_rows import PassSizes, RowSet
from sparkhaven.writers.validation.rules.rule_scope import Surroundings
from tests.support.commands import run
from tests.support.writers.merge_cases import DAY, SCHEMA, TABLE, as_table
from tests.support.writers.merge_runs import FS, merge
from tests.support.writers.plain_rows import plain_rows
from tests.support.writers.removals import empty
from tests.support.writers.validated_dates import validated

# Rows 0 to 19: I and D count up, Sym is a b a b, Venue X Y Z, Note n0 to n3, Flag true. Merged, the rows of a come
# before those of b, each in this order. L and S are set here.
CASES: list[tuple[str, dict[str, Any], bool | None, object]] = [
    ('<assertNotNull column="I"/>', {}, True, 0),
    ('<assertNotNull column="I"/>', {"I": None}, False, 1),
    ('<assertNotNull column="Sym"/>', {"Sym": None}, False, 1),
    ('<assertNotNull column="Note"/>', {"Note": None}, False, 1),
    ('<assertNotNull column="Date"/>', {}, True, 0),
    ('<assertCountEqual columns="I,D,Sym"/>', {}, True, None),
    ('<assertCountEqual columns="I,D,Sym"/>', {"D": None}, False, "I 20 values, D 19 values, Sym 20 values"),
    ('<assertColumnType column="I" type="java.lang.Integer"/>', {}, True, "int"),
    ('<assertColumnType column="I" type="long"/>', {}, False, "int"),
    ('<assertColumnTypes columns="I,T,Date" types="int,DateTime,String"/>', {}, True, "int, Instant, String"),
    ('<assertColumnTypes columns="I,T" types="int,String"/>', {}, False, None),
    ('<assertColumnTypes columns="I,T" types="int"/>', {}, None, None),
    ('<assertAllValuesEqual column="Flag"/>', {}, True, 0),
    ('<assertAllValuesEqual column="Flag"/>', {"Flag": False}, False, None),
    ('<assertAllValuesEqual column="Flag"/>', {"Flag": None}, False, None),
    ('<assertAllValuesEqual column="Flag" removeNull="true"/>', {"Flag": None}, True, 0),
    ('<assertAllValuesEqual column="Date"/>', {}, True, 0),
    ('<assertAllValuesNotEqual column="I"/>', {}, True, 0),
    ('<assertAllValuesNotEqual column="I"/>', {"I": 7}, False, 1),
    ('<assertAllValuesNotEqual column="Note"/>', {}, False, 16),
    ('<assertAllValuesEqualInputValue column="Flag" value="true"/>', {}, True, 0),
    ('<assertAllValuesEqualInputValue column="Flag" value="true"/>', {"Flag": None}, False, 1),
    ('<assertAllValuesEqualInputValue column="Note" value="n0"/>', {}, False, 15),
    ('<assertAllValuesNotEqualInputValue column="I" value="20"/>', {}, True, 0),
    ('<assertAllValuesNotEqualInputValue column="I" value="1.5"/>', {}, True, 0),
    ('<assertAllValuesNotEqualInputValue column="I" value="99999999999"/>', {}, True, 0),
    ('<assertAllValuesNotEqualInputValue column="I" value="7"/>', {}, False, 1),
    ('<assertAllValuesNotInDistinctSet column="Venue" expectedValues="A,B"/>', {}, True, 0),
    ('<assertAllValuesNotInDistinctSet column="Venue" expectedValues="A,Z"/>', {}, False, 6),
    ('<assertAllValuesNotInDistinctSet column="D" expectedValues="-1,5"/>', {}, False, 1),
    ('<assertAscending column="I"/>', {}, False, 1),
    ('<assertAscending column="I" groupBy="Sym"/>', {}, True, 0),
    ('<assertAscending column="I" groupBy="Sym"/>', {"I": 5}, False, 1),
    ('<assertAscending column="I" groupBy="Sym"/>', {"I": None}, True, 0),
    ('<assertStrictlyAscending column="I" groupBy="Sym"/>', {}, True, 0),
    ('<assertStrictlyAscending column="I" groupBy="Sym"/>', {"I": 2}, False, 1),
    ('<assertAscending column="I" groupBy="Sym"/>', {"I": 2}, True, 0),
    ('<assertDescending column="I" groupBy="Sym"/>', {}, False, 18),
    ('<assertDescending column="I" groupBy="I"/>', {}, True, 0),
    ('<assertStrictlyDescending column="Date"/>', {}, False, 19),
    ('<assertAscending column="Sym"/>', {}, True, 0),
    ('<assertStrictlyAscending column="Sym"/>', {}, False, 18),
    ('<assertAscending column="Note"/>', {}, False, None),
    ('<assertAscending column="Note" groupBy="Note"/>', {}, True, 0),
    ('<assertDescending column="Date"/>', {}, True, 0),
    ('<assertAscending column="D" groupBy="Sym"/>', {"D": math.nan}, False, 1),
    ('<assertAscending column="D" groupBy="Sym" removeNaN="true"/>', {"D": math.nan}, True, 0),
    ('<assertAscending column="D" groupBy="Sym"/>', {"D": -0.0}, True, 0),
    ('<assertAvg column="I" min="9.5" max="9.5"/>', {}, True, 9.5),
    ('<assertAvg column="I" min="9.6" max="10"/>', {}, False, 9.5),
    ('<assertAvg column="I" min="10" max="10"/>', {"I": None}, True, 10.0),
    ('<assertAvg column="D" min="0" max="19"/>', {"D": math.nan}, False, None),
    ('<assertAvg column="D" min="0" max="19" removeNaN="true"/>', {"D": math.nan}, True, 10.0),
    ('<assertAvg column="D" min="0" max="19"/>', {"D": math.inf}, False, math.inf),
    ('<assertMin column="I" min="0" max="0"/>', {}, True, 0),
    ('<assertMin column="I" min="0" max="0"/>', {"I": -1}, False, -1),
    ('<assertMax column="D" min="19" max="19"/>', {}, True, 19.0),
    ('<assertMax column="D" min="19" max="20"/>', {"D": 21.0}, False, 21.0),
    ('<assertMax column="D" min="19" max="20" removeInf="true"/>', {"D": math.inf}, True, 19.0),
    ('<assertInRange column="I" min="0" max="19"/>', {}, True, "0 .. 19"),
    ('<assertInRange column="I" min="1" max="19"/>', {}, False, "0 .. 19"),
    ('<assertInRange column="I" min="1" max="19"/>', {"I": None}, True, "1 .. 19"),
    ('<assertPercentile column="I" percentile="0.5" min="10" max="10"/>', {}, True, 10),
    ('<assertPercentile column="D" percentile="0" min="0" max="0"/>', {}, True, 0.0),
    ('<assertPercentile column="D" percentile="1" min="19" max="19"/>', {}, True, 19.0),
    ('<assertPercentile column="D" percentile="0.25" min="5" max="5"/>', {}, True, 5.0),
    ('<assertPercentile column="L" percentile="0.9" min="0" max="1"/>', {"L": -(2**60)}, True, 1),
    ('<assertPercentile column="I" percentile="95" min="0" max="20"/>', {}, None, None),
    ('<assertNumberDistinctValues columns="Venue" min="3" max="3"/>', {}, True, 3),
    ('<assertNumberDistinctValues columns="Venue,Sym" min="6" max="6"/>', {}, True, 6),
    ('<assertNumberDistinctValues columns="Venue" min="3" max="3"/>', {"Venue": None}, False, 4),
    ('<assertNumberDistinctValues columns="Venue" min="3" max="3" removeNull="true"/>', {"Venue": None}, True, 3),
    ('<assertFracNan column="D" min="0" max="0"/>', {"D": math.nan}, False, 0.05),
    ('<assertFracInf column="D" min="0.05" max="0.05"/>', {"D": -math.inf}, True, 0.05),
    ('<assertFracZero column="I" min="0.05" max="0.05"/>', {}, True, 0.05),
    ('<assertFracZero column="I" min="0.05" max="0.05"/>', {"I": None}, False, 0.0),
    ('<assertFracZero column="D" min="0.05" max="0.05"/>', {"D": -0.0}, True, 0.05),
    ('<assertFracValuesBetween column="I" minValue="0" maxValue="9" min="0.5" max="0.5"/>', {}, True, 0.5),
    ('<assertFracValuesBetween column="I" minValue="0.5" maxValue="9.5" min="0.45" max="0.45"/>', {}, True, 0.45),
    ('<assertFracValuesBetween column="Note" minValue="n0" maxValue="n1" min="0.5" max="0.5"/>', {}, True, 0.5),
    ('<assertFracValuesBetween column="D" minValue="0" maxValue="9" min="0.5" max="0.5"/>', {"D": None}, False, 0.45),
    ('<assertFracWhere filter="I &gt; D" min="0" max="0"/>', {}, True, 0.0),
    ('<assertFracWhere filter="I &gt;= 10 AND Sym = \'a\'" min="0.25" max="0.25"/>', {}, True, 0.25),
    ('<assertFracWhere filter="Note = \'n1\'" min="0.1" max="0.2"/>', {}, False, 0.25),
    ('<assertFracWhere filter="I &lt; 1" min="0" max="0"/>', {"I": None}, True, 0.0),
    ('<assertFracWhere filter="true" min="1" max="1"/>', {}, True, 1.0),
    ('<assertEqual column1="I" column2="D"/>', {}, True, 0),
    ('<assertEqual column1="I" column2="D"/>', {"I": None, "D": None}, True, 0),
    ('<assertEqual column1="I" column2="D"/>', {"D": None}, False, 1),
    ('<assertEqual column1="I" column2="D" removeNull="true"/>', {"D": None}, True, 0),
    ('<assertNotEqual column1="Sym" column2="Venue"/>', {}, True, 0),
    ('<assertNotEqual column1="Sym" column2="Venue"/>', {"Sym": "X"}, False, 1),
    ('<assertNotEqual column1="Sym" column2="Venue"/>', {"Sym": None}, True, 0),
    ('<assertLess column1="I" column2="D"/>', {}, False, 20),
    ('<assertLessEqual column1="I" column2="D"/>', {}, True, 0),
    ('<assertLessEqual column1="I" column2="D"/>', {"D": math.nan}, True, 0),
    ('<assertGreater column1="D" column2="I"/>', {"D": math.nan}, False, 19),
    ('<assertGreaterEqual column1="D" column2="I"/>', {"D": -1.0}, False, 1),
    ('<assertLess column1="I" column2="Sym"/>', {}, None, None),
    ("<assertSymbolsUnique/>", {}, True, 0),
    ("<assertDigestEqual/>", {}, True, None),
    ("<NonEmptyValidator/>", {}, True, 20),
    ("<assertOffsetsContiguous/>", {}, True, 0),
    ('<assertExpectedTableSize partitionsBefore="1" partitionsAfter="1" min="0.5" max="2"/>', {}, True, None),
    ('<assertExpectedTableSize partitionsBefore="0" partitionsAfter="0" min="0.5" max="2"/>', {}, None, None),
]


def changed(change: dict[str, Any]) -> list[dict[str, Any]]:
    rows = [row | {"L": 1, "S": 1} for row in plain_rows()]
    rows[0] |= change
    return rows


def check(found: RuleResult, rule: str, passes: bool | None, measured: object) -> None:
    assert found.rule in rule
    assert found.passed is passes, found.message
    if measured is not None:
        assert found.measured == measured, found.message
    if passes is None:
        assert found.message.startswith("not evaluated: ")


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> dict[int, RuleResult]:
    """All cases of the same change of the first row are rules of one table: a merge each would take minutes."""
    found: dict[int, RuleResult] = {}
    changes: dict[str, list[int]] = {}
    for place, (_, change, *_) in enumerate(CASES):
        changes.setdefault(repr(change), []).append(place)
    for places in changes.values():
        root = tmp_path_factory.mktemp("many")
        _, done = validated(root, "".join(CASES[p][0] for p in places), changed(CASES[places[0]][1]))
        found |= dict(zip(places, done.results[-len(places) :], strict=True))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("place", range(len(CASES)), ids=str)
def test_a_rule(many: dict[int, RuleResult], place: int) -> None:
    rule, _, passes, measured = CASES[place]
    check(many[place], rule, passes, measured)


def test_a_date_without_rows_is_empty(tmp_path: Path) -> None:
    db, _ = validated(tmp_path, "<NonEmptyValidator/>", plain_rows())
    assert run(tmp_path, "delete-rows", str(TABLE), "--where", "true").exit_code == 0
    (found,) = (r for r in validate_date(db.place, DAY).results if r.rule == "NonEmptyValidator")
    assert (found.passed, found.measured, found.lower) == (False, 0, 1)


def test_every_rule_that_a_schema_may_have_is_evaluated_or_says_why_not() -> None:
    assert set(RULES) == set(RULE_SPECS)
    tried = {name for name in RULE_SPECS if any(f"<{name} " in rule or f"<{name}/" in rule for rule, *_ in CASES)}
    elsewhere = {"assertSize", "assertFracNull", "assertAllValuesBetween", "assertAllValuesInDistinctSet"}
    of_elements = {name for name in RULE_SPECS if "InArray" in name or "InStringSet" in name}  # in test_coded_rules
    assert set(RULE_SPECS) == tried | elsewhere | of_elements | {"assertColumnGrouped"}


@pytest.mark.slow
@pytest.mark.parametrize("place", range(0, len(CASES), 3))
def test_small_blocks_and_passes_change_nothing(tmp_path: Path, place: int, many: dict[int, RuleResult]) -> None:
    rule, change, passes, measured = CASES[place]
    _, found = validated(tmp_path, rule, changed(change), PassSizes(rows=3, hashes=2, groups=1))
    check(found.results[-1], rule, passes, measured)
    if measured is not None and "first of them" not in found.results[-1].message:
        assert found.results[-1].message == many[place].message


# --- modes, neighbours, and what is not evaluated -------------------------------------------------------------------


def test_a_rule_that_is_not_evaluated_fails_unless_that_is_allowed(tmp_path: Path) -> None:
    rule = '<assertPercentile column="I" percentile="95" min="0" max="20"/>'
    db, found = validated(tmp_path, rule, changed({}))
    assert not found.passed
    with pytest.raises(ValidationFailedError, match="1 of 16 rules were not evaluated") as caught:
        found.require()
    assert "--allow-unevaluated" in str(caught.value)
    assert "not from 0 to 1" in str(caught.value.found)
    tolerant = validate_date(db.place, DAY, tolerant=True)
    assert tolerant.passed
    assert len(tolerant.unevaluated) == 1


def test_modes_choose_the_rows(tmp_path: Path) -> None:
    rules_ = (
        '<assertSize min="20" max="20" modes="FULL_INTRADAY,FULL_DATABASE,SIMPLE_TABLE"/>'
        '<assertAscending column="I" modes="FULL_INTRADAY"/><assertAscending column="I"/>'
        '<assertSize min="21" max="30" modes="SIMPLE_TABLE"/>'
    )
    db, found = validated(tmp_path, rules_, changed({}))
    reported = [(r.rule, r.mode, r.passed) for r in found.results[-6:]]
    assert reported == [
        ("assertSize", "FULL_INTRADAY", True),
        ("assertSize", "FULL_DATABASE", True),
        ("assertSize", "SIMPLE_TABLE", True),
        ("assertAscending", "FULL_INTRADAY", True),
        ("assertAscending", "FULL_DATABASE", False),
        ("assertSize", "SIMPLE_TABLE", False),
    ]
    assert "internal partition 0: 20 rows" in found.results[-1].message
    assert db.log.state.epoch == found.epochs["rows"] == 1


def test_intraday_rules_keep_their_result_when_intraday_is_removed(tmp_path: Path) -> None:
    rule = '<assertAscending column="I" modes="FULL_INTRADAY"/>'
    db, found = validated(tmp_path, rule, changed({}))
    assert found.passed
    empty(db)  # validates and stores on its way
    again = validate_date(db.place, DAY)
    assert again.results[-1] == found.results[-1]
    path = next(db.layout.merges(TABLE).rglob("*.validation"))
    path.unlink()
    lost = validate_date(db.place, DAY)
    assert lost.results[-1].passed is None
    assert "intraday rows were removed" in lost.results[-1].message
    assert not lost.passed


def test_the_expected_size_comes_from_the_neighbours(tmp_path: Path) -> None:
    rule = '<assertExpectedTableSize partitionsBefore="2" partitionsAfter="1" min="0.5" max="2"/>'
    db, _ = validated(tmp_path, rule, changed({}))
    rows = changed({})
    for day, number in (("2024-03-01", 1), ("2024-03-03", 8), ("2024-03-04", 10), ("2024-03-06", 12)):
        db.commit({("a", day): as_table(rows[:number])})
        merge(db.layout, day)
    found = validate_date(db.place, DAY).results[-1]
    assert (found.passed, found.measured) == (True, 2.0)
    assert found.message == "20 rows, 10 is the mean of 3 neighbouring dates"
    small = validate_date(db.place, "2024-03-01").results[-1]
    assert (small.passed, small.measured) == (False, 0.125)


@pytest.mark.parametrize(("before", "after"), [(3, 0), (0, 3)])
def test_the_first_date_has_no_history_to_compare_with(tmp_path: Path, before: int, after: int) -> None:
    rule = f'<assertExpectedTableSize partitionsBefore="{before}" partitionsAfter="{after}" min="0.5" max="2"/>'
    db, first = validated(tmp_path, rule, changed({}))
    assert first.passed and first.unevaluated == ()
    found = first.results[-1]
    assert (found.passed, found.measured, found.lower, found.upper) == (True, None, 0.5, 2)
    assert found.message == "20 rows, no history to compare with: no neighbouring date is merged"
    day = "2024-03-06" if before else "2024-03-04"
    db.commit({("a", day): as_table(changed({})[:1])})
    merge(db.layout, day)
    small = validate_date(db.place, day)
    assert (small.passed, small.results[-1].measured) == (False, 0.05), "from the second date on it counts"


def test_rows_without_any() -> None:
    text = "".join(rule for rule, *_ in CASES)
    xml = SCHEMA.replace(b"</Table>", f"<Validator>{text}</Validator></Table>".encode())
    schema = parse_schema(xml, "Test.Every.schema").schema
    rows = RowSet(FS, schema, DAY, ())
    around = Surroundings(lambda before, after: [5], lambda: 0, lambda: True)
    for rule in schema.rules:
        (found,), _ = RuleRuns(DateRows(rows, rows, around)).results([rule])
        statistic = ("assertAvg", "assertMin", "assertMax", "assertInRange", "assertPercentile")
        if rule.name in statistic:
            assert not found.passed
        elif rule.name.startswith("assertFrac"):
            assert found.measured == 0.0
        elif "scending" in rule.name or rule.name in ("assertLess", "assertGreater", "assertEqual"):
            assert found.passed or found.passed is None
