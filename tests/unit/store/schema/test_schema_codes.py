"""One schema for each code: the finding, its place, and what it says."""

from __future__ import annotations

import pytest

from sparkhaven.store.errors import SchemaParseError
from sparkhaven.store.schema.document.schema_file import parse_schema
from sparkhaven.store.schema.findings import VIOLATIONS, FindingList, SchemaFinding

NAME = "Ns.Tab.schema"
HEAD = '<Table namespace="Ns" name="Tab" storageType="NestedPartitionedOnDisk">'
DATE = '<Column name="Date" dataType="String" columnType="Partitioning"/>'


def table(*lines: str, head: str = HEAD, date: str = DATE) -> str:
    """A schema with one element a line: the first of ``lines`` is line 3."""
    return "\n".join([head, date, *lines, "</Table>"])


def findings(text: str | bytes, name: str = NAME) -> FindingList:
    data = text.encode() if isinstance(text, str) else text
    try:
        return FindingList(parse_schema(data, name).findings)
    except SchemaParseError as error:
        found: FindingList = error.findings
        return found


def validator(rule: str) -> str:
    return table(
        '<Column name="Sym" dataType="String"/>',
        '<Column name="Px" dataType="double"/>',
        '<Column name="Qty" dataType="int"/>',
        '<Column name="Px5" dataType="StringSet"/>',
        f"<Validator>\n{rule}</Validator>",
    )


SYM, PX = '<Column name="Sym" dataType="String"/>', '<Column name="Px" dataType="double"/>'
END = "</ImportSource>"
GROUPED = '<Column name="Sym" dataType="String" columnType="Grouping"/>'
# code, document, line, column, element, part of expected, part of found, part of hint
CASES: list[tuple[str, str, int, int, str, str, str, str]] = [
    ("E101", f"{HEAD}\n</Tabel>", 2, 3, "document", "well-formed XML", "mismatched tag", "correct the XML"),
    ("E101", f"<!DOCTYPE Table>\n{table()}", 1, 1, "document", "without DOCTYPE", "DOCTYPE", "remove it"),
    ("E101", f"{HEAD}&x;</Table>", 1, 72, "document", "well-formed XML", "undefined entity", "correct the XML"),
    ("E101", "", 1, 1, "document", "well-formed XML", "no element found", "correct the XML"),
    ("E101", HEAD + " " * (1 << 20) + "</Table>", 1, 1, "document", "at most 1048576 bytes", "bytes", "not a schema"),
    ("E102", "<table/>", 1, 1, "table", "Table or CopyTable", "table", "write Table"),
    ("E103", table(head='<Table name="Tab" storageType="NestedPartitionedOnDisk">'),
     1, 1, 'Table "Tab"', "namespace", "no namespace", "state"),
    ("E103", table(head=HEAD.replace('"Ns"', '"N s"')), 1, 1, 'Table "Tab"', "a letter or _", "'N s'", "state"),
    ("E103", table(head=HEAD.replace("namespace=", "nameSpace=")),
     1, 1, 'Table "Tab"', "namespace", "no namespace", "Write namespace, not nameSpace"),
    ("E105", table(head=HEAD.replace("NestedP", "nestedP")),
     1, 1, 'Table "Tab"', "NestedPartitionedOnDisk, Splayed", "nestedPartitioned", "write NestedPartitionedOnDisk"),
    ("E105", table(head=HEAD.replace(">", ' defaultMergeFormat="Orc">')),
     1, 1, 'Table "Tab"', "DeephavenV1, Parquet", "Orc", "choose"),
    ("E105", table('<Column name="A" dataType="int" columnType="grouping"/>'),
     3, 1, 'Column "A"', "Normal, Partitioning, Grouping", "grouping", "write Grouping"),
    ("E105", table('<Column name="A" dataType="String" symbolTable="none"/>'),
     3, 1, 'Column "A"', "None, ColumnLocation", "none", "write None"),
    ("E105", table('<Column name="A" dataType="String" symbolTable="None" encoding="UTF-8"/>'),
     3, 1, 'Column "A"', "UTF_8", "UTF-8", "did you mean UTF_8?"),
    ("E105", table('<MergeAttributes format="Parquet" codec="LZO"/>'),
     3, 1, "MergeAttributes", "SNAPPY", "LZO", "choose"),
    ("W106", table('  <Colum name="A" dataType="int"/>'),
     3, 3, 'Colum "A"', "Column", "element Colum in Table", "did you mean Column?"),
    ("W106", table('<Column name="A" dataType="int" colour="red"/>'),
     3, 1, 'Column "A"', "dataType", "attribute colour", "it has no effect"),
    ("W106", table('<Column name="A" dataType="int" columntype="Grouping"/>'),
     3, 1, 'Column "A"', "dataType", "attribute columntype", "write columnType"),
    ("W107", table(head='<Table namespace="Ns" name="Tab">'),
     1, 1, 'Table "Tab"', "NestedPartitionedOnDisk", "no storageType", "state it"),
    ("E108", '<CopyTable namespace="Ns" name="Tab" sourceNamespace="A" sourceName="B"/>',
     1, 1, 'CopyTable "Tab"', "A.B.schema", "no such file", "beside"),
    ("E108", '<CopyTable namespace="Ns" name="Tab"/>',
     1, 1, 'CopyTable "Tab"', "sourceNamespace and sourceName", "''", "state both"),
    ("E111", table('<Column dataType="int"/>'), 3, 1, "Column", "dataType, and a name", "no name", "state both"),
    ("E111", table('<Column name="A"/>'), 3, 1, 'Column "A"', "dataType, and", "no dataType", "state both"),
    ("E111", table('<Column name="A" datatype="int"/>'),
     3, 1, 'Column "A"', "dataType, and", "no dataType", "Write dataType, not datatype"),
    ("E111", table('<Column name="A B" dataType="int"/>'),
     3, 1, 'Column "A B"', "a letter or _", "'A B'", "state both"),
    ("E112", table(PX, f"  {PX}"), 4, 3, 'Column "Px"', "a name of its own", "Px, also in line 3", "rename"),
    ("E112", table(PX, '<Column name="PX" dataType="double"/>'),
     4, 1, 'Column "PX"', "differ by more than case", "PX beside Px (line 3)", 'OtherName = { from = "PX" }'),
    ("E112", table('<Column name="date" dataType="String"/>'),
     3, 1, 'Column "date"', "differ by more than case", "date beside Date (line 2)", "[columns]"),
    ("W109", '<Table namespace="Ns" name="Tab" storageType="SplayedOnDisk">\n' + PX + "</Table>",
     1, 1, 'Table "Tab"', "NestedPartitionedOnDisk", "SplayedOnDisk", "refuse the table"),
    ("W113", table('<ExtendedStorage type="parquet:kv"/>', DATE.replace("Date", "Hour")),
     4, 1, 'Column "Hour"', "one", "Date, Hour", "would be lost"),
    ("W155", table(SYM, '<DataIndex columns="Sym,Date"/>'),
     4, 1, "DataIndex", "dates, times of the day, and decimals with a precision", "Sym, Date", "no effect"),
    ("E113", table(date=PX), 1, 1, 'Table "Tab"', "one column with columnType Partitioning", "none", 'name="Date"'),
    ("E113", table(DATE.replace("Date", "Day")),
     3, 1, 'Column "Day"', "one column", "Date, Day", "make the others Normal"),
    ("E113", table(head=HEAD.replace("NestedPartitioned", "Splayed")),
     2, 1, 'Column "Date"', "no Partitioning column", "Date", "make the others Normal"),
    ("E114", table(date=DATE.replace("String", "LocalDate")),
     2, 1, 'Column "Date"', 'dataType="String"', "LocalDate", "names of directories"),
    ("E115", table('<Column name="A" dataType="double[]" columnType="Grouping"/>'),
     3, 1, 'Column "A"', "String, Instant", "double[]", "make this one Normal"),
    ("E115", table('<Column name="A" dataType="StringSet" columnType="Grouping"/>'),
     3, 1, 'Column "A"', "String, Instant", "StringSet", "Normal"),
    ("E115", table('<Column name="A" dataType="java.util.UUID" columnType="Grouping"/>'),
     3, 1, 'Column "A"', "String, Instant", "java.util.UUID", "Normal"),
    ("W116", table('<Column name="A" dataType="String" encoding="UTF_16"/>'),
     3, 1, 'Column "A"', 'symbolTable="None"', "with a symbol table", "written in this charset"),
    ("W116", table('<Column name="A" dataType="int" encoding="UTF_8"/>'),
     3, 1, 'Column "A"', 'dataType="String"', "type int", "no effect"),
    ("E117", table('<Column name="A" dataType="int" objectCodec="x.Y"/>'),
     3, 1, 'Column "A"', "no codec", "objectCodec on int", "remove"),
    ("E117", table('<Column name="A" dataType="BigDecimal" objectCodec="BigDecimalCodec" objectCodecArguments="1;6"/>'),
     3, 1, 'Column "A"', "precision,scale", '"1;6"', 'codec.BigDecimalCodec"'),
    ("E117", table('<Column name="A" dataType="BigDecimal" objectCodec="x.LocalDateCodec"/>'),
     3, 1, 'Column "A"', "BigDecimalCodec with", "LocalDateCodec", 'codec.BigDecimalCodec"'),
    ("E117", table('<Column name="A" dataType="x.Y" objectCodec="x.Z" objectWidth="0"/>'),
     3, 1, 'Column "A"', "at least 1", '"0"', "leave it out"),
    ("E117", table('<Column name="A" dataType="LocalDate" objectCodec="x.LocalDateCodec" objectWidth="4"/>'),
     3, 1, 'Column "A"', "objectWidth 5", "4", "leave objectWidth out"),
    ("E117", table('<Column name="A" dataType="x.Y" objectCodecArguments="1"/>'),
     3, 1, 'Column "A"', "objectCodec beside", "no objectCodec", "name the codec"),
    ("W118", table('<Column name="A" dataType="java.util.UUID"/>'),
     3, 1, 'Column "A"', "Boolean, byte", "java.util.UUID", "handed out as bytes"),
    ("W118", table('<Column name="A" dataType="string"/>'), 3, 1, 'Column "A"', "String", "string", "write String"),
    ("W119", table('<Column name="ii" dataType="int"/>'), 3, 1, 'Column "ii"', "", "ii", "rename it"),
    ("E121", table('<Partitions keyFormula="__WRITABLE_PARTITIONS__[Symm.hashCode()]"/>', SYM),
     3, 1, "Partitions", "a column or token", "Symm at character 25", "did you mean Sym?"),
    ("E121", table('<Partitions keyFormula="${autobalance_double}"/>'),
     3, 1, "Partitions", "a column or token", "${autobalance_double} at character 1", "${autobalance_single}?"),
    ("E121", table('<Partitions keyFormula="__WRITABLE_PARTITIONS__[1 &lt; 2]"/>'),
     3, 1, "Partitions", "one of + - * /", "'<' at character 27", "grammar"),
    ("E122", table('<Partitions keyFormula="__WRITABLE_PARTITIONS__[abs(Px)]"/>', PX),
     3, 1, "Partitions", "of type String, Boolean", "Px, of type double", "use another"),
    ("E122", table('<Partitions keyFormula="Date"/>'),
     3, 1, "Partitions", "not partitioning", "Date, the partitioning column", "__DAY_OF_YEAR__"),
    ("E123", table('<Partitions keyFormula="abs(1) % 3"/>'),
     3, 1, "Partitions", "the name of a partition", "type int", "__WRITABLE_PARTITIONS__["),
    ("W124", table('<Partitions keyFormula="${autobalance_by_first_grouping_column}"/>', SYM),
     3, 1, "Partitions", "Grouping", "none", "${autobalance_single}"),
    ("E131", table('<ImportSource name="x"/>'), 3, 1, 'ImportSource "x"', "CSV, JDBC, JSON, XML", "no type", "choose"),
    ("E131", table('<ImportSource type="csv"/>'), 3, 1, "ImportSource", "CSV, JDBC, JSON, XML", "'csv'", "write CSV"),
    ("E132", table(PX, '<ImportSource type="CSV">\n<ImportColumn name="px" sourceName="p"/></ImportSource>'),
     5, 1, 'ImportColumn "px"', "a column", "'px'", "write Px"),
    ("E132", table(PX, '<ImportSource type="CSV"><ImportColumn name="Px" default=""/>\n<ImportColumn name="Px"/>', END),
     5, 1, 'ImportColumn "Px"', "once", "Px, twice", "remove one"),
    ("W133", table(PX, '<ImportSource type="CSV">\n<ImportColumn name="Px"/></ImportSource>'),
     5, 1, 'ImportColumn "Px"', "beside name", "only name", "sourceName"),
    ("W134", table(PX, '<ImportSource type="CSV">\n<ImportColumn name="Px" sourceName="p"/></ImportSource>'),
     4, 1, "ImportSource", "in the stream file", "Px from p", 'Px = { from = "p" } under [columns]'),
    ("W134", table(PX, '<ImportSource type="CSV">\n<ImportColumn name="Date" sourceName="day"/></ImportSource>'),
     4, 1, "ImportSource", "in the stream file", "Date from day", 'value = { column = "day" } under [partition]'),
    ("E141", validator('<assertSise min="1" max="2"/>'),
     8, 1, "assertSise", "known", "assertSise", "did you mean assertSize?"),
    ("E141", validator("<NullValidator/>"),
     8, 1, "NullValidator", "a rule that is known", "which passes whatever the rows are", "NonEmptyValidator needs"),
    ("E141", validator('<assertSize min="1"/>'), 8, 1, "assertSize", "min, max", "no attribute max", "state it"),
    ("E141", validator('<assertSize min="1" Max="2"/>'),
     8, 1, "assertSize", "min, max", "no attribute max", "Write max, not Max"),
    ("E141", validator('<assertSize min="1" max="2" most="3"/>'),
     8, 1, "assertSize", "optional modes", "attribute most", "remove"),
    ("E141", validator('<assertAvg column="Px" min="1" max="2" removeNaN="yes"/>'),
     8, 1, "assertAvg", "removeNaN of true, false", "yes", ""),
    ("E141", validator('<assertSize min="1" max="2" modes="simple_table"/>'),
     8, 1, "assertSize", "SIMPLE_TABLE", "simple_table", "write SIMPLE_TABLE"),
    ("E142", validator('<assertNotNull column="sym"/>'),
     8, 1, "assertNotNull", "a column of the table", 'column="sym"', "write Sym"),
    ("E142", validator('<assertFracNan column="Qty" min="0" max="1"/>'),
     8, 1, "assertFracNan", "float or double", "Qty, which is of type int", "another"),
    ("E142", validator('<assertColumnGrouped column="Px5"/>'),
     8, 1, "assertColumnGrouped", "a scalar type", "Px5", "another"),
    ("E142", validator('<assertCountEqual columns="Sym,Symm"/>'),
     8, 1, "assertCountEqual", "a column", 'columns="Symm"', "did you mean Sym?"),
    ("E142", validator('<assertFracWhere filter="Symm IS NULL" min="0" max="1"/>'),
     8, 1, "assertFracWhere", "a column", "Symm at character 1", "did you mean Sym?"),
    ("E143", validator('<assertSize min="9" max="3"/>'),
     8, 1, "assertSize", "min not above max", 'min="9" max="3"', "exchange"),
    ("E143", validator('<assertSize min="few" max="3"/>'),
     8, 1, "assertSize", "min is a value of type number", "few", "write a number"),
    ("E143", validator('<assertAllValuesBetween column="Qty" minValue="a" maxValue="b"/>'),
     8, 1, "assertAllValuesBetween", "of type int", 'minValue="a"', "write a number"),
    ("E143", validator('<assertAllValuesBetween column="Px" minValue="2" maxValue="1.5"/>'),
     8, 1, "assertAllValuesBetween", "minValue not above maxValue", "1.5", "exchange"),
    ("E143", validator('<assertAllValuesInDistinctSet column="Qty" expectedValues="1, x"/>'),
     8, 1, "assertAllValuesInDistinctSet", "expectedValues of type int", "'x'", "write a number"),
    ("E143", validator('<assertFracWhere filter="Px &gt;" min="0" max="1"/>'),
     8, 1, "assertFracWhere", "a SQL expression", "syntax error", ""),
    ("E143", validator('<assertFracWhere filter="Px &gt; Sym" min="0" max="1"/>'),
     8, 1, "assertFracWhere", "two of a kind", "a text at character 1", "quotes"),
    ("E151", table("<DataIndex/>"), 3, 1, "DataIndex", "columns of the table", "no columns", "columns="),
    ("E151", table(SYM, '<DataIndex columns="Sym,Px"/>'),
     4, 1, "DataIndex", "each once", "Px, which is not a column", "name a column"),
    ("E151", table(SYM, '<DataIndex columns="Sym, Sym"/>'),
     4, 1, "DataIndex", "each once", "Sym more than once", "once"),
    ("E152", table('<MergeAttributes codec="ZSTD"/>'),
     3, 1, "MergeAttributes", "UNCOMPRESSED", "ZSTD", 'format="Parquet"'),
    ("E156", table('<MergeAttributes dedupeKeys="Nix"/>'),
     3, 1, "MergeAttributes", "numbers, texts", "Nix", "compared"),
    ("E156", table(PX, '<MergeAttributes lastBy="Px" keep="first"/>'),
     4, 1, "MergeAttributes", "lastBy (with orderBy)", "lastBy, keep", "one rule"),
    ("E156", table(PX, '<MergeAttributes keep="first"/>'),
     4, 1, "MergeAttributes", "one of dedupeKeys", "keep", "one rule"),
    ("E156", table(PX, SYM, '<MergeAttributes dedupeKeys="Sym" orderBy="Px"/>'),
     5, 1, "MergeAttributes", "no float", "Px", "compared"),
    ("W153", table('<ExtendedStorage type="parquet:flat"/>', '<Partitions keyFormula="${autobalance_single}"/>'),
     4, 1, "Partitions", "no Partitions", "${autobalance_single}", "remove"),
    ("E154", table('<ExtendedStorage type="parquet"/>'), 3, 1, "ExtendedStorage", "parquet:kv", "'parquet'", ""),
    *(
        ("E154", table(f'<ExtendedStorage type="{kind}"/>'), 3, 1, "ExtendedStorage", "parquet:kv", kind, "remove")
        for kind in ("iceberg", "coreplus:iceberg", "delta", "hudi")
    ),
    ("E154", table("<ExtendedStorage/>"), 3, 1, "ExtendedStorage", "parquet:kv", "no type", "choose"),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]}-{case[6][:20]}")
def test_finding(case: tuple[str, str, int, int, str, str, str, str]) -> None:
    code, text, line, column, element, expected, found, hint = case
    matching = [f for f in findings(text) if f.code == code]
    assert len(matching) == 1, findings(text)
    one = matching[0]
    assert (one.line, one.column, one.element, one.file) == (line, column, element, NAME)
    assert expected in (one.expected or "")
    assert found in (one.found or "")
    assert hint in (one.hint or "")
    assert one.severity == ("error" if code.startswith("E") else "warning")


def test_file_name_that_differs_is_a_warning() -> None:
    found = findings(table(), "dir/other.schema")
    assert [(f.code, f.expected, f.found) for f in found] == [("W104", "Ns.Tab.schema", "other.schema")]
    assert findings(table(), "dir/Ns.Tab.schema") == ()


def test_every_code_is_tried() -> None:
    tried = {case[0] for case in CASES} | {"W104", "W112", "E161"}  # W112, E161: test_schema_deploy
    assert tried == set(VIOLATIONS)


def test_the_message_of_an_error() -> None:
    with pytest.raises(SchemaParseError) as caught:
        parse_schema(table('  <Column name="A" datatype="int"/>').encode(), NAME)
    assert caught.value.code == "E111"
    assert str(caught.value) == (
        "E111: a column lacks its dataType, or a name that is an identifier\n"
        "  where: Ns.Tab.schema:3:3\n"
        "  expected: dataType, and a name of a letter or _, then letters, digits, _, at most 200\n"
        "  found: no dataType\n"
        "  code: E111\n"
        '  element: Column "A"\n'
        "  line: 3\n"
        "  column: 3\n"
        "  findings: 1 error, 1 warning\n"
        "  to do: attributes are case-sensitive. Write dataType, not datatype"
    )


def test_the_text_of_a_warning() -> None:
    [one] = findings(table('<Column name="k" dataType="int"/>'))
    assert one.text() == (
        "Ns.Tab.schema:3:1: warning W119: a column is named i, ii or k, as the query language names its own\n"
        '  element: Column "k"\n'
        "  found: k\n"
        "  to do: queries cannot use the column by this name: rename it"
    )
    assert one.to_json()["severity"] == "warning"


def test_all_errors_come_at_once() -> None:
    found = findings(table('<Column name="A"/>', '<DataIndex columns="B"/>', '<ImportSource type="x"/>'))
    assert [f.code for f in found] == ["E111", "E151", "E131"]
    assert str(found).startswith("3 errors, 0 warnings\n    Ns.Tab.schema:3:1: E111: ")


def test_an_error_crosses_a_process_border() -> None:
    import pickle

    with pytest.raises(SchemaParseError) as caught:
        parse_schema(b"<x/>", NAME)
    back = pickle.loads(pickle.dumps(caught.value))
    assert (back.code, back.line, str(back)) == ("E102", 1, str(caught.value))
    assert isinstance(back.findings[0], SchemaFinding)


def test_an_index_of_columns_that_can_be_compared_is_built() -> None:
    assert findings(table(GROUPED, PX, '<DataIndex columns="Sym"/><DataIndex columns="Px,Sym"/>')) == ()
