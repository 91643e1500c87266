"""Loading, resolving, storing and describing schema files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sparkhaven.store.errors import SchemaError, SchemaParseError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.schema.document.column_elements import ImportColumn, ImportSource
from sparkhaven.store.schema.document.describe import describe, findings_text, schema_text
from sparkhaven.store.schema.document.schema_file import SchemaFile, check_schema, load_schema, parse_schema
from sparkhaven.store.types.model import Kind, Storage
from tests.support.places import REPOSITORY
from tests.support.tables.xml_trees import walk

SCHEMAS = REPOSITORY / "conf" / "schemas"
EXAMPLES = sorted(SCHEMAS.glob("*.schema"))
HEAD = '<Table namespace="Ns" name="Tab" storageType="NestedPartitionedOnDisk">'
DATE = '<Column name="Date" dataType="String" columnType="Partitioning"/>'


def parsed(*elements: str, head: str = HEAD) -> SchemaFile:
    return parse_schema("\n".join([head, DATE, *elements, "</Table>"]).encode(), "Ns.Tab.schema")


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.stem)
def test_examples_have_no_errors_and_stay_as_they_are(path: Path) -> None:
    findings, file = check_schema(Fs(), path)
    assert findings == ()
    assert file is not None
    assert file.to_bytes() == path.read_bytes()
    reported = json.loads(json.dumps(describe(file.schema, file)))
    assert reported["table"] == path.stem
    assert path.stem in schema_text(file.schema)


def test_the_examples_are_found() -> None:
    assert [p.stem for p in EXAMPLES] == ["Equities.QuoteL1", "Live.Trade", "Nyc13.Flight", "Trading.OrderLog"]


def test_flights() -> None:
    schema = load_schema(Fs(), SCHEMAS / "Nyc13.Flight.schema").schema
    assert len(schema.columns) == 20
    assert schema.partitioning is not None
    assert schema.partitioning.name == "Date"
    assert [c.name for c in schema.grouping] == ["carrier"]
    assert schema.key_formula == "${autobalance_by_first_grouping_column}"
    assert [r.name for r in schema.rules] == [
        "assertSize",
        "assertAllValuesInDistinctSet",
        "assertFracNull",
        "assertAllValuesBetween",
    ]
    assert schema.rules[0].attributes == {"min": "600", "max": "1100"}
    tailnum = schema.column("tailnum")
    assert tailnum is not None
    assert (tailnum.storage, tailnum.encoding) == (Storage.SYMBOL, "UTF_8")


def test_quotes() -> None:
    schema = load_schema(Fs(), SCHEMAS / "Equities.QuoteL1.schema").schema
    assert (schema.merge_format, schema.merge_codec) == ("Parquet", "ZSTD")
    assert schema.data_indexes == (("Venue",),)
    assert schema.rules[3].attributes["filter"] == "BidPx > AskPx"
    assert [c.type.name for c in schema.columns if "Time" in c.name] == ["Instant", "Instant"]


def test_order_log() -> None:
    schema = load_schema(Fs(), SCHEMAS / "Trading.OrderLog.schema").schema
    by_name = {c.name: c for c in schema.columns}
    assert (by_name["OrderId"].storage, by_name["OrderId"].encoding) == (Storage.BLOB, "US_ASCII")
    assert (by_name["Version"].type.name, by_name["Version"].spelling) == ("int", "Integer")
    price = by_name["Price"]
    assert (price.storage, price.codec_width, price.codec_args) == (Storage.FIXED, 9, "18,6")
    fills = by_name["FillPx"]
    assert fills.storage is Storage.BLOB
    assert fills.component is not None
    assert fills.component.name == "double"


def test_ids_and_roles_of_columns() -> None:
    file = parsed(
        '<Column name="A" dataType="java.lang.Double"/>', '<Column name="B" dataType="String" columnType="Grouping"/>'
    )
    assert [(c.name, c.id, c.kind, c.storage) for c in file.schema.columns] == [
        ("Date", 0, Kind.PARTITIONING, Storage.NONE),
        ("A", 1, Kind.NORMAL, Storage.FIXED),
        ("B", 2, Kind.GROUPING, Storage.SYMBOL),
    ]


@pytest.mark.parametrize(
    ("type_", "codec", "arguments", "width"),
    [
        ("LocalDate", "LocalDateCodec", "Compact", 3),
        ("LocalDate", "LocalDateCodec", None, 5),
        ("LocalTime", "LocalTimeCodec", None, 6),
        ("LocalTime", "LocalTimeCodec", "6", 5),
        ("LocalTime", "LocalTimeCodec", "3", 4),
        ("LocalTime", "LocalTimeCodec", "0", 3),
        ("BigDecimal", "BigDecimalCodec", "20,8", 10),
        ("BigDecimal", "BigDecimalCodec", None, None),
        ("BigInteger", "BigIntegerCodec", "18", 9),
        ("byte[]", "ByteArrayCodec", "16", 17),
        ("byte[]", "ByteArrayCodec", "16,notNull", 16),
        ("byte[]", "SimpleByteArrayCodec", None, None),
    ],
)
def test_width_of_built_in_codecs(type_: str, codec: str, arguments: str | None, width: int | None) -> None:
    given = "" if arguments is None else f' objectCodecArguments="{arguments}"'
    file = parsed(f'<Column name="A" dataType="{type_}" objectCodec="io.deephaven.util.codec.{codec}"{given}/>')
    assert file.schema.columns[1].codec_width == width
    assert file.schema.columns[1].storage is (Storage.BLOB if width is None else Storage.FIXED)


def test_a_charset_is_obeyed_with_a_symbol_table() -> None:
    file = parsed('<Column name="A" dataType="String" encoding="UTF_16LE"/>')
    assert file.schema.columns[1].encoding == "UTF_16LE"
    assert [f.code for f in file.findings] == ["W116"]


def test_kept_elements_give_no_warning() -> None:
    file = parsed(
        '<Listener logFormat="1" listenerClass="x"><Column name="Date" intradayType="none"/><Odd/></Listener>',
        '<LoggerListener tableLogger="false"/>',
        '<LogFormat version="1" loggerType="x"><Any/></LogFormat>',
        "<InputTableSpec/>",
        '<ImportSource type="JDBC"><ImportMacro name="x"/><ImportState/></ImportSource>',
    )
    assert file.findings == ()


def test_import_blocks() -> None:
    file = parsed(
        '<Column name="A" dataType="int"/>',
        '<ImportSource type="CSV" name="one" arrayDelimiter=";" maxError="3">',
        '<ImportColumn name="A" sourceName="a"/></ImportSource>',
        '<ImportSource type="CSV" name="two"><ImportColumn name="A" formula="a + 1"/></ImportSource>',
        '<ImportSource type="JSON"><ImportColumn name="A" sourceType="CONSTANT" default="7"/></ImportSource>',
    )
    assert file.imports == (
        ImportSource("CSV", "one", {"A": ImportColumn("A", "a")}),
        ImportSource("CSV", "two", {"A": ImportColumn("A")}),
        ImportSource("JSON", None, {"A": ImportColumn("A", default="7")}),
    )


def test_copy_table(tmp_path: Path) -> None:
    (tmp_path / "Nyc13.Flight.schema").write_bytes((SCHEMAS / "Nyc13.Flight.schema").read_bytes())
    text = '<CopyTable namespace="Lab" name="Trip" sourceNamespace="Nyc13" sourceName="Flight"/>'
    (tmp_path / "Lab.Trip.schema").write_text(text)
    file = load_schema(Fs(), tmp_path / "Lab.Trip.schema")
    assert file.schema.full_name == "Lab.Trip"
    assert file.to_bytes() == text.encode()
    assert describe(file.schema, file)["copy_of"] == "Nyc13.Flight"
    full = file.materialised()
    assert full.schema == file.schema
    assert full.to_bytes() == (SCHEMAS / "Nyc13.Flight.schema").read_bytes().replace(
        b'namespace="Nyc13" name="Flight"', b'namespace="Lab" name="Trip"'
    )


def test_a_circle_of_copies_ends(tmp_path: Path) -> None:
    for one, other in (("A", "B"), ("B", "A")):
        (tmp_path / f"N.{one}.schema").write_text(
            f'<CopyTable namespace="N" name="{one}" sourceNamespace="N" sourceName="{other}"/>'
        )
    with pytest.raises(SchemaParseError, match="E108"):
        load_schema(Fs(), tmp_path / "N.A.schema")


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match="schema file cannot be read") as caught:
        check_schema(Fs(), tmp_path / "N.T.schema")
    assert caught.value.found == "No such file or directory"


def test_check_gives_findings_without_raising(tmp_path: Path) -> None:
    path = tmp_path / "Ns.Tab.schema"
    path.write_text(f"{HEAD}</Table>")
    findings, file = check_schema(Fs(), path)
    assert file is None
    assert [f.code for f in findings] == ["E113"]
    assert findings_text(findings).endswith("\n1 error, 0 warnings")


ODD = """<?xml version='1.0' encoding="UTF-8"?>
<!-- first --><Table  namespace = "Ns" name='Tab'
   storageType="NestedPartitionedOnDisk"   colour="a &gt; b">
  <!-- inside <Column/> -->
  <Column\tname="Date" dataType="String" columnType="Partitioning" />
  <Unknown a="1"><![CDATA[ <x> ]]> text </Unknown>
</Table>
<!-- last -->"""


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_an_edit_changes_only_its_place(mark: bytes) -> None:
    file = parse_schema(mark + ODD.encode(), "Ns.Tab.schema")
    assert [f.code for f in file.findings] == ["W106", "W106"]
    edited = file.with_attribute(file.root, "colour", 'x < "y"')
    assert edited.to_bytes() == mark + ODD.replace("a &gt; b", "x &lt; &quot;y&quot;").encode()
    assert edited.root.attributes["colour"] == 'x < "y"'
    added = file.with_attribute(file.root.children[0], "description", "a\tb")
    assert (
        added.to_bytes() == mark + ODD.replace('"Partitioning" />', '"Partitioning" description="a&#9;b" />').encode()
    )
    assert added.root.children[0].attributes["description"] == "a\tb"
    single = file.with_attribute(file.root, "name", "Tac")
    assert single.to_bytes() == mark + ODD.replace("'Tab'", "'Tac'").encode()


@pytest.mark.parametrize("encoding", ["utf-16", "iso-8859-1", "us-ascii", "windows-1252"])
def test_encodings(encoding: str) -> None:
    note = "é" if encoding in ("utf-16", "iso-8859-1", "windows-1252") else "e"
    declared = f'<?xml version="1.0" encoding="{encoding}"?>\n'
    text = f'{declared}{HEAD}\n{DATE}<Column name="A" dataType="int" description="{note}"/></Table>'
    file = parse_schema(text.encode(encoding), "Ns.Tab.schema")
    assert file.findings == ()
    column = file.root.all("Column")[1]
    assert column.attributes["description"] == note
    assert (column.line, column.column) == (3, len(DATE) + 1)
    edited = file.with_attribute(column, "description", "新")
    assert edited.root.all("Column")[1].attributes["description"] == "新"


def test_encodings_that_are_refused() -> None:
    for data, found in (
        (b'<?xml version="1.0" encoding="EBCDIC-CP-US"?><Table/>', "EBCDIC-CP-US"),
        (b'<?xml version="1.0" encoding="UTF-7"?><Table/>', "UTF-7"),
        (b"<Table>\n\xff</Table>", "byte 0xFF"),
    ):
        with pytest.raises(SchemaParseError, match="E101") as caught:
            parse_schema(data, "Ns.Tab.schema")
        assert caught.value.found == found


@pytest.mark.parametrize(
    "text",
    [
        '<!DOCTYPE a [<!ENTITY b "c">]><Table/>',
        '<!DOCTYPE a SYSTEM "file:///etc/passwd"><Table/>',
        '<!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]><Table>&b;</Table>',
    ],
)
def test_doctype_and_entities_are_refused(text: str) -> None:
    with pytest.raises(SchemaParseError, match="E101") as caught:
        parse_schema(text.encode(), "Ns.Tab.schema")
    assert caught.value.found == "DOCTYPE"


@pytest.mark.slow
def test_deep_documents_are_no_danger() -> None:
    depth = 40_000
    file = parse_schema(f"{HEAD}{DATE}{'<a>' * depth}{'</a>' * depth}</Table>".encode(), "Ns.Tab.schema")
    assert [f.code for f in file.findings] == ["W106"]
    assert sum(1 for _ in walk(file.root)) == depth + 2


def test_a_schema_is_described() -> None:
    file = parsed(
        '<Column name="Sym" dataType="String" columnType="Grouping"/>',
        '<Column name="Px" dataType="double[]"/>',
        '<DataIndex columns="Sym"/>',
        '<Validator><assertSize min="1" max="2"/><assertNotNull column="Sym"/></Validator>',
    )
    assert schema_text(file.schema).splitlines() == [
        "Ns.Tab, nested partitioned on disk, version 1",
        "merge to DeephavenV1, key formula (none)",
        "",
        "id  column  type      role          stored as",
        "0   Date    String    partitioning  name of the directory",
        "1   Sym     String    grouping      symbols, UTF_8",
        "2   Px      double[]  normal        bytes",
        "",
        "data indexes: Sym",
        "",
        "rules:",
        '  assertSize min="1" max="2"',
        '  assertNotNull column="Sym"',
    ]
    reported = describe(file.schema)
    assert reported["columns"][1] == {
        "id": 1,
        "name": "Sym",
        "type": "String",
        "data_type": "String",
        "kind": "grouping",
        "storage": "symbol",
        "encoding": "UTF_8",
        "files": ["Sym.dat", "Sym.sym", "Sym.sym.bytes"],
    }
    assert reported["rules"][0] == {
        "name": "assertSize",
        "attributes": {"min": "1", "max": "2"},
        "evaluated": True,
        "line": 6,
    }
    assert "findings" not in reported


@pytest.mark.slow
def test_large_schemas_are_checked_in_seconds() -> None:
    columns = "".join(f'<Column name="c{i}" dataType="int"/>' for i in range(4000))
    wrong = "".join(f'<ImportColumn name="d{i}"/>' for i in range(4000))
    keys = ",".join(f"c{i}" for i in range(4000))
    with pytest.raises(SchemaParseError) as caught:
        parsed(columns, f'<ImportSource type="CSV">{wrong}</ImportSource>', f'<DataIndex columns="{keys}"/>')
    assert {f.code for f in caught.value.findings} == {"E132", "W155"}
