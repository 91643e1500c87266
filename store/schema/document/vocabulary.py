"""The vocabulary of the schema language: which attributes and children each element may have."""

from __future__ import annotations

from dataclasses import dataclass

from sparkhaven.store.errors import meant
from sparkhaven.store.format.parquet.trees import EXTENDED
from sparkhaven.store.schema.findings import FindingCollector
from sparkhaven.store.schema.xml_tree import Element

STORAGE_TYPES = ("NestedPartitionedOnDisk", "SplayedOnDisk")
COLUMN_TYPES = ("Normal", "Partitioning", "Grouping")
SYMBOL_TABLES = ("None", "ColumnLocation")
IMPORT_TYPES = ("CSV", "JDBC", "JSON", "XML")
MERGE_CODECS = ("SNAPPY", "GZIP", "ZSTD", "LZ4_RAW", "UNCOMPRESSED")
EXTENDED_TYPES = tuple(EXTENDED)
TABLE_FORMATS = ("iceberg", "delta", "hudi")  # which other programs have, and no merge writes


@dataclass(frozen=True, slots=True)
class Word:
    """What an element may hold; ``None`` = anything, kept and never run."""

    attributes: frozenset[str] | None
    children: frozenset[str] | None


def _word(attributes: str, children: str = "") -> Word:
    return Word(frozenset(attributes.split()), frozenset(children.split()))


_KEPT = Word(None, None)
_KEPT_OF_LISTENERS = "logFormat listenerClass listenerPackage loggerClass loggerLanguage tableLogger verifyChecksum"
WORDS: dict[str, Word] = {
    "Table": _word(
        f"namespace name storageType defaultMergeFormat description namespaceSet {_KEPT_OF_LISTENERS}",
        "Partitions MergeAttributes Column DataIndex ExtendedStorage ImportSource Validator Listener Logger "
        "LoggerListener LogFormat InputTableSpec SystemInput LoggerImports ListenerImports",
    ),
    "CopyTable": _word("namespace name sourceNamespace sourceName description namespaceSet"),
    "Partitions": _word("keyFormula"),
    "MergeAttributes": _word("format codec dedupeKeys keep lastBy upsertInto orderBy distribution"),
    "Column": _word(
        "name dataType columnType symbolTable encoding objectCodec objectCodecArguments objectWidth componentType "
        "description intradayType intradaySetter timePrecision",
        "SystemInput",
    ),
    "DataIndex": _word("columns"),
    "ExtendedStorage": _word("type format"),  # ``format`` is our own
    "ImportSource": _word("type name arrayDelimiter maxError description", "ImportColumn ImportMacro ImportState"),
    "ImportColumn": _word("name sourceName sourceType formula default class stringSetDelimiter"),
    "Validator": Word(frozenset(), None),  # its children are rules, which have a table of their own
    **dict.fromkeys(
        (
            "Listener",
            "Logger",
            "LoggerListener",
            "LogFormat",
            "InputTableSpec",
            "SystemInput",
            "LoggerImports",
            "ListenerImports",
            "ImportMacro",
            "ImportState",
        ),
        _KEPT,
    ),
}


def check_words(root: Element, findings: FindingCollector) -> None:
    """One warning for each unknown element or attribute; children of an unknown element are not checked."""
    todo = [root]
    while todo:
        element = todo.pop()
        word = WORDS[element.name]
        if word.attributes is not None:
            for name in element.attributes:
                # a declaration of an XML namespace belongs to XML, not to us
                if name not in word.attributes and not name.startswith("xmlns"):
                    allowed = ", ".join(sorted(word.attributes)) or "no attribute"
                    findings.add(
                        "W106",
                        element,
                        expected=allowed,
                        found=f"attribute {name}",
                        hint=meant(name, word.attributes) or "it has no effect. Remove it if it is a typo",
                    )
        if word.children is None:
            continue
        for child in element.children:
            if child.name in word.children:
                todo.append(child)
            else:
                findings.add(
                    "W106",
                    child,
                    expected=", ".join(sorted(word.children)) or "no element",
                    found=f"element {child.name} in {element.name}",
                    hint=meant(child.name, word.children) or "it has no effect. Remove it if it is a typo",
                )


def one_of(element: Element, attribute: str, allowed: tuple[str, ...], findings: FindingCollector) -> str | None:
    """The value of an attribute that must be one of a list; None if absent; E105 (and None) if it is not."""
    value = element.attributes.get(attribute)
    if value is None or value in allowed:
        return value
    findings.add(
        "E105",
        element,
        expected=f"{attribute} one of {', '.join(allowed)}",
        found=f'{attribute}="{value}"',
        hint=meant(value, allowed) or "choose a value of the list",
    )
    return None
