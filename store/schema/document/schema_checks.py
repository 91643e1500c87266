"""Data indexes and validation rules of a ``Table`` element (E141 to E151)."""

from __future__ import annotations

from collections import Counter

from sparkhaven.store.errors import meant
from sparkhaven.store.schema.document.validator_rules import check_rule
from sparkhaven.store.schema.findings import FindingCollector
from sparkhaven.store.schema.xml_tree import Element
from sparkhaven.store.types.model import KEYS, Column, TableSchema, ValidatorRule, is_built


def check_indexes(
    root: Element, columns: tuple[Column, ...], findings: FindingCollector
) -> tuple[tuple[str, ...], ...]:
    """Key columns of each data index."""
    names = {c.name: c for c in columns}
    indexes: list[tuple[str, ...]] = []
    for element in root.all("DataIndex"):
        keys = tuple(part.strip() for part in element.attributes.get("columns", "").split(",") if part.strip())
        unknown = [key for key in keys if key not in names]
        repeated = [key for key, count in Counter(keys).items() if count > 1]
        if keys and not unknown and not repeated:
            indexes.append(keys)
            if not is_built(keys, columns):
                effect = "it has no effect. No merge writes it, and reads do not use it"
                findings.add("W155", element, expected=f"columns of {KEYS}", found=", ".join(keys), hint=effect)
            continue
        if unknown:
            fault, hint = f"{unknown[0]}, which is not a column", meant(unknown[0], names)
        elif repeated:
            fault, hint = f"{repeated[0]} more than once", "name each column once"
        else:
            fault, hint = "no columns", 'write columns="A" or columns="A,B"'
        findings.add(
            "E151", element, expected="columns of the table, each once", found=fault, hint=hint or "name a column"
        )
    return tuple(indexes)


def unbuilt_indexes(schema: TableSchema) -> str | None:
    """A line about the indexes of a schema that merges do not write; None if there are none."""
    listed = ["(" + ", ".join(keys) + ")" for keys in schema.data_indexes if not is_built(keys, schema.columns)]
    if not listed:
        return None
    names = f"DataIndex {', '.join(listed)} of {schema.full_name}"
    return f"{names} is not built. An index takes columns of {KEYS}"


def check_rules(root: Element, columns: tuple[Column, ...], findings: FindingCollector) -> tuple[ValidatorRule, ...]:
    """The rules of all ``Validator`` elements, each checked against the table of rules."""
    rules: list[ValidatorRule] = []
    for validator in root.all("Validator"):
        for element in validator.children:
            check_rule(element, columns, findings)
            rules.append(ValidatorRule(element.name, dict(element.attributes), element.line))
    return tuple(rules)
