"""``.schema`` files: loaded, checked as a whole, and written back byte for byte.

All findings of a file are collected before the first error is raised, and that error has all of them. Unknown elements
are kept unchanged. Nothing in a schema is ever executed.

``MergeAttributes`` state the compression of a merge's files, which rows it leaves out, and where the others go.
``dedupeKeys``, ``lastBy`` and ``upsertInto`` have names of columns between commas, and a schema states one of them.
Beside ``dedupeKeys`` may stand ``keep``, ``first`` or ``last``; beside it and ``lastBy`` a column ``orderBy``.
``distribution`` is one of ``DISTRIBUTIONS``. All of these are this project's own.

A ``.schema`` file is also made from a table definition, so that reading it gives the definition back. A definition has
no key formula, rules and indexes, so the file has none. A text column whose charset is unset is in ISO_8859_1, as
Deephaven reads it, and the file says so.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from xml.sax.saxutils import quoteattr

from sparkhaven.store.errors import SchemaError, SchemaParseError, SettingsError, meant
from sparkhaven.store.expressions.formula.evaluation import parse_formula
from sparkhaven.store.format.table.definition import EXTENDED, IN_MEMORY, SPLAYED, Definition, definition_of
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.schema.differences import SchemaDifference, column_differences
from sparkhaven.store.schema.document.column_elements import (
    DEFAULT_CHARSET,
    ImportSource,
    is_identifier,
    read_columns,
    read_imports,
)
from sparkhaven.store.schema.document.validator_rules import check_indexes, check_rules
from sparkhaven.store.schema.document.vocabulary import (
    EXTENDED_TYPES,
    MERGE_CODECS,
    STORAGE_TYPES,
    TABLE_FORMATS,
    check_words,
    one_of,
)
from sparkhaven.store.schema.findings import FindingCollector, FindingList, SchemaFinding, raise_errors
from sparkhaven.store.schema.xml_tree import Document, DocumentError, Element, parse_document
from sparkhaven.store.types.datatypes import SERIALIZABLE, coded_row
from sparkhaven.store.types.model import (
    DISTRIBUTIONS,
    MERGE_FORMATS,
    Column,
    DedupeRule,
    Distribution,
    Kind,
    Storage,
    TableSchema,
    dedupe_fault,
)

_KEYS = ("dedupeKeys", "lastBy", "upsertInto")


def merge_codec(root: Element, default_format: str, findings: FindingCollector) -> str | None:
    """The compression of Parquet files that a schema asks for."""
    chosen: str | None = None
    for element in root.all("MergeAttributes"):
        target = one_of(element, "format", MERGE_FORMATS, findings) or default_format
        codec = one_of(element, "codec", MERGE_CODECS, findings)
        if codec is not None and target == "DeephavenV1" and codec != "UNCOMPRESSED":
            findings.add(
                "E152",
                element,
                expected="UNCOMPRESSED, or no codec, for DeephavenV1",
                found=codec,
                hint='column files are not compressed. Choose format="Parquet" or drop the codec',
            )
        elif codec is not None and target == "Parquet" and chosen is None:
            chosen = codec
    return chosen


def merge_dedupe(root: Element, columns: tuple[Column, ...], findings: FindingCollector) -> DedupeRule | None:
    """The rule by which merges leave rows out; None without one."""
    stated = [e for e in root.all("MergeAttributes") if {*_KEYS, "keep", "orderBy"} & {*e.attributes}]
    if not stated:
        return None
    element = stated[0]
    named = [name for name in _KEYS if name in element.attributes]
    keep = one_of(element, "keep", ("first", "last"), findings)
    order_by = element.attributes.get("orderBy")
    alone = len(named) == len(stated) == 1
    if not alone or (keep and named != ["dedupeKeys"]) or (order_by and named == ["upsertInto"]):
        findings.add(
            "E156",
            stated[-1],
            expected="one of dedupeKeys (with keep, orderBy), lastBy (with orderBy), upsertInto",
            found=", ".join(
                name for e in stated for name in e.attributes if name not in ("format", "codec", "distribution")
            ),
            hint="state one rule for the table",
        )
        return None
    keys = tuple(part.strip() for part in element.attributes[named[0]].split(",") if part.strip())
    last = keep == "last" or named != ["dedupeKeys"]
    rule = DedupeRule(keys, "last" if last else "first", order_by, named == ["upsertInto"])
    fault = dedupe_fault(rule, columns)
    if fault is not None:
        findings.add("E156", element, expected=fault[0], found=fault[1], hint="name columns that can be compared")
        return None
    return rule


def merge_distribution(root: Element, findings: FindingCollector) -> Distribution | None:
    """How merges choose storage partitions: as the first element with the attribute says; None without one."""
    stated = [one_of(element, "distribution", DISTRIBUTIONS, findings) for element in root.all("MergeAttributes")]
    first = next((word for word in stated if word is not None), None)
    return next((known for known in DISTRIBUTIONS if known == first), None)


Resolve = Callable[[str, str], "SchemaFile | None"]


@dataclass(frozen=True, slots=True)
class SchemaFile:
    """One schema file that has no errors. ``origin`` is the schema that a CopyTable copies."""

    name: str
    document: Document
    schema: TableSchema
    findings: tuple[SchemaFinding, ...]
    imports: tuple[ImportSource, ...]
    origin: SchemaFile | None = None

    @property
    def root(self) -> Element:
        """The root element, for edits by ``with_attribute``."""
        return self.document.root

    def to_bytes(self) -> bytes:
        """The file exactly as it was read."""
        return self.document.data

    def with_attribute(self, element: Element, name: str, value: str, *, resolve: Resolve | None = None) -> SchemaFile:
        """A copy with one attribute of one element changed or added; every other byte stays."""
        return parse_schema(self.document.set_attribute(element, name, value), self.name, resolve=resolve)

    def materialised(self) -> SchemaFile:
        """The file itself, or for a CopyTable the file of its origin under the name of the copy."""
        if self.origin is None:
            return self
        copy = self.origin.materialised()
        copy = copy.with_attribute(copy.root, "namespace", self.schema.namespace)
        copy = copy.with_attribute(copy.root, "name", self.schema.name)
        name = f"{self.schema.full_name}.schema"
        return parse_schema(copy.to_bytes(), name)


def load_schema(fs: Fs, path: Path, *, deployed: bool = False) -> SchemaFile:
    """Reads and checks a schema file; a CopyTable is resolved from the files beside it.

    ``deployed``: it is deployed already, and rules that came later are warnings. Raises SchemaParseError with a code
    when the file breaks a rule, SchemaError when it cannot be read.
    """
    return _load(fs, path, (path,), deployed=deployed)


def _load(fs: Fs, path: Path, chain: tuple[Path, ...], *, deployed: bool = False) -> SchemaFile:
    def resolve(namespace: str, name: str) -> SchemaFile | None:
        beside = path.with_name(f"{namespace}.{name}.schema")
        if beside in chain or fs.stat(beside) is None:
            return None
        return _load(fs, beside, (*chain, beside))

    try:
        data = fs.read(path)
    except OSError as error:
        raise SchemaError(
            "schema file cannot be read",
            where=path,
            expected="a readable file <Namespace>.<Table>.schema",
            found=error.strerror,
            hint="check the path and its permissions",
        ) from error
    return parse_schema(data, str(path), resolve=resolve, deployed=deployed)


def check_schema(fs: Fs, path: Path) -> tuple[FindingList, SchemaFile | None]:
    """Every finding of a file, and the file if it has no errors; raises only when it cannot be read."""
    try:
        file = load_schema(fs, path)
    except SchemaParseError as error:
        return error.findings, None
    return FindingList(file.findings), file


def parse_schema(data: bytes, name: str, *, resolve: Resolve | None = None, deployed: bool = False) -> SchemaFile:
    """Checks the bytes of a schema. ``name`` is the file name for messages and W104 (none if empty).

    ``deployed`` as in ``load_schema``. ``resolve(namespace, name)`` gives the schema that a CopyTable copies, or None.
    Raises SchemaParseError.
    """
    findings = FindingCollector(name or "<schema>")
    try:
        document = parse_document(data)
    except DocumentError as error:
        position = (findings.file, error.line, error.column, "document")
        raise_errors([SchemaFinding("E101", *position, error.expected, error.found, error.hint)])
        raise
    root = document.root
    if root.name not in ("Table", "CopyTable"):
        findings.add(
            "E102", root, expected="Table or CopyTable", found=root.name, hint=meant(root.name, ("Table", "CopyTable"))
        )
        findings.raise_errors()
    check_words(root, findings)
    namespace, table = _identity(root, name, findings)
    origin: SchemaFile | None = None
    imports: tuple[ImportSource, ...] = ()
    if root.name == "CopyTable":
        origin = _origin(root, resolve, findings)
        schema = TableSchema(namespace, table, ())
        if origin is not None:
            schema = dataclasses.replace(origin.schema, namespace=namespace, name=table)
            imports = origin.imports
    else:
        schema, imports = _table(root, namespace, table, findings, deployed=deployed)
    findings.raise_errors()
    every = tuple(sorted(findings.found, key=lambda f: (f.line, f.column)))
    return SchemaFile(name, document, schema, every, imports, origin)


def _identity(root: Element, file: str, findings: FindingCollector) -> tuple[str, str]:
    namespace, table = root.attributes.get("namespace", ""), root.attributes.get("name", "")
    bad = [(a, v) for a, v in (("namespace", namespace), ("name", table)) if not is_identifier(v)]
    if bad:
        attribute, value = bad[0]
        misspelt = next((a for a in root.attributes if a != attribute and a.lower() == attribute), None)
        findings.add(
            "E103",
            root,
            expected=f"{attribute}: a letter or _, then letters, digits, _ (at most 200)",
            found=repr(value) if attribute in root.attributes else f"no {attribute}",
            hint=f"attributes are case-sensitive. Write {attribute}, not {misspelt}"
            if misspelt
            else f"state {attribute}",
        )
    elif file and Path(file).name != f"{namespace}.{table}.schema":
        expected = f"{namespace}.{table}.schema"
        findings.add("W104", root, expected=expected, found=Path(file).name, hint="rename the file")
    return namespace, table


def _origin(root: Element, resolve: Resolve | None, findings: FindingCollector) -> SchemaFile | None:
    namespace, name = root.attributes.get("sourceNamespace", ""), root.attributes.get("sourceName", "")
    if not is_identifier(namespace) or not is_identifier(name):
        stated = f"sourceNamespace {namespace!r}, sourceName {name!r}"
        findings.add("E108", root, expected="sourceNamespace and sourceName", found=stated, hint="state both")
        return None
    origin = resolve(namespace, name) if resolve else None
    if origin is None:
        findings.add(
            "E108",
            root,
            expected=f"{namespace}.{name}.schema beside this file, not a copy of it in its turn",
            found="no such file, or a cycle",
            hint="put the file of the source table beside this one",
        )
    return origin


def _table(
    root: Element, namespace: str, table: str, findings: FindingCollector, *, deployed: bool
) -> tuple[TableSchema, tuple[ImportSource, ...]]:
    storage = one_of(root, "storageType", STORAGE_TYPES, findings)
    if "storageType" not in root.attributes:
        expected, hint = 'storageType="NestedPartitionedOnDisk"', "state it explicitly"
        findings.add("W107", root, expected=expected, found="no storageType", hint=hint)
    nested = storage != "SplayedOnDisk"
    merge_format = one_of(root, "defaultMergeFormat", MERGE_FORMATS, findings) or "DeephavenV1"
    if not nested:
        expected, hint = 'storageType="NestedPartitionedOnDisk"', "streams, merges and imports refuse the table"
        findings.add("W109", root, expected=expected, found=storage, hint=hint)
    columns = read_columns(root, findings, deployed=deployed)
    extended = _extended(root, findings)
    _check_partitioning(root, columns, nested, extended, findings)
    imports = read_imports(root, columns, findings)
    partitions = root.first("Partitions")
    schema = TableSchema(
        namespace=namespace,
        name=table,
        columns=columns,
        nested=nested,
        merge_format=merge_format,
        merge_codec=merge_codec(root, merge_format, findings),
        dedupe=merge_dedupe(root, columns, findings),
        key_formula=None if partitions is None else partitions.attributes.get("keyFormula"),
        distribution=merge_distribution(root, findings),
        data_indexes=check_indexes(root, columns, findings),
        rules=check_rules(root, columns, findings),
        extended=extended,
        extended_format=_extended_format(root, extended, findings),
    )
    if partitions is not None:
        _check_formula(partitions, schema, extended, findings)
    return schema, imports


def _check_partitioning(
    root: Element, columns: tuple[Column, ...], nested: bool, extended: str | None, findings: FindingCollector
) -> None:
    chosen = [c.name for c in columns if c.kind is Kind.PARTITIONING]
    wanted = 1 if nested else 0
    named = [e for e in root.all("Column") if e.attributes.get("columnType") == "Partitioning"]
    if extended is not None:  # extended layouts may have any number of partitioning columns
        if nested and len(chosen) != 1:
            hint = "make the others Normal. Streams and merges refuse the table, because their values would be lost"
            partitioning = ", ".join(chosen) or "none"
            findings.add("W113", named[1] if len(named) > 1 else root, expected="one", found=partitioning, hint=hint)
        return
    if len(chosen) == wanted:
        return
    if not chosen and named:
        return  # the column has an error of its own
    findings.add(
        "E113",
        named[wanted] if len(named) > wanted else root,
        expected="one column with columnType Partitioning" if nested else "no Partitioning column",
        found=", ".join(chosen) or "none",
        hint='add <Column name="Date" dataType="String" columnType="Partitioning"/>'
        if not chosen
        else "make the others Normal",
    )


def _check_formula(partitions: Element, schema: TableSchema, extended: str | None, findings: FindingCollector) -> None:
    if schema.key_formula is None:
        return
    if extended is not None:
        hint = "remove Partitions. The layout decides where rows are stored"
        findings.add("W153", partitions, expected="no Partitions", found=schema.key_formula, hint=hint)
    try:
        formula = parse_formula(schema.key_formula, schema)
    except SchemaParseError as error:
        findings.add(error.code, partitions, expected=error.expected, found=error.found, hint=error.hint)
        return
    if formula.ungrouped:
        findings.add(
            "W124",
            partitions,
            expected="a column with columnType Grouping",
            found="none",
            hint="add one, or write ${autobalance_single}",
        )


def _extended(root: Element, findings: FindingCollector) -> str | None:
    """The layout that the table has instead of the nested one."""
    elements = root.all("ExtendedStorage")
    for element in elements:
        value = element.attributes.get("type", "")
        if value not in EXTENDED_TYPES:
            hint = None if value.endswith(TABLE_FORMATS) else meant(value, EXTENDED_TYPES)
            findings.add(
                "E154",
                element,
                expected=", ".join(EXTENDED_TYPES),
                found=repr(value) if "type" in element.attributes else "no type",
                hint=hint or "choose a type of the list, or remove ExtendedStorage",
            )
    return elements[0].attributes.get("type", "") if elements else None


def _extended_format(root: Element, extended: str | None, findings: FindingCollector) -> str:
    """The format of the leaves of a tree beside history, of which only ``coreplus:hive`` trees have a choice."""
    chosen = next((one_of(element, "format", MERGE_FORMATS, findings) for element in root.all("ExtendedStorage")), None)
    if chosen not in (None, "Parquet") and extended != "coreplus:hive":
        (element,) = root.all("ExtendedStorage")[:1]
        hint = "leave format out, or choose coreplus:hive"
        findings.add("E154", element, expected='type="coreplus:hive" with this format', found=extended, hint=hint)
    return chosen or "Parquet"


UNSET_CHARSET = "ISO_8859_1"
_ROLES = {Kind.GROUPING: "Grouping", Kind.PARTITIONING: "Partitioning"}


def tbl_schema(definition: Definition, extended: str | None = None) -> TableSchema:
    """The definition as its ``.schema`` says it. Raises what ``Definition.schema`` raises."""
    schema = definition.schema()
    return replace(
        schema,
        nested=definition.storage_type != SPLAYED,
        columns=tuple(_stated(column) for column in schema.columns),
        extended=extended,
    )


def tbl_schema_text(definition: Definition, *, extended: str | None = None) -> str:
    """The file. ``extended``: type of the ``ExtendedStorage``, which the definition of such a table lacks.

    SettingsError: that is missing, or stated for a table without.
    """
    if (definition.storage_type == EXTENDED) != (extended is not None):
        stands = "is of an extended layout" if extended is None else "is not of an extended layout"
        raise SettingsError(
            f"the definition {stands}",
            expected=f"--extended with one of {', '.join(EXTENDED_TYPES)}" if extended is None else "no --extended",
            found=f"storage type {definition.storage_type}, {'no --extended' if extended is None else extended}",
        )
    return "".join(f"{line}\n" for line in _lines(definition, tbl_schema(definition, extended), extended))


def lost_in_text(definition: Definition, text: str) -> tuple[SchemaDifference, ...]:
    """What reading the file gives otherwise. SchemaParseError: a schema cannot say what the definition has."""
    return column_differences(tbl_schema(definition), parse_schema(text.encode(), "").schema)


def _stated(column: Column) -> Column:
    text = column.type.name == "String" or column.storage is Storage.SET
    charset = (column.encoding or UNSET_CHARSET) if text else None
    row = coded_row(column.type.name)
    codec = SERIALIZABLE if column.codec is None and row is not None and row.codec is not None else column.codec
    return replace(column, encoding=charset, codec=codec)


def _lines(definition: Definition, schema: TableSchema, extended: str | None) -> Iterator[str]:
    head = {"namespace": schema.namespace, "name": schema.name}
    splayed = definition.storage_type == SPLAYED
    yield f"<Table{_attributes(head | {'storageType': 'SplayedOnDisk' if splayed else 'NestedPartitionedOnDisk'})}>"
    if definition.storage_type == IN_MEMORY:
        yield "  <!-- of a table in memory -->"
    if extended is not None:
        yield f"  <ExtendedStorage{_attributes({'type': extended})}/>"
    classes = {record.name: record.data_type for record in definition_of(schema).columns}
    for column, record in zip(schema.columns, definition.columns, strict=True):
        if classes[column.name] != record.data_type:
            yield f"  <!-- class {record.data_type.replace('--', '- -')} -->"
        yield f"  <Column{_attributes(_column(column))}/>"
    yield "</Table>"


def _column(column: Column) -> dict[str, str]:
    shown = {"name": column.name, "dataType": column.type.name}
    if column.kind in _ROLES:
        shown["columnType"] = _ROLES[column.kind]
    if column.storage is Storage.BLOB and column.type.name == "String":
        shown["symbolTable"] = "None"
    blob = "symbolTable" in shown
    if column.kind is not Kind.PARTITIONING and column.encoding and (blob or column.encoding != DEFAULT_CHARSET):
        shown["encoding"] = column.encoding
    if column.codec is not None:
        shown["objectCodec"] = column.codec
    if column.codec_args is not None:
        shown["objectCodecArguments"] = column.codec_args
    if column.codec_width is not None:
        shown["objectWidth"] = str(column.codec_width)
    if column.component is not None and f"{column.component.name}[]" != column.type.name:
        shown["componentType"] = column.component.name
    return shown


def _attributes(values: dict[str, str]) -> str:
    return "".join(f" {name}={quoteattr(value)}" for name, value in values.items())
