"""Errors and warnings of a schema file: one table of codes, one value per finding.

Codes that begin with E are errors and refuse the schema, codes with W are warnings. A finding names file, line, column,
element and rule, what was expected and found, and what to do.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sparkhaven.store.errors import SchemaParseError
from sparkhaven.store.types.frozen import frozen

if TYPE_CHECKING:
    from sparkhaven.store.schema.xml_tree import Element


RULES: dict[str, str] = {
    "E101": "a schema is well-formed XML without DOCTYPE and entities, of at most 1 MiB",
    "E102": "the root element is Table or CopyTable",
    "E103": "namespace and name are identifiers",
    "W104": "the file is named <Namespace>.<Table>.schema",
    "E105": "a value is one of its list",
    "W106": "an element or attribute that is not known is kept and has no effect",
    "W107": "storageType is stated; without it the table is NestedPartitionedOnDisk",
    "W109": "a table that this release writes is NestedPartitionedOnDisk",
    "E108": "a CopyTable names a schema that exists and does not come back to itself",
    "E111": "a column has a name, which is an identifier, and a dataType",
    "E112": "two columns never have the same name, nor names that differ in case only",
    "W112": "two names of columns of a deployed schema differ by more than case",
    "E113": "a nested table has exactly one Partitioning column, a splayed one none",
    "W113": "a table that this release writes has one Partitioning column",
    "E114": "the Partitioning column is a String",
    "E115": "a Grouping column is a String, an Instant or a primitive",
    "W116": 'encoding is meant for String columns with symbolTable="None"',
    "E117": "a codec stands on an object column, with arguments that it knows and a width of at least 1",
    "W118": "a class that is not known is kept as a blob",
    "W119": "i, ii and k are names of the query language",
    "W120": "a column that this release writes has a type that it stores",
    "E121": "keyFormula uses only the tokens, operators and columns that exist",
    "E122": "keyFormula uses no partitioning, float or object column",
    "E123": "keyFormula gives a member of the partition array",
    "W124": "a formula by grouping column has one; without it a date goes to one partition",
    "E131": "ImportSource has a type of CSV, JDBC, JSON, XML",
    "E132": "an ImportColumn names a column of the table, and each at most once",
    "W133": "an ImportColumn has more than a name, else it has no effect",
    "E141": "a rule is known, has all attributes that it needs and no others",
    "E142": "a rule stands on columns that exist and fit it",
    "E143": "the bounds of a rule are values in ascending order and its filter can be parsed",
    "E151": "a DataIndex has columns, all of them exist, each once",
    "E152": "a merge codec belongs to a format that compresses",
    "W155": "an index is one that a merge of this release builds",
    "W153": "a table of ExtendedStorage has no Partitions; the formula is ignored",
    "E154": "the type of ExtendedStorage is known",
    "E161": "a schema does not change how existing data are stored",
}


@frozen
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
        """The rule that is broken, one sentence."""
        return RULES[self.code]

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
        return f"{len(errors)} errors, {len(self) - len(errors)} warnings{heads if len(errors) > 1 else ''}"


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
            f"{first.code}: rule broken: {first.rule}",
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
