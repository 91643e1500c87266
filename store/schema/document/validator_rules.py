"""Data indexes and validation rules of a ``Table`` element (E141 to E151).

A rule that a ``Validator`` may hold has one row, with its attributes and the columns that it applies to.

Attributes that the rows do not list: ``modes`` (where a rule runs) is allowed on every rule.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

from sparkhaven.store.errors import SchemaParseError, meant
from sparkhaven.store.instants import parse_instant
from sparkhaven.store.schema.findings import FindingCollector
from sparkhaven.store.schema.xml_tree import Element
from sparkhaven.store.types.codings.local_date import LocalDateCoding
from sparkhaven.store.types.datatypes import DataType
from sparkhaven.store.types.model import KEYS, Column, TableSchema, ValidatorRule, is_built

MODES = ("SIMPLE_TABLE", "FULL_INTRADAY", "FULL_DATABASE")
SWITCHES = ("removeNull", "removeNaN", "removeInf")
Bound = Decimal | float | int | str
NON_EMPTY, EMPTY_CHECK = "NonEmptyValidator", "NullValidator"  # classes of Deephaven; the second one checks nothing
_COLUMN_ATTRIBUTES = ("column", "column1", "column2", "groupBy")
_LIST_ATTRIBUTES = ("columns",)
_INTEGERS = ("byte", "short", "int", "long", "char", "LocalTime")
_FLOATS = ("float", "double")
_NUMBERS = (*_INTEGERS, *_FLOATS, "BigDecimal", "BigInteger")
_ORDERED = (*_NUMBERS, "Instant", "LocalDate", "String")


Fits = Callable[[DataType], bool]


def _one_of(*names: str) -> Fits:
    return lambda data_type: data_type.name in names


def _any(_: DataType) -> bool:
    return True


def _array(data_type: DataType) -> bool:
    return data_type.name.endswith("[]")


_scalar, _ordered, _number = _one_of(*_ORDERED, "Boolean"), _one_of(*_ORDERED), _one_of(*_NUMBERS)
_float, _set = _one_of(*_FLOATS), _one_of("StringSet")


@dataclass(frozen=True, slots=True)
class RuleSpec:
    """One known rule. ``fits`` tells which types of column it applies to, ``fit_text`` the same in words."""

    name: str
    required: tuple[str, ...]
    optional: tuple[str, ...] = ()
    fits: Fits = _any
    fit_text: str = "any type"

    @property
    def attributes(self) -> tuple[str, ...]:
        """Every attribute that the rule may have."""
        return (*self.required, *self.optional, "modes")


def _rows() -> dict[str, RuleSpec]:
    rows: dict[str, RuleSpec] = {}

    def add(
        names: str, required: str, *, nni: bool = False, optional: str = "", fits: Fits = _any, text: str = "any type"
    ) -> None:
        for name in names.split():
            extra = (*optional.split(), *(SWITCHES if nni else ()))
            full = f"assert{name}"
            rows[full] = RuleSpec(full, tuple(required.split()), extra, fits, text)

    scalar, ordered, number = "a scalar type", "a number, an Instant, a date or a String", "a number"
    add("Size", "min max")
    add("ExpectedTableSize", "partitionsBefore partitionsAfter min max")
    add("CountEqual", "columns")
    add("ColumnType", "column type")
    add("ColumnTypes", "columns types")
    add("ColumnGrouped", "column", fits=_scalar, text=scalar)
    add("AllValuesBetween", "column minValue maxValue", nni=True, fits=_ordered, text=ordered)
    add("AllValuesEqual AllValuesNotEqual", "column", nni=True, fits=_scalar, text=scalar)
    add("AllValuesEqualInputValue AllValuesNotEqualInputValue", "column value", nni=True, fits=_scalar, text=scalar)
    add(
        "AllValuesInDistinctSet AllValuesNotInDistinctSet", "column expectedValues", nni=True, fits=_scalar, text=scalar
    )
    names = "AllValuesInArrayInDistinctSet AllValuesInArrayNotInDistinctSet"
    add(names, "column expectedValues", nni=True, fits=_array, text="an array")
    names = "AllValuesInStringSetInDistinctSet AllValuesInStringSetNotInDistinctSet"
    add(names, "column expectedValues", nni=True, fits=_set, text="a StringSet")
    names = "Ascending Descending StrictlyAscending StrictlyDescending"
    add(names, "column", nni=True, optional="groupBy", fits=_ordered, text=ordered)
    add("Avg", "column min max", nni=True, fits=_number, text=number)
    add("Min Max InRange", "column min max", nni=True, fits=_number, text=number)
    add("Percentile", "column percentile min max", nni=True, fits=_number, text=number)
    add("NumberDistinctValues", "columns min max", nni=True, fits=_scalar, text=scalar)
    add("FracNull", "column min max")
    add("FracNan FracInf", "column min max", fits=_float, text="float or double")
    add("FracZero", "column min max", fits=_number, text=number)
    add("FracValuesBetween", "column minValue maxValue min max", fits=_ordered, text=ordered)
    add("FracWhere", "filter min max")
    names = "Equal NotEqual Less LessEqual Greater GreaterEqual"
    add(names, "column1 column2", nni=True, fits=_scalar, text=scalar)
    add("NotNull", "column")
    add("DigestEqual OffsetsContiguous SymbolsUnique", "")
    rows[NON_EMPTY] = RuleSpec(NON_EMPTY, ())
    return rows


RULE_SPECS: dict[str, RuleSpec] = _rows()


def parse_value(text: str, data_type: DataType) -> Bound:
    """A value as a rule states it, for comparison with a column: a number, a text, nanoseconds; a date is its text.

    Raises ValueError when the text is not a value of the type, or NaN.
    """
    bare = text.strip()
    if data_type.name in ("String", "StringSet"):
        return text
    if data_type.name == "char":
        if len(bare) == 1 and ord(bare) < 0x10000:
            return ord(bare)
        raise ValueError("one character")
    if data_type.name == "Instant":
        return parse_instant(bare)
    if data_type.name == "LocalDate":
        LocalDateCoding(compact=False).parse(bare)
        return bare  # dates compare as their texts do
    if data_type.name == "Boolean":
        return {"true": True, "false": False}[bare] if bare in ("true", "false") else _fail("true or false")
    if data_type.name == "LocalTime":
        return _time(bare, data_type)
    if data_type.name in _FLOATS:
        value = float(bare)
        return _fail("a number that is not NaN") if math.isnan(value) else value
    if data_type.name in ("BigDecimal", "BigInteger"):
        return _decimal(bare)
    # the bound of an integer column may have a fraction: it bounds all the same
    return int(bare) if re.fullmatch(r"[+-]?\d{1,40}", bare) else _decimal(bare)


def _time(text: str, data_type: DataType) -> int:
    """Nanoseconds of the day, of a time or of their number."""
    if text.isdecimal():
        return int(text) if int(text) < 86_400_000_000_000 else int(_fail("a time below 24:00"))
    assert data_type.coding is not None  # noqa: S101
    return int(data_type.coding.parse(text))


def _decimal(text: str) -> Decimal:
    try:
        value = Decimal(text)
    except InvalidOperation:
        return _fail("a number")
    return value if value.is_finite() else _fail("a finite number")


def _fail(expected: str) -> Decimal:
    raise ValueError(expected)


def split_list(text: str) -> tuple[str, ...]:
    """The parts of a comma-separated attribute, without the spaces around them."""
    return tuple(part.strip() for part in text.split(","))


def check_rule(element: Element, columns: tuple[Column, ...], findings: FindingCollector) -> None:
    """Checks one child of ``Validator``: E141, then E142, then E143; a rule without findings can be bound."""
    spec = RULE_SPECS.get(element.name)
    if spec is None:
        hint = meant(element.name, RULE_SPECS) or "see the table of rules in the reference of the schema"
        name = element.name
        if name == EMPTY_CHECK:
            name, hint = f"{name}, which passes whatever the rows are", f"remove it. {NON_EMPTY} needs one row"
        findings.add("E141", element, expected="a rule that is known", found=name, hint=hint)
        return
    missing = [a for a in spec.required if a not in element.attributes]
    unknown = [a for a in element.attributes if a not in spec.attributes]
    if missing or unknown:
        misspelt = next((a for a in unknown if missing and a.lower() == missing[0].lower()), None)
        advice = "state it" if missing else meant(unknown[0], spec.attributes) or "remove it"
        optional = (*spec.optional, "modes")
        fault = f"no attribute {missing[0]}" if missing else f"attribute {unknown[0]}"
        findings.add(
            "E141",
            element,
            expected=f"attributes {', '.join(spec.required) or '(none)'}, optional {', '.join(optional)}",
            found=fault,
            hint=f"attributes are case-sensitive. Write {missing[0]}, not {misspelt}" if misspelt else advice,
        )
        return
    for attribute in (*SWITCHES, "modes"):
        allowed = MODES if attribute == "modes" else ("true", "false")
        value = element.attributes.get(attribute)
        bad = [] if value is None else [part for part in split_list(value) if part not in allowed]
        if bad:
            findings.add(
                "E141",
                element,
                expected=f"{attribute} of {', '.join(allowed)}",
                found=f'{attribute}="{value}"',
                hint=meant(bad[0], allowed),
            )
            return
    by_name = {c.name: c for c in columns}
    if _check_columns(element, spec, by_name, findings):
        _check_bounds(element, by_name, findings)
        _check_filter(element, columns, findings)


def _check_columns(element: Element, spec: RuleSpec, by_name: dict[str, Column], findings: FindingCollector) -> bool:
    named = [(a, element.attributes[a]) for a in _COLUMN_ATTRIBUTES if a in element.attributes]
    for attribute in _LIST_ATTRIBUTES:
        named += [(attribute, part) for part in split_list(element.attributes.get(attribute, "")) if part]
    if "columns" in element.attributes and not any(a == "columns" for a, _ in named):
        findings.add("E142", element, expected="columns of the table", found='columns=""', hint="name a column")
        return False
    for attribute, name in named:
        column = by_name.get(name)
        if column is None:
            hint = meant(name, by_name) or "name a column of the table"
            findings.add("E142", element, expected="a column of the table", found=f'{attribute}="{name}"', hint=hint)
            return False
        if attribute != "groupBy" and not spec.fits(column.type):
            findings.add(
                "E142",
                element,
                expected=f"{attribute} of {spec.fit_text}",
                found=f"{name}, which is of type {column.type.name}",
                hint="use another column or another rule",
            )
            return False
    return True


def _check_bounds(element: Element, by_name: dict[str, Column], findings: FindingCollector) -> None:
    stated = element.attributes
    column = by_name.get(stated.get("column", ""))
    numbers = [a for a in ("min", "max", "partitionsBefore", "partitionsAfter", "percentile") if a in stated]
    values: dict[str, Bound] = {}
    for attribute in (*numbers, *(a for a in ("minValue", "maxValue", "value") if a in stated)):
        try:
            typed = column is not None and attribute not in numbers
            values[attribute] = (
                parse_value(stated[attribute], column.type) if typed and column else _decimal(stated[attribute].strip())
            )
        except ValueError as error:
            kind = column.type.name if column is not None and attribute not in numbers else "number"
            findings.add(
                "E143",
                element,
                expected=f"{attribute} is a value of type {kind}",
                found=f'{attribute}="{stated[attribute]}"',
                hint=f"write {error}" if attribute not in numbers else "write a number",
            )
            return
    if column is not None and "expectedValues" in stated and not _check_list(element, column, findings):
        return
    for low, high in (("min", "max"), ("minValue", "maxValue")):
        if low in values and high in values and values[low] > values[high]:  # type: ignore[operator]
            findings.add(
                "E143",
                element,
                expected=f"{low} not above {high}",
                found=f'{low}="{stated[low]}" {high}="{stated[high]}"',
                hint="exchange the two",
            )
            return


def _check_list(element: Element, column: Column, findings: FindingCollector) -> bool:
    kind = column.component or column.type
    for text in split_list(element.attributes["expectedValues"]):
        try:
            parse_value(text, kind)
        except ValueError as error:
            findings.add(
                "E143",
                element,
                expected=f"expectedValues of type {kind.name}, separated by commas",
                found=repr(text),
                hint=f"write {error}",
            )
            return False
    return True


def _check_filter(element: Element, columns: tuple[Column, ...], findings: FindingCollector) -> None:
    text = element.attributes.get("filter")
    if text is None:
        return
    from sparkhaven.store.expressions.predicate.expression import UNKNOWN_COLUMN, parse_predicate  # which few need

    try:
        parse_predicate(text, columns)
    except SchemaParseError as error:
        code = "E142" if error.kind == UNKNOWN_COLUMN else "E143"
        findings.add(code, element, expected=error.expected, found=error.found, hint=error.hint)


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
