"""``ImportSource`` blocks: the mapping of a source's fields to the columns of a table (E131, E132).

Importers of Deephaven use them. Here the stream file maps fields, which a finding says (W134).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from sparkhaven.store.errors import meant
from sparkhaven.store.schema.document.vocabulary import IMPORT_TYPES
from sparkhaven.store.schema.findings import FindingCollector
from sparkhaven.store.schema.xml_tree import Element
from sparkhaven.store.types.model import Column, Kind


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
