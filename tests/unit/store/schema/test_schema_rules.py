"""The table of rules and the values that they state."""

from __future__ import annotations

from decimal import Decimal

import pytest

from sparkhaven.store.schema.document.schema_file import parse_schema
from sparkhaven.store.schema.document.validator_rules import RULE_SPECS, parse_value, split_list
from sparkhaven.store.types.datatypes import data_type

KNOWN = [
    "assertSize",
    "assertExpectedTableSize",
    "assertCountEqual",
    "assertColumnType",
    "assertColumnTypes",
    "assertColumnGrouped",
    "assertAllValuesBetween",
    "assertAllValuesEqual",
    "assertAllValuesNotEqual",
    "assertAllValuesEqualInputValue",
    "assertAllValuesNotEqualInputValue",
    "assertAllValuesInDistinctSet",
    "assertAllValuesNotInDistinctSet",
    "assertAllValuesInArrayInDistinctSet",
    "assertAllValuesInArrayNotInDistinctSet",
    "assertAllValuesInStringSetInDistinctSet",
    "assertAllValuesInStringSetNotInDistinctSet",
    "assertAscending",
    "assertDescending",
    "assertStrictlyAscending",
    "assertStrictlyDescending",
    "assertAvg",
    "assertMin",
    "assertMax",
    "assertInRange",
    "assertPercentile",
    "assertNumberDistinctValues",
    "assertFracNull",
    "assertFracNan",
    "assertFracInf",
    "assertFracZero",
    "assertFracValuesBetween",
    "assertFracWhere",
    "assertEqual",
    "assertNotEqual",
    "assertLess",
    "assertLessEqual",
    "assertGreater",
    "assertGreaterEqual",
    "assertNotNull",
    "assertDigestEqual",
    "assertOffsetsContiguous",
    "assertSymbolsUnique",
    "NonEmptyValidator",
]
GOOD = """
    <assertSize min="0" max="10" modes="FULL_INTRADAY,FULL_DATABASE"/>
    <assertExpectedTableSize partitionsBefore="3" partitionsAfter="0" min="0.5" max="1.5"/>
    <assertCountEqual columns="A,B"/>
    <assertColumnType column="A" type="int"/>
    <assertColumnGrouped column="B"/>
    <assertAllValuesBetween column="A" minValue="-3.5" maxValue="7" removeNull="true"/>
    <assertAllValuesBetween column="B" minValue="a" maxValue="b"/>
    <assertAllValuesBetween column="T" minValue="2013-01-01T00:00:00Z" maxValue="2013-01-01T00:00:00.1Z"/>
    <assertAllValuesInDistinctSet column="B" expectedValues="x, y"/>
    <assertAllValuesInArrayInDistinctSet column="R" expectedValues="1,2"/>
    <assertAscending column="T" groupBy="B"/>
    <assertPercentile column="D" percentile="0.9" min="1" max="2"/>
    <assertNumberDistinctValues columns="A,B" min="1" max="2"/>
    <assertFracNan column="D" min="0" max="0.1"/>
    <assertFracWhere filter="D &gt; 1 AND B IS NOT NULL" min="0" max="0.1"/>
    <assertLess column1="A" column2="D"/>
    <assertDigestEqual/>
    <NonEmptyValidator modes="SIMPLE_TABLE"/>
"""


def test_the_table_of_rules() -> None:
    assert sorted(RULE_SPECS) == sorted(KNOWN)


def test_rules_that_are_well_formed() -> None:
    columns = {"A": "int", "B": "String", "D": "double", "T": "DateTime", "R": "int[]"}
    text = "".join(f'<Column name="{n}" dataType="{t}"/>' for n, t in columns.items())
    date_ = '<Column name="Date" dataType="String" columnType="Partitioning"/>'
    head = '<Table namespace="N" name="T" storageType="NestedPartitionedOnDisk">'
    file = parse_schema(f"{head}{date_}{text}<Validator>{GOOD}</Validator></Table>".encode(), "N.T.schema")
    assert not file.findings
    assert len(file.schema.rules) == 18
    assert file.schema.rules[-3].attributes == {"column1": "A", "column2": "D"}


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("7", "int", 7),
        ("-7", "long", -7),
        ("7.5", "int", Decimal("7.5")),
        ("1e3", "double", 1000.0),
        ("Infinity", "double", float("inf")),
        ("12.340", "BigDecimal", Decimal("12.340")),
        (" a ", "String", " a "),
        ("a", "char", 97),
        ("true", "Boolean", True),
        ("2013-05-01", "LocalDate", "2013-05-01"),
        ("0000-05-01", "LocalDate", "0000-05-01"),
        ("1970-01-01T00:00:01.5Z", "Instant", 1_500_000_000),
    ],
)
def test_values(text: str, kind: str, value: object) -> None:
    assert parse_value(text, data_type(kind)) == value


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("x", "int"),
        ("NaN", "int"),
        ("Infinity", "long"),
        ("nan", "double"),
        ("ab", "char"),
        ("TRUE", "Boolean"),
        ("2013-01-01", "Instant"),
        ("1 May", "LocalDate"),
        ("", "BigDecimal"),
    ],
)
def test_values_that_are_none(text: str, kind: str) -> None:
    with pytest.raises(ValueError):
        parse_value(text, data_type(kind))


def test_lists() -> None:
    assert split_list("EWR, JFK,LGA") == ("EWR", "JFK", "LGA")
