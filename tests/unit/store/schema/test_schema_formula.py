"""Key formulas: the vectors, Java's arithmetic, and what is refused."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

import pyarrow as pa
import pytest

from sparkhaven.store.errors import SchemaMismatchError, SchemaParseError
from sparkhaven.store.expressions.formula.evaluation import Formula, Text, day_of_year, parse_formula, sort_partitions
from sparkhaven.store.schema.document.schema_file import parse_schema
from sparkhaven.store.types.model import TableSchema

COLUMNS = {
    "Sym": "String",
    "Ch": "char",
    "Flag": "boolean",
    "B": "byte",
    "S": "short",
    "I": "int",
    "L": "long",
    "D": "double",
}


def schema(grouping: str = "Sym") -> TableSchema:
    columns = "".join(
        f'<Column name="{n}" dataType="{t}"{" columnType=" + chr(34) + "Grouping" + chr(34) if n == grouping else ""}/>'
        for n, t in COLUMNS.items()
    )
    date = '<Column name="Date" dataType="String" columnType="Partitioning"/>'
    text = f'<Table namespace="Nyc13" name="Flight" storageType="NestedPartitionedOnDisk">{date}{columns}</Table>'
    return parse_schema(text.encode(), "Nyc13.Flight.schema").schema


def run(text: str, n: int = 3, day: str = "2013-01-01", rows: int = 1, **columns: pa.Array) -> list[int]:
    names = [str(i) for i in range(n)]
    found = parse_formula(text, schema()).assign("Nyc13", "Flight", day, columns, names, rows=rows)
    return list(found.tolist())


def java_hash(text: str) -> int:
    return int(Text.of([text]).hash_code()[0])


VECTORS = [
    ("", 0, 1),
    ("a", 97, 2),
    ("UA", 2700, 1),
    ("Nyc13.Flight", 1116333316, 2),
    ("Nyc13.FlightUA", -945504624, 2),
    ("Nyc13.FlightHA", -945505027, 0),
    ("Nyc13.Flightnull", 1903921291, 2),
    ("polygenelubricants", -2147483648, 1),
    ("\U0001f600", 1772899, 2),
]


@pytest.mark.parametrize(("text", "code", "index"), VECTORS)
def test_vectors(text: str, code: int, index: int) -> None:
    assert java_hash(text) == code
    formula = "__WRITABLE_PARTITIONS__[abs(Sym.hashCode() + __DAY_OF_YEAR__) % __NUM_WRITABLE_PARTITIONS__]"
    assert run(formula, Sym=pa.array([text])) == [index]


def test_the_guarded_case() -> None:
    formula = "__WRITABLE_PARTITIONS__[abs(Sym.hashCode() + __DAY_OF_YEAR__) % __NUM_WRITABLE_PARTITIONS__]"
    assert run(formula, day="other", Sym=pa.array(["polygenelubricants"])) == [0]
    assert run("__WRITABLE_PARTITIONS__[Math.abs(-2147483648)]") == [0]


def test_tokens() -> None:
    symbols = pa.array(["UA", "HA", None, "UA"]).dictionary_encode()
    assert run("${autobalance_by_first_grouping_column}", Sym=symbols) == [2, 0, 2, 2]
    for token in ("${autobalance_single}", " __PARTITION_AUTOBALANCE_SINGLE__\n"):
        assert run(token, rows=2) == [2, 2]
        assert parse_formula(token, schema()).columns == ()


def test_by_group_without_a_grouping_column_is_single() -> None:
    formula = parse_formula("${autobalance_by_first_grouping_column}", schema(grouping=""))
    assert formula.ungrouped
    assert formula.assign("Nyc13", "Flight", "2013-01-01", {}, ["0", "1", "2"], rows=1).tolist() == [2]


def test_the_documented_shape_over_lines() -> None:
    text = """__WRITABLE_PARTITIONS__ [ Math . abs(
        (__NS_TN__ + Sym) .hashCode( ) + __DAY_OF_YEAR__ ) % __NUM_WRITABLE_PARTITIONS__ ]"""
    assert run(text, Sym=pa.array(["UA", "HA", None])) == [2, 0, 2]


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("7 / 2", 3),
        ("0 - 7 / 2 + 10", 7),
        ("-7 / 2 + 10", 7),
        ("-7 % 3 + 10", 9),
        ("2147483647 + 1 + 2147483647 + 9", 8),
        ("-2147483648 / -1 + 2147483647 + 8", 7),
        ("-2147483648 % -1", 0),
        ("65536 * 65536 + 5", 5),
        ("2 + 3 * 4 - -1", 15),
        ("+ + 3", 3),
        ("- -3", 3),
        ("(2 + 3) * 4", 20),
        ("abs(-5)", 5),
        ("('x').hashCode()".replace("'", '"'), 120),
        ('(1 + 2 + "").hashCode()', 51),
        ('("" + 1 + 2).hashCode()', 49 * 31 + 50),
        ("(`a` + -1).hashCode() % 100", (97 * 961 + 45 * 31 + 49) % 100),
        (r'"\u0041\n".hashCode()', 65 * 31 + 10),
        ("(__WRITABLE_PARTITIONS__[7] + ``).hashCode()", 55),
    ],
)
def test_arithmetic_is_java(expression: str, value: int) -> None:
    assert run(f"__WRITABLE_PARTITIONS__[{expression}]", n=value + 1 if value < 5000 else 5000) == [value]


def test_columns_join_as_text() -> None:
    columns = {
        "Ch": pa.array([97, None, 0xD83D], pa.uint16()),
        "Flag": pa.array([True, False, None]),
        "B": pa.array([-1, None, 3], pa.int8()),
        "L": pa.array([2**62, None, 0], pa.int64()),
    }
    text = '__WRITABLE_PARTITIONS__[abs(("" + Ch + Flag + B + L).hashCode()) % __NUM_WRITABLE_PARTITIONS__]'
    expected = ["atrue-14611686018427387904", "nullfalsenullnull", "\ud83dnull30"]
    assert run(text, n=1000, **columns) == [abs(java_hash(t)) % 1000 for t in expected]


def test_nulls_in_arithmetic_are_the_null_values() -> None:
    assert run("__WRITABLE_PARTITIONS__[B + 130]", B=pa.array([None], pa.int8())) == [2]
    assert run("__WRITABLE_PARTITIONS__[Ch - 65534]", Ch=pa.array([None], pa.uint16())) == [1]
    assert run("__WRITABLE_PARTITIONS__[Sym.hashCode()]", Sym=pa.array([None], pa.string())) == [0]


def test_the_smallest_long_by_minus_one() -> None:
    null = pa.array([None], pa.int64())
    for operation, expected in (("L / -1", -(2**63)), ("L % -1", 0), ("-L", -(2**63)), ("abs(L)", 0)):
        text = f"__WRITABLE_PARTITIONS__[abs((`` + ({operation})).hashCode()) % __NUM_WRITABLE_PARTITIONS__]"
        assert run(text, n=1000, L=null) == [abs(java_hash(str(expected))) % 1000]


def test_a_long_index_is_refused_and_a_long_operand_is_wide() -> None:
    with pytest.raises(SchemaParseError, match="E121") as caught:
        run("__WRITABLE_PARTITIONS__[L]")
    assert caught.value.found == "the partition array indexed by long at character 24 of the formula"
    text = "__WRITABLE_PARTITIONS__[(L * 4 + ``).hashCode() % 7 + 7]"
    assert run(text, n=14, L=pa.array([2**31])) == [java_hash(str(2**33)) % 7 + 7]


def test_a_name_that_the_formula_gives() -> None:
    assert parse_formula("Sym", schema()).assign(
        "N", "T", "d", {"Sym": pa.array(["b", "10", "9"])}, ["b", "10", "9"]
    ).tolist() == [2, 1, 0]
    with pytest.raises(SchemaParseError, match="E123: key formula names no member") as caught:
        run("Sym", Sym=pa.array(["1", "x"]))
    assert (caught.value.row, caught.value.n, caught.value.found) == (1, 3, "'x'")


def test_an_index_outside() -> None:
    with pytest.raises(SchemaParseError, match="E123: key formula gives an index outside") as caught:
        run("__WRITABLE_PARTITIONS__[I]", I=pa.array([0, 1, 5, 5], pa.int32()))
    assert (caught.value.row, caught.value.found, caught.value.code) == (2, "index 5 of 3", "E123")
    assert caught.value.expected == "one of 3 partitions: 0, 1, 2"


def test_division_by_zero_names_the_row() -> None:
    with pytest.raises(SchemaParseError, match="divides by zero") as caught:
        run("__WRITABLE_PARTITIONS__[1 / I]", I=pa.array([3, 2, 0], pa.int32()))
    assert caught.value.row == 2
    with pytest.raises(SchemaParseError, match="divides by zero"):
        run("__WRITABLE_PARTITIONS__[1 % 0]")


@pytest.mark.parametrize(
    ("text", "code", "found"),
    [
        ("", "E121", "the end at character 1"),
        ("1.5", "E121", "'1' at character 1"),
        ("'a'", "E121", '"\'" at character 1'),
        ("__WRITABLE_PARTITIONS__[0", "E121", "'the end' at character 26"),
        ("__WRITABLE_PARTITIONS__[2147483648]", "E121", "2147483648 at character 25"),
        ("__WRITABLE_PARTITIONS__ + 1", "E121", "the partition array at character 25"),
        ('__WRITABLE_PARTITIONS__ + ""', "E121", "the partition array at character 25"),
        ("Sym - 1", "E121", "text at character 5"),
        ("Sym[0]", "E121", "text indexed by int at character 4"),
        ("__WRITABLE_PARTITIONS__[I.hashCode()]", "E121", "int at character 26"),
        ("__WRITABLE_PARTITIONS__[abs(Sym)]", "E121", "text at character 25"),
        ("__WRITABLE_PARTITIONS__[Math.max(1)]", "E121", "Math.max at character 25"),
        ("Sym.length()", "E121", "'length' at character 5"),
        ("System.exit(1)", "E121", "System at character 1"),
        ("Sym; Sym", "E121", "';' at character 4"),
        ("Sym Sym", "E121", "'Sym' at character 5"),
        (r'"\x"', "E121", r"'\\x' at character 2"),
        ("(" * 60 + "Sym" + ")" * 60, "E121", "a deeper formula at character 52"),
        ("__WRITABLE_PARTITIONS__[" * 60, "E121", "a deeper formula at character 1225"),
        ("${autobalance_single} + Sym", "E121", "it inside another at character 1"),
        ("Date", "E122", "Date, the partitioning column at character 1"),
        ("Sym + D", "E122", "D, of type double at character 7"),
        ("I", "E123", "a result of type int at character 1"),
        ("__WRITABLE_PARTITIONS__", "E123", "a result of type the partition array at character 1"),
    ],
)
def test_refused(text: str, code: str, found: str) -> None:
    with pytest.raises(SchemaParseError, match=code) as caught:
        parse_formula(text, schema())
    assert caught.value.code == code
    assert found in str(caught.value.found)


def test_grouping_by_a_float_is_refused() -> None:
    with pytest.raises(SchemaParseError, match="E122"):
        parse_formula("${autobalance_by_first_grouping_column}", schema(grouping="D"))


def test_order_of_partitions() -> None:
    assert sort_partitions(["b", "10", "9", "a", "09", "B", "1a"]) == ["09", "9", "10", "1a", "B", "a", "b"]


def test_day_of_year() -> None:
    days = {"2013-01-01": 1, "2012-12-31": 366, "2013-03-01-05": 60, "2013-02-30": 0, "today": 0, "20130101": 0}
    assert {text: day_of_year(text) for text in days} == days


def test_missing_inputs() -> None:
    formula: Formula = parse_formula("Sym", schema())
    with pytest.raises(SchemaMismatchError, match="cannot be evaluated") as caught:
        formula.assign("N", "T", "d", {}, ["0"])
    assert caught.value.found == "no column Sym"
    with pytest.raises(SchemaMismatchError) as caught:
        formula.assign("N", "T", "d", {"Sym": pa.array(["0"])}, [])
    assert caught.value.found == "no writable partition"
    assert formula.assign("N", "T", "d", {"Sym": pa.array([], pa.string())}, ["0"]).tolist() == []


CODEC = "io.deephaven.util.codec."
OBJECTS = {  # attributes, values, and what Java gives: text and hash
    "LocalDate": ("", pa.array([date(2024, 2, 29), None]), "2024-02-29", 4145309),
    "LocalTime": (
        "",
        pa.array([48_600_000_000_500, None], pa.int64()).view("time64[ns]"),
        "13:30:00.000000500",
        -1849926201,
    ),
    "BigDecimal": ("18,6", pa.array([Decimal("12.34"), None], pa.decimal128(18, 6)), "12.340000", 382540006),
    "BigInteger": (
        "20",
        pa.array([Decimal(1 - 10**20), None], pa.decimal128(20, 0)),
        "-99999999999999999999",
        -1882487351,
    ),
}


def object_schema(name: str, arguments: str = "") -> TableSchema:
    codec = f'objectCodec="{CODEC}{name}Codec" objectCodecArguments="{arguments}"' if arguments else ""
    text = (
        '<Table namespace="N" name="T" storageType="NestedPartitionedOnDisk">'
        '<Column name="Date" dataType="String" columnType="Partitioning"/>'
        f'<Column name="Key" dataType="{name}" {codec}/></Table>'
    )
    return parse_schema(text.encode(), "N.T.schema").schema


@pytest.mark.parametrize("name", OBJECTS)
def test_dates_times_and_decimals_have_the_hash_and_text_of_java(name: str) -> None:
    arguments, values, text, code = OBJECTS[name]
    names = [str(number) for number in range(1009)]
    for formula, hashes in (
        ("Key.hashCode()", [code, 0]),
        ('("a" + Key).hashCode()', [java_hash(f"a{text}"), java_hash("anull")]),
    ):
        whole = f"__WRITABLE_PARTITIONS__[abs({formula}) % __NUM_WRITABLE_PARTITIONS__]"
        chosen = parse_formula(whole, object_schema(name, arguments)).assign("N", "T", "d", {"Key": values}, names)
        assert chosen.tolist() == [abs(number) % 1009 for number in hashes]


@pytest.mark.parametrize(
    "name",
    ["BigDecimal", "BigInteger", "StringSet", "double[]", "byte[]", "java.util.Map", "Instant", "Instant[]", "x.Y"],
)
def test_columns_that_have_no_key_are_refused_by_name(name: str) -> None:
    with pytest.raises(SchemaParseError, match="E122") as caught:
        parse_formula('__WRITABLE_PARTITIONS__[("" + Key).hashCode() % 2]', object_schema(name))
    assert "Key, of type" in str(caught.value.found) and "LocalDate" in str(caught.value.expected)


def test_an_object_is_no_number() -> None:
    with pytest.raises(SchemaParseError, match="E121") as caught:
        parse_formula("__WRITABLE_PARTITIONS__[Key % 2]", object_schema("LocalDate"))
    assert caught.value.expected == "numbers for %"
