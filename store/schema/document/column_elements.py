"""``Column`` elements to columns: names, types, roles, charsets and codecs (E111 to W119).

``ImportSource`` blocks map the fields of a source to them (E131, E132). Importers of Deephaven use them. Here the
stream file maps fields, which a finding says (W134).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from sparkhaven.store.errors import InvalidNameError, meant
from sparkhaven.store.layout import check_identifier
from sparkhaven.store.schema.document.vocabulary import COLUMN_TYPES, IMPORT_TYPES, SYMBOL_TABLES, one_of
from sparkhaven.store.schema.findings import FindingCollector
from sparkhaven.store.schema.xml_tree import Element
from sparkhaven.store.types.datatypes import NAMES, SPELLINGS, DataType, coded_row, data_type, is_known
from sparkhaven.store.types.model import CHARSETS, Column, Kind, Storage

DEFAULT_CHARSET = "UTF_8"
RESERVED = ("i", "ii", "k")
_KINDS = {None: Kind.NORMAL, "Normal": Kind.NORMAL, "Partitioning": Kind.PARTITIONING, "Grouping": Kind.GROUPING}


def is_identifier(name: str) -> bool:
    """Whether a name is valid for a namespace, a table or a column."""
    try:
        check_identifier("name", name)
    except InvalidNameError:
        return False
    return True


def read_columns(table: Element, findings: FindingCollector, *, deployed: bool = False) -> tuple[Column, ...]:
    """The columns in definition order, ids from 0; columns that cannot be read are left out.

    Names that differ in case only are an error, and of a schema that is ``deployed`` already a warning.
    """
    columns: list[Column] = []
    lines: dict[str, Element] = {}
    by_case: dict[str, str] = {}
    for element in table.all("Column"):
        column = _column(element, len(columns), findings)
        if column is None:
            continue
        earlier = by_case.get(column.name.lower())
        if column.name in lines:
            findings.add(
                "E112",
                element,
                expected="a name of its own",
                found=f"{column.name}, also in line {lines[column.name].line}",
                hint="rename or remove one of the two",
            )
            continue
        if earlier is not None:
            findings.add(
                "W112" if deployed else "E112",
                element,
                expected="names that differ by more than case",
                found=f"{column.name} beside {earlier} (line {lines[earlier].line})",
                hint="SQL and Spark confuse them. Choose another name for one, and name its field in the stream file"
                f' by [columns] OtherName = {{ from = "{column.name}" }}',
            )
        if column.name in RESERVED:
            findings.add(
                "W119", element, found=column.name, hint="queries cannot use the column by this name: rename it"
            )
        lines[column.name] = element
        by_case[column.name.lower()] = column.name
        columns.append(column)
    return tuple(columns)


def _column(element: Element, number: int, findings: FindingCollector) -> Column | None:
    name, spelling = element.attributes.get("name", ""), element.attributes.get("dataType", "")
    if not name or not spelling or not is_identifier(name):
        _refuse_name(element, name, spelling, findings)
        return None
    kind = _KINDS[one_of(element, "columnType", COLUMN_TYPES, findings)]
    symbols = one_of(element, "symbolTable", SYMBOL_TABLES, findings)
    charset = one_of(element, "encoding", CHARSETS, findings)
    _check_known(element, spelling, findings)
    kind_of_value = _type(element, spelling, findings)
    _check_role(element, kind, kind_of_value, findings)
    text = kind_of_value.name == "String"
    symbol = text and symbols != "None"
    if "encoding" in element.attributes and (symbol or not text):
        findings.add(
            "W116",
            element,
            expected='encoding together with dataType="String" and symbolTable="None"',
            found=f"encoding on a column of type {spelling}{' with a symbol table' if symbol else ''}",
            hint="the symbol table is written in this charset. Other writers may ignore it"
            if symbol
            else "it has no effect: remove it",
        )
    if kind is Kind.PARTITIONING:
        storage = Storage.NONE
    elif kind_of_value.numpy is not None:
        storage = Storage.FIXED
    elif symbol:
        storage = Storage.SYMBOL
    else:
        storage = Storage.SET if kind_of_value.name == "StringSet" else Storage.BLOB
    component = element.attributes.get("componentType") or (spelling[:-2] if spelling.endswith("[]") else None)
    stringy = text or kind_of_value.name == "StringSet"
    origin = kind_of_value.origin
    return Column(
        name=name,
        type=kind_of_value,
        kind=kind,
        storage=storage,
        id=number,
        encoding=(charset or DEFAULT_CHARSET) if stringy else None,
        codec=None if origin is None else origin.codec,
        codec_args=None if origin is None else origin.arguments,
        codec_width=kind_of_value.width if kind_of_value.fixed is not None else None,
        component=None if component is None else data_type(component),
        spelling=spelling,
    )


def _refuse_name(element: Element, name: str, spelling: str, findings: FindingCollector) -> None:
    missing = "dataType" if name else "name"
    misspelt = next((a for a in element.attributes if a != missing and a.lower() == missing.lower()), None)
    findings.add(
        "E111",
        element,
        expected="dataType, and a name of a letter or _, then letters, digits, _, at most 200",
        found=repr(name) if name and spelling else f"no {missing}",
        hint=f"attributes are case-sensitive. Write {missing}, not {misspelt}" if misspelt else "state both",
    )


def _check_known(element: Element, spelling: str, findings: FindingCollector) -> None:
    if not is_known(spelling):
        findings.add(
            "W118",
            element,
            expected="a type that is known: " + ", ".join(NAMES),
            found=spelling,
            hint=meant(spelling, SPELLINGS) or "values are handed out as bytes and never interpreted",
        )


def _check_role(element: Element, kind: Kind, data_type: DataType, findings: FindingCollector) -> None:
    if kind is Kind.PARTITIONING and data_type.name != "String":
        findings.add(
            "E114",
            element,
            expected='dataType="String"',
            found=element.attributes["dataType"],
            hint="its values are names of directories. Keep the instant or number in a column of its own",
        )
    if kind is Kind.GROUPING and not data_type.groupable:
        findings.add(
            "E115",
            element,
            expected="String, Instant, Boolean, char, or a number without a codec",
            found=element.attributes["dataType"],
            hint="group by another column, or make this one Normal"
            + (", with a DataIndex for filters by = and in" if data_type.ordered else ""),
        )


def _class_hint(codec: str | None) -> str:
    """What to write: the class of our codec of a type, if it has one."""
    return f'write objectCodec="{codec}", with its arguments' if codec else "name the codec class that wrote the values"


def _type(element: Element, spelling: str, findings: FindingCollector) -> DataType:
    """The type with the codec that the element names; E117 where the two do not go together."""
    attributes = element.attributes
    present = [a for a in ("objectCodec", "objectCodecArguments", "objectWidth") if a in attributes]
    row = coded_row(spelling)
    if not present:
        return data_type(spelling)
    codec, arguments = attributes.get("objectCodec"), attributes.get("objectCodecArguments")
    stated = attributes.get("objectWidth")
    if row is None:
        shown, hint = f"{present[0]} on {spelling}", "remove the attribute, or change dataType"
        expected = "no codec: the type has its own storage"
    elif stated is not None and not re.fullmatch(r"[1-9]\d{0,6}", stated):
        expected, shown = "objectWidth of at least 1", f'"{stated}"'
        hint = "leave it out for values of varying length"
    elif codec is None and arguments is not None:
        expected, shown, hint = "objectCodec beside objectCodecArguments", "no objectCodec", _class_hint(row.codec)
    else:
        width = None if stated is None else int(stated)
        try:
            kind = data_type(spelling, codec, arguments, width)
        except ValueError as error:
            given = (codec or "no codec").rpartition(".")[2]
            expected, shown = str(error), f'{given} "{arguments or ""}" on {spelling}'
            hint = _class_hint(row.codec)
        else:
            if width is None or (kind.coding is not None and kind.coding.width == width):
                return kind
            has = kind.coding.width if kind.coding is not None else None
            expected = f"objectWidth {has}, as the codec writes it" if has else "no objectWidth: the codec has none"
            shown, hint = stated or "", "leave objectWidth out"
    findings.add("E117", element, expected=expected, found=shown, hint=hint)
    return data_type(spelling)


@dataclass(frozen=True, slots=True)
class ImportColumn:
    """Mapping of one column."""

    name: str
    source_name: str | None = None
    default: str | None = None


@dataclass(frozen=True, slots=True)
class ImportSource:
    """One block: type of the source, optional name, mappings by column."""

    type: str
    name: str | None
    columns: dict[str, ImportColumn] = field(default_factory=dict)


def read_imports(root: Element, columns: tuple[Column, ...], findings: FindingCollector) -> tuple[ImportSource, ...]:
    """The import blocks in document order."""
    names = {c.name: c for c in columns}
    blocks: list[ImportSource] = []
    for element in root.all("ImportSource"):
        kind = element.attributes.get("type", "")
        if kind not in IMPORT_TYPES:
            findings.add(
                "E131",
                element,
                expected=", ".join(IMPORT_TYPES),
                found=repr(kind) if "type" in element.attributes else "no type",
                hint=meant(kind, IMPORT_TYPES) or "choose a type of the list",
            )
        mapped: dict[str, ImportColumn] = {}
        for child in element.all("ImportColumn"):
            column = _import_column(child, names, mapped, findings)
            if column is not None:
                mapped[column.name] = column
        _tell_mapping(element, mapped, names, findings)
        blocks.append(ImportSource(kind, element.attributes.get("name"), mapped))
    return tuple(blocks)


def _import_column(
    element: Element, names: dict[str, Column], mapped: dict[str, ImportColumn], findings: FindingCollector
) -> ImportColumn | None:
    attributes = element.attributes
    name = attributes.get("name", "")
    if name not in names or name in mapped:
        twice = name in mapped
        findings.add(
            "E132",
            element,
            expected="each column once" if twice else "the name of a column of the table",
            found=f"{name}, twice in this block" if twice else (repr(name) if name else "no name"),
            hint="remove one of them" if twice else meant(name, names) or "name a column, or remove the element",
        )
        return None
    if set(attributes) == {"name"}:
        hint = "add sourceName, sourceType or default, or remove the element"
        findings.add("W133", element, expected="an attribute beside name", found="only name", hint=hint)
    return ImportColumn(name, attributes.get("sourceName"), attributes.get("default"))


def _tell_mapping(
    element: Element, mapped: dict[str, ImportColumn], names: dict[str, Column], findings: FindingCollector
) -> None:
    sources = {name: column.source_name for name, column in mapped.items() if column.source_name is not None}
    if not sources:
        return
    dates = [name for name in sources if names[name].kind is Kind.PARTITIONING]
    lines = [
        f'{name} = {{ from = "{source}" }} under [columns]' for name, source in sources.items() if name not in dates
    ]
    lines += [f'value = {{ column = "{sources[name]}" }} under [partition]' for name in dates]
    findings.add(
        "W134",
        element,
        expected="fields that are mapped in the stream file",
        found=", ".join(f"{name} from {source}" for name, source in sources.items()),
        hint=f"remove the element. In the stream file write {', and '.join(lines)}",
    )
