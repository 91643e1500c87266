"""Rules over columns with a codec, on rows where they hold and on rows where they do not, in both formats."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from sparkhaven.store.merges.validations import RuleResult
from sparkhaven.writers.validation.date_validation import RuleChoice, validate_date
from sparkhaven.writers.validation.rows.date_rows import PASS, PassSizes
from tests.support.tables.intraday_rows import IntradayRows
from tests.support.writers.coded_rows import COLUMNS, DAY, SCHEMA, TABLE, coded_table
from tests.support.writers.merge_runs import FS, merge

HOUR = 3_600_000_000_000
ROWS: list[dict[str, Any]] = [
    dict.fromkeys(COLUMNS)
    | {
        "Sym": "A",
        "N": number,
        "Day": date(2024, 1, 1 + number),
        "Far": date(2024, 1, 2),
        "Clock": 9 * HOUR + number,
        "Short": 9 * HOUR,
        "Px": Decimal(number),
        "Wide": Decimal(number) / 2,
        "Free": f"{number}.5" if number else None,
        "Whole": Decimal(number),
        "Huge": str(10**60 + number),
        "Ints": [number, 7, None] if number else [],
        "Doubles": [0.5, float("nan")],
        "Floats": [0.1],
        "Units": [65 + number],
        "Flags": [True],
        "Bytes": bytes([number, 255]),
        "Raw": None if number == 3 else b"x",
        "Texts": ["a", "b"][: 1 + number % 2],
        "Tags": ["x", "y"] if number % 2 else [],
        "Weights": [("a", 1.5)],
    }
    for number in range(6)
]
RULES: list[tuple[str, bool | None, object]] = [
    ('<assertNotNull column="Day"/>', True, 0),
    ('<assertNotNull column="Free"/>', False, 1),
    ('<assertNotNull column="Raw"/>', False, 1),
    ('<assertNotNull column="Tags"/>', True, 0),
    ('<assertNotNull column="Thing"/>', False, 6),
    ('<assertFracNull column="Weights" min="0" max="0"/>', True, 0.0),
    ('<assertCountEqual columns="Day,Ints,Tags"/>', True, "Day 6 values, Ints 6 values, Tags 6 values"),
    ('<assertColumnType column="Px" type="java.math.BigDecimal"/>', True, "BigDecimal"),
    ('<assertColumnType column="Ints" type="long[]"/>', False, "int[]"),
    (
        '<assertAllValuesBetween column="Day" minValue="2024-01-01" maxValue="2024-01-06"/>',
        True,
        "2024-01-01 .. 2024-01-06",
    ),
    ('<assertAllValuesBetween column="Day" minValue="2024-01-02" maxValue="2024-01-06"/>', False, None),
    (
        '<assertAllValuesBetween column="Clock" minValue="09:00" maxValue="09:00:00.000000005"/>',
        True,
        "09:00:00.000000000 .. 09:00:00.000000005",
    ),
    ('<assertAllValuesBetween column="Clock" minValue="0" maxValue="32400000000004"/>', False, None),
    ('<assertAllValuesBetween column="Px" minValue="0" maxValue="4.999"/>', False, "0 .. 5"),
    ('<assertAllValuesBetween column="Free" minValue="1.5" maxValue="5.5" removeNull="true"/>', True, "1.5 .. 5.5"),
    ('<assertAllValuesBetween column="Free" minValue="1.5" maxValue="5.5"/>', False, "1.5 .. 5.5"),
    (f'<assertAllValuesBetween column="Huge" minValue="{10**60}" maxValue="{10**60 + 5}"/>', True, None),
    (f'<assertAllValuesBetween column="Huge" minValue="{10**60 + 1}" maxValue="{10**61}"/>', False, None),
    ('<assertAllValuesEqual column="Far"/>', True, 0),
    ('<assertAllValuesEqual column="Day"/>', False, 5),
    ('<assertAllValuesNotEqual column="Px"/>', True, 0),
    ('<assertAllValuesNotEqual column="Short"/>', False, 5),
    ('<assertAllValuesEqualInputValue column="Far" value="2024-01-02"/>', True, 0),
    ('<assertAllValuesEqualInputValue column="Short" value="09:00:00"/>', True, 0),
    ('<assertAllValuesNotEqualInputValue column="Free" value="3.50"/>', False, 1),
    ('<assertAllValuesInDistinctSet column="Whole" expectedValues="0,1,2,3,4,5"/>', True, "0, 1, 2, 3, 4, 5"),
    ('<assertAllValuesInDistinctSet column="Px" expectedValues="0,1.0,2"/>', False, None),
    ('<assertAllValuesNotInDistinctSet column="Day" expectedValues="2024-01-03,2030-01-01"/>', False, 1),
    ('<assertAscending column="Day"/>', True, 0),
    ('<assertStrictlyAscending column="Far"/>', False, 5),
    ('<assertStrictlyAscending column="Free"/>', True, 0),
    ('<assertStrictlyAscending column="Huge"/>', True, 0),
    ('<assertDescending column="Wide"/>', False, 5),
    ('<assertAscending column="N" groupBy="Ints"/>', True, 0),
    ('<assertAvg column="Px" min="2.5" max="2.5"/>', True, 2.5),
    ('<assertAvg column="Free" min="3.5" max="3.5"/>', True, 3.5),
    ('<assertMin column="Wide" min="0" max="0"/>', True, 0.0),
    ('<assertMax column="Whole" min="0" max="4"/>', False, 5.0),
    ('<assertMax column="Clock" min="0" max="32400000000005"/>', True, 9 * HOUR + 5),
    ('<assertInRange column="Px" min="0" max="5"/>', True, "0 .. 5"),
    ('<assertPercentile column="Px" percentile="0.4" min="2" max="2"/>', True, 2.0),
    ('<assertPercentile column="Clock" percentile="1" min="32400000000005" max="32400000000005"/>', True, None),
    ('<assertNumberDistinctValues columns="Day" min="6" max="6"/>', True, 6),
    ('<assertNumberDistinctValues columns="Far,Short" min="1" max="1"/>', True, 1),
    ('<assertFracWhere filter="Day &gt;= \'2024-01-04\'" min="0.5" max="0.5"/>', True, 0.5),
    ('<assertFracWhere filter="Day = Far" min="0.1" max="0.2"/>', True, None),
    ('<assertFracWhere filter="Clock &lt; \'09:00:00.000000003\'" min="0.5" max="0.5"/>', True, 0.5),
    ('<assertFracWhere filter="Short = \'09:00\'" min="1" max="1"/>', True, 1.0),
    ('<assertFracWhere filter="Clock &gt; Short" min="0.8" max="0.9"/>', True, None),
    ('<assertFracWhere filter="Px &gt;= 2.5" min="0.5" max="0.5"/>', True, 0.5),
    ('<assertFracWhere filter="Px = Whole" min="1" max="1"/>', True, 1.0),
    ('<assertFracWhere filter="Wide = 0.5" min="0" max="0.1"/>', False, None),
    ('<assertFracWhere filter="Free IS NULL" min="0.1" max="0.2"/>', True, None),
    ('<assertFracWhere filter="Ints IS NULL OR Thing IS NULL" min="1" max="1"/>', True, 1.0),
    ('<assertFracWhere filter="Tags IS NULL" min="0" max="0"/>', True, 0.0),
    ('<assertFracZero column="Px" min="0.16" max="0.17"/>', True, None),
    (
        '<assertFracValuesBetween column="Wide" minValue="0.4" maxValue="1" min="0.3" max="0.4"/>',
        True,
        None,
    ),
    ('<assertFracWhere filter="Day &gt;= \'2024-01-03\'" min="0.66" max="0.67"/>', True, None),
    ('<assertFracWhere filter="Day = Far" min="0.16" max="0.17"/>', True, None),
    ('<assertFracWhere filter="Far &lt; \'2024-01-02\'" min="0.5" max="1"/>', False, 0.0),
    ('<assertFracWhere filter="Px &gt; 2.5 AND Whole &lt; 5" min="0.33" max="0.34"/>', True, None),
    ('<assertFracWhere filter="Wide &lt;= 0.5" min="0.33" max="0.34"/>', True, None),
    ('<assertFracWhere filter="Free IS NULL" min="0.16" max="0.17"/>', True, None),
    ('<assertFracWhere filter="Clock &gt; \'09:00:00.000000003\'" min="0.33" max="0.34"/>', True, None),
    ('<assertFracWhere filter="Short = \'09:00\'" min="1" max="1"/>', True, 1.0),
    ('<assertEqual column1="Px" column2="Whole"/>', True, 0),
    ('<assertEqual column1="Px" column2="N"/>', True, 0),
    ('<assertLess column1="Day" column2="Far"/>', False, 5),
    ('<assertLessEqual column1="Short" column2="Clock"/>', True, 0),
    ('<assertLess column1="Px" column2="Free" removeNull="true"/>', True, 0),
    ('<assertLess column1="Px" column2="Free"/>', False, 1),
    ('<assertEqual column1="Day" column2="Px"/>', None, None),
    ('<assertColumnGrouped column="Far"/>', True, 0),
    ('<assertAllValuesInArrayInDistinctSet column="Ints" expectedValues="1,2,3,4,5,7"/>', False, None),
    (
        '<assertAllValuesInArrayInDistinctSet column="Ints" expectedValues="1,2,3,4,5,7" removeNull="true"/>',
        True,
        "1, 2, 3, 4, 5, 7",
    ),
    ('<assertAllValuesInArrayInDistinctSet column="Ints" expectedValues="1,7" removeNull="true"/>', False, None),
    ('<assertAllValuesInArrayNotInDistinctSet column="Ints" expectedValues="5,6"/>', False, 1),
    ('<assertAllValuesInArrayNotInDistinctSet column="Ints" expectedValues="6,99999999999"/>', True, 0),
    ('<assertAllValuesInArrayInDistinctSet column="Doubles" expectedValues="0.5" removeNaN="true"/>', True, "0.5"),
    ('<assertAllValuesInArrayInDistinctSet column="Doubles" expectedValues="0.5"/>', False, "0.5"),
    ('<assertAllValuesInArrayInDistinctSet column="Floats" expectedValues="0.1"/>', True, None),
    ('<assertAllValuesInArrayInDistinctSet column="Units" expectedValues="A,B,C,D,E,F"/>', True, None),
    ('<assertAllValuesInArrayInDistinctSet column="Flags" expectedValues="true"/>', True, "True"),
    ('<assertAllValuesInArrayInDistinctSet column="Bytes" expectedValues="-1,0,1,2,3,4,5"/>', True, None),
    ('<assertAllValuesInArrayNotInDistinctSet column="Raw" expectedValues="121"/>', True, 0),
    ('<assertAllValuesInArrayInDistinctSet column="Raw" expectedValues="120"/>', False, "120"),
    ('<assertAllValuesInArrayInDistinctSet column="Texts" expectedValues="a,b"/>', True, "'a', 'b'"),
    ('<assertAllValuesInArrayNotInDistinctSet column="Texts" expectedValues="b"/>', False, 3),
    ('<assertAllValuesInStringSetInDistinctSet column="Tags" expectedValues="x,y,z"/>', True, "'x', 'y'"),
    ('<assertAllValuesInStringSetInDistinctSet column="Tags" expectedValues="x"/>', False, None),
    ('<assertAllValuesInStringSetNotInDistinctSet column="Tags" expectedValues="y"/>', False, 3),
    ('<assertAllValuesInStringSetNotInDistinctSet column="Tags" expectedValues="z"/>', True, 0),
]


def results(root: Path, format_: str, sizes: PassSizes = PASS) -> list[RuleResult]:
    text = "".join(rule for rule, *_ in RULES)
    xml = SCHEMA.replace(b"</Table>", f"<Validator>{text}</Validator></Table>".encode())
    db = IntradayRows(root, xml, fs=FS)
    db.commit({("a", DAY): coded_table(db.schema, ROWS[:2]), ("b", DAY): coded_table(db.schema, ROWS[2:])})
    merge(db.layout, table=TABLE, format=format_)
    return list(validate_date(db.place, DAY, choice=RuleChoice(sizes=sizes)).results[-len(RULES) :])


@pytest.mark.parametrize("format_", ["deephaven", "parquet"])
@pytest.mark.parametrize("sizes", [PASS, PassSizes(rows=2, hashes=2, groups=1)], ids=["whole", "blocks"])
def test_rules(tmp_path: Path, format_: str, sizes: PassSizes) -> None:
    wrong = []
    for (rule, passes, measured), result in zip(RULES, results(tmp_path, format_, sizes), strict=True):
        limited = sizes is not PASS and "assertPercentile" in rule and '"Px"' in rule
        if limited:
            assert result.passed is None and "more than 2 distinct decimals" in result.message
        elif result.passed is not passes or (measured is not None and result.measured != measured):
            wrong.append(f"{rule}: {result.passed}, {result.measured!r}: {result.message}")
    assert wrong == []


def test_messages(tmp_path: Path) -> None:
    messages = {rule: result.message for (rule, *_), result in zip(RULES, results(tmp_path, "deephaven"), strict=True)}
    chosen = {rule: message for rule, message in messages.items() if "InArrayIn" in rule or '"Px" minValue' in rule}
    assert list(chosen.values())[:4] == [
        "values run from 0 to 5",
        "5 elements are null",
        "6 distinct elements, all expected",
        "4 rows with 2, 3, 4, 5",
    ]
    array = '<assertAllValuesInArrayInDistinctSet column="Raw" expectedValues="120"/>'
    assert messages[array] == "1 row is null"
    different = '<assertEqual column1="Day" column2="Px"/>'
    assert messages[different] == "not evaluated: the two columns cannot be compared: LocalDate and BigDecimal"
