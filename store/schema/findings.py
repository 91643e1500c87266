"""Errors and warnings of a schema file: one table of codes, one value per finding.

Codes that begin with E are errors and refuse the schema, codes with W are warnings. A finding names file, line, column,
element and what is wrong, what was expected and found, and what to do.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sparkhaven.store.errors import SchemaParseError, counted

if TYPE_CHECKING:
    from sparkhaven.store.schema.xml_tree import Element


VIOLATIONS: dict[str, str] = {
    "E101": "the schema is not well-formed XML, has DOCTYPE or entities, or is longer than 1 MiB",
    "E102": "the root element is not Table or CopyTable",
    "E103": "namespace or name is not an identifier",
    "W104": "the file is not named <Namespace>.<Table>.schema",
    "E105": "a value is not one of its list",
    "W106": "an unknown element or attribute has no effect",
    "W107": "storageType is missing, so the table is NestedPartitionedOnDisk",
    "W109": "the table is not NestedPartitionedOnDisk, which this release does not write",
    "E108": "a CopyTable names a schema that is missing or leads back to it",
    "E111": "a column lacks its dataType, or a name that is an identifier",
    "E112": "two columns have the same name, or names that differ in case only",
    "W112": "two names of columns of a deployed schema differ in case only",
    "E113": "a nested table has more or less than one Partitioning column, or a splayed table has one",
    "W113": "the table has several Partitioning columns, which this release does not write",
    "E114": "the Partitioning column is not a String",
    "E115": "a Grouping column is not a String, an Instant or a primitive",
    "W116": 'encoding stands on a column that is not a String with symbolTable="None"',
    "E117": "a codec stands on a column without objects, or has unknown arguments or a width below 1",
    "W118": "the class of a column is unknown, so its values are blobs",
    "W119": "a column is named i, ii or k, as the query language names its own",
    "E121": "keyFormula uses an unknown token, operator or column",
    "E122": "keyFormula uses the partitioning column, or one of a type that has no key",
    "E123": "the result of keyFormula is not a member of the partition array",
    "W124": "a formula by grouping column lacks that column, so a date goes to one partition",
    "E131": "the type of ImportSource is not CSV, JDBC, JSON or XML",
    "E132": "an ImportColumn names an unknown column, or one that another names",
    "W133": "an ImportColumn has nothing but a name, so it has no effect",
    "W134": "an ImportSource maps fields to columns, which no command takes from it",
    "E141": "a rule is unknown, lacks an attribute or has one too many",
    "E142": "a rule stands on a column that is missing or does not fit it",
    "E143": "the bounds of a rule are not ascending values, or its filter cannot be parsed",
    "E151": "a DataIndex has no columns, unknown ones, or one twice",
    "E152": "a merge codec stands beside a format that does not compress",
    "E156": "the rule of duplicates of MergeAttributes cannot be used",
    "W155": "a DataIndex has a column that cannot be a key, and is not built",
    "W153": "a table of ExtendedStorage has Partitions, whose formula is ignored",
    "E154": "merges write no tree of this type of ExtendedStorage",
    "E161": "the schema changes how existing data are stored",
}


@dataclass(frozen=True, slots=True)
class SchemaFinding:
    """One error or warning; ``line`` and ``column`` count from 1, ``element`` is its tag and name."""

    code: str
    file: str
    line: int
    column: int
    element: str
    expected: str | None = None
    found: str | None = None
    hint: str | None = None

    @property
    def severity(self) -> str:
        """``error`` or ``warning``."""
        return "error" if self.code.startswith("E") else "warning"

    @property
    def rule(self) -> str:
        """What is wrong, one sentence."""
        return VIOLATIONS[self.code]

    @property
    def where(self) -> str:
        """``file:line:column``."""
        return f"{self.file}:{self.line}:{self.column}"

    def text(self) -> str:
        """The finding for people, several lines."""
        parts = [("element", self.element), ("expected", self.expected), ("found", self.found), ("to do", self.hint)]
        head = f"{self.where}: {self.severity} {self.code}: {self.rule}"
        return "\n".join([head, *(f"  {name}: {value}" for name, value in parts if value is not None)])

    def __str__(self) -> str:
        return self.text()

    def to_json(self) -> dict[str, object]:
        """The finding as one JSON object."""
        return {
            "code": self.code,
            "severity": self.severity,
            "file": self.file,
            "line": self.line,
            "column": self.column,
            "element": self.element,
            "rule": self.rule,
            "expected": self.expected,
            "found": self.found,
            "hint": self.hint,
        }


class FindingList(tuple[SchemaFinding, ...]):
    """All findings of one file; as text a count with the heads of the errors."""

    __slots__ = ()

    def __str__(self) -> str:
        errors = [f for f in self if f.severity == "error"]
        heads = "".join(f"\n    {f.where}: {f.code}: {f.rule} ({f.element})" for f in errors)
        counts = f"{counted(len(errors), 'error')}, {counted(len(self) - len(errors), 'warning')}"
        return f"{counts}{heads if len(errors) > 1 else ''}"


@dataclass(slots=True)
class FindingCollector:
    """Collects the findings of one file, so that a user sees all of them at once."""

    file: str
    found: list[SchemaFinding] = field(default_factory=list)

    def add(
        self,
        code: str,
        element: Element,
        *,
        expected: str | None = None,
        found: str | None = None,
        hint: str | None = None,
    ) -> None:
        """Notes a finding at the start of an element."""
        self.found.append(
            SchemaFinding(code, self.file, element.line, element.column, element.label, expected, found, hint)
        )

    def raise_errors(self) -> None:
        """Raises the first error, if there is one, with all findings in it."""
        raise_errors(self.found)


def raise_errors(findings: Iterable[SchemaFinding]) -> None:
    """Raises SchemaParseError for the first E; ``findings`` of the error holds every finding of the file."""
    every = FindingList(sorted(findings, key=lambda f: (f.line, f.column)))
    first = next((f for f in every if f.severity == "error"), None)
    if first is not None:
        raise SchemaParseError(
            f"{first.code}: {first.rule}",
            where=first.where,
            expected=first.expected,
            found=first.found,
            hint=first.hint,
            code=first.code,
            element=first.element,
            line=first.line,
            column=first.column,
            findings=every,
        )
