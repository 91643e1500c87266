"""The columns that decoding has to produce, worked out once from a stream's settings and its table.

Also here: which settings of ``[columns]`` a column of each type can have; and the columns that a source declares
(Parquet schema, CSV header, ``names`` of settings) against those that a table stores. A column that is not declared
would be null in every row, without any value being wrong: the source is refused, unless settings say that missing
columns are null. A source that declares none of them is refused in any case.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from difflib import get_close_matches
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from sparkhaven.ingest.spec import ColumnSpec, MissingColumns, StreamSpec, Target, TextForm
from sparkhaven.ingest.values.instants import UNITS_OF
from sparkhaven.ingest.values.text_forms import NUMBERS, date_pattern
from sparkhaven.store.errors import FeedError, SettingsError, listed
from sparkhaven.store.layout import check_partition, encode_internal
from sparkhaven.store.types.datatypes import data_type
from sparkhaven.store.types.model import Column, Kind, Storage, TableSchema

STRICT = TextForm()
INSTANTS = ("Instant", "Instant[]")
NAMES = "names of a CSV feed"


def check_form(spec: ColumnSpec, column: Column, where: str) -> None:
    """SettingsError for a setting that the column cannot have, or that contradicts another."""
    name, form = column.type.name, spec.form or STRICT
    number, boolean = name in NUMBERS, name == "Boolean"
    dated = (name in ("LocalDate", "LocalTime") or name in INSTANTS) and spec.unit == "iso"
    coding = column.type.coding
    quotable = number or boolean or spec.unit != "iso"
    rules = [
        (spec.far is not None, name in INSTANTS, "far", "an Instant"),
        (form.pattern is not None, dated, "format", "an Instant, a LocalDate or a LocalTime without unit"),
        (form.trim, coding is None or "text" in coding.sources, "trim", "a type that a text writes: no array or map"),
        (form.thousands != "", number, "thousands", "a number"),
        (form.decimal != ".", number, "decimal", "a number"),
        (bool(form.true or form.false), boolean, "true or false", "a Boolean"),
        (form.quoted, quotable, "quoted", "a number, a Boolean, or a type with unit"),
        (form.as_text, name == "String", "as_text", "a String"),
        (spec.lossy, name in ("float", "double"), "lossy", "a float or double"),
    ]
    for is_set, fits, key, expected in rules:
        if is_set and not fits:
            raise SettingsError(
                f"column {column.name} cannot have the setting {key}", where=where, expected=expected, found=name
            )
    if bool(form.true) != bool(form.false) or set(form.true) & set(form.false):
        raise SettingsError(
            f"column {column.name} lacks texts for true or for false, or has one for both",
            where=where,
            expected='like true = ["1", "t"] and false = ["0", "f"]',
            found=f"true = {list(form.true)}, false = {list(form.false)}",
        )
    for key, mark in (("thousands", form.thousands), ("decimal", form.decimal)):
        if mark and (len(mark) != 1 or mark.isalnum() or mark in "+-"):
            raise SettingsError(
                f"{key} of column {column.name} is not a single mark",
                where=where,
                expected="one character other than a letter, digit or sign",
                found=repr(mark),
            )
    if form.thousands == form.decimal:
        raise SettingsError(
            f"column {column.name} has the same mark for thousands and decimal", where=where, found=repr(form.decimal)
        )
    if form.pattern is not None:
        try:
            if date_pattern(form.pattern, clock=name == "LocalTime").has_clock and name == "LocalDate":
                raise ValueError("a LocalDate has no time of day")
        except ValueError as error:
            raise SettingsError(
                f"format of column {column.name} is not a date pattern",
                where=where,
                expected='a pattern like "%H%M%S"' if name == "LocalTime" else 'a pattern like "%Y/%m/%d %H:%M:%S"',
                found=f"{form.pattern}: {error}",
            ) from None


def resolve_targets(spec: StreamSpec, schema: TableSchema) -> tuple[Target, ...]:
    """Every stored column in definition order, then fields that only routing needs.

    Raises SettingsError for settings that name no column or do not fit it, and for a table that stores none.
    """
    if not schema.stored:
        raise SettingsError(
            "the table has no column that rows are stored in",
            where=_where(spec),
            expected="a column beside the partitioning one",
            found=", ".join(column.name for column in schema.columns),
            hint=f"add a column to the schema of {schema.full_name}",
        )
    specs = {column_spec.column: column_spec for column_spec in spec.columns}
    if len(specs) != len(spec.columns):
        twice = sorted(name for name in specs if sum(c.column == name for c in spec.columns) > 1)
        raise SettingsError("a column is described twice", where=_where(spec), found=", ".join(twice))
    targets = [_target(spec, column, specs.pop(column.name, None), True) for column in schema.stored]
    routing = _routing_only(spec, schema)
    targets += [_target(spec, column, specs.pop(column.name, None), False) for column in routing]
    if specs:
        names = [c.name for c in schema.stored]
        raise SettingsError(
            "settings describe a column that the table does not have",
            where=_where(spec),
            expected=", ".join(names),
            found=", ".join(sorted(specs)),
            hint="correct the name under [columns], or list the field under `ignore`",
        )
    _check_ignored(spec, targets)
    _check_partition_rules(spec, {t.column.name: t for t in targets})
    return tuple(targets)


def _target(spec: StreamSpec, column: Column, column_spec: ColumnSpec | None, stored: bool) -> Target:
    column_spec = column_spec or ColumnSpec(column.name)
    if column_spec.meta is not None:
        meta_types = spec.feed.traits.meta
        types = meta_types.get(column_spec.meta.partition(":")[0])
        if types is None or column.type.name not in types:
            raise SettingsError(
                f"column {column.name} cannot hold the {column_spec.meta} of a row of this feed",
                where=_where(spec),
                expected="; ".join(f"{k}: {' or '.join(sorted(v))}" for k, v in meta_types.items()),
                found=f"meta {column_spec.meta} for a column of type {column.type.name}",
            )
    name = column.type.name
    if column_spec.unit != "iso" and column_spec.unit not in (units := UNITS_OF.get(name, ())):
        raise SettingsError(
            f"column {column.name} cannot have this unit",
            where=_where(spec),
            expected=", ".join(units) or f"no unit: {', '.join(UNITS_OF)} have one",
            found=f"{column_spec.unit} for {name}",
        )
    if column_spec.zone is not None:
        if name not in INSTANTS:
            raise SettingsError(
                f"column {column.name} has a zone, and is not an Instant",
                where=_where(spec),
                expected=f"a zone for {' or '.join(INSTANTS)}",
                found=name,
            )
        check_zone(column_spec.zone, _where(spec))
    check_form(column_spec, column, _where(spec))
    source = column_spec.source or column.name
    required = column_spec.required
    if required is None:
        required = spec.required and column_spec.meta is None
    return Target(
        column,
        source,
        column_spec.unit,
        column_spec.zone,
        column_spec.meta,
        stored,
        column_spec.of,
        column_spec.far,
        column_spec.form,
        column_spec.lossy,
        required,
    )


def _routing_only(spec: StreamSpec, schema: TableSchema) -> list[Column]:
    wanted: list[tuple[str, str]] = []
    if spec.partition.internal.kind == "column":
        wanted.append((spec.partition.internal.name, "String"))
    if spec.partition.value.column is not None:
        wanted.append((spec.partition.value.column, "long" if spec.partition.value.unit else "Instant"))
    stored = {c.name for c in schema.stored}
    columns: dict[str, Column] = {}
    for name, kind in wanted:
        if name in stored or name in columns:
            continue
        encoding = "UTF_8" if kind == "String" else None
        columns[name] = Column(name, data_type(kind), Kind.NORMAL, Storage.NONE, -1, encoding)
    return list(columns.values())


def _check_ignored(spec: StreamSpec, targets: list[Target]) -> None:
    clash = sorted({t.source for t in targets if t.meta is None and t.stored} & set(spec.ignore))
    if clash:
        raise SettingsError(
            "a field is both stored and ignored",
            where=_where(spec),
            found=", ".join(clash),
            hint="take it out of `ignore`, or give the column another source with `from`",
        )


def _check_partition_rules(spec: StreamSpec, targets: dict[str, Target]) -> None:
    internal, value = spec.partition.internal, spec.partition.value
    if internal.kind == "column":
        kind = targets[internal.name].column.type.name
        if kind in ("float", "double", "Instant"):
            raise SettingsError(
                f"column {internal.name} cannot name internal partitions",
                where=_where(spec),
                expected="String, char, Boolean or a whole-number type",
                found=kind,
            )
    elif internal.kind == "fixed":
        if encode_internal(internal.name) != internal.name:
            check_partition("internal partition", internal.name)
    elif internal.name not in (possible := spec.feed.traits.internal):
        raise SettingsError(
            "this part of the position cannot name internal partitions of this feed",
            where=_where(spec),
            expected=" or ".join(possible),
            found=internal.name,
        )
    if (value.fixed is None) == (value.column is None):
        raise SettingsError("the partition value has both a column and a fixed text, or neither", where=_where(spec))
    if value.fixed is not None:
        check_partition("partition value", value.fixed)
        return
    kind = targets[str(value.column)].column.type.name
    if kind != ("long" if value.unit else "Instant") or value.unit == "iso":
        raise SettingsError(
            f"column {value.column} cannot give the partition value",
            where=_where(spec),
            expected="an Instant column, or a long column with unit s, ms, us or ns",
            found=kind if value.unit is None else f"{kind} with unit {value.unit}",
        )
    check_zone(value.zone, _where(spec))


def check_zone(name: str, where: str) -> ZoneInfo:
    """The time zone of that name; an unknown one is a SettingsError."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise SettingsError(
            "unknown time zone",
            where=where,
            expected="a name like America/New_York or UTC",
            found=name,
            hint="write a name of the IANA time zone database",
        ) from None


def _where(spec: StreamSpec) -> str:
    return f"stream {spec.stream}"


def require_columns(
    targets: Sequence[Target],
    declared: Sequence[str],
    where: str,
    missing: MissingColumns = "fail",
    *,
    source: str = "the schema of a file",
    further: Collection[str] = frozenset(),
) -> None:
    """FeedError with the columns that are missing, those found, and which of them may be meant.

    ``source`` is what declares them, at ``where``. If that is ``NAMES``, of the settings, it is a SettingsError.
    ``further`` names columns that are declared elsewhere and null here.
    """
    wanted = {target.source: target for target in targets if target.meta is None}
    lacking = [name for name in wanted if name not in declared]
    if not lacking:
        return
    lacking = [name for name in lacking if name not in further]
    none = len(lacking) == len(wanted)
    if not lacking or (missing == "null" and not none):
        return
    routing = any(not wanted[name].stored for name in lacking)
    others = [name for name in declared if name not in wanted]
    near = {wanted[name].column.name: close for name in lacking if (close := near_name(name, others))}
    has, lacks, kind = ("have", "lack", SettingsError) if source == NAMES else ("has", "lacks", FeedError)
    needing = "the partition needs" if routing else "the table stores"
    raise kind(
        f"{source} {has} no field that a column takes, so all rows would be nulls"
        if none
        else f"{source} {lacks} columns that {needing}, which would be null in all rows",
        where=where,
        expected=listed([*map(repr, lacking)]),
        found=listed([*map(repr, dict.fromkeys(declared))]) or "no column at all",
        hint=_hint(near, none or routing),
    )


def near_name(name: str, others: Sequence[str]) -> str | None:
    """The one of ``others`` that may be meant by a name: equal but for case, blanks, dashes; else the most alike."""
    folded = {_folded(other): other for other in reversed(others)}
    if _folded(name) in folded:
        return folded[_folded(name)]
    close = get_close_matches(_folded(name), list(folded), n=1, cutoff=0.75)
    return folded[close[0]] if close else None


def _folded(name: str) -> str:
    return "".join(name.casefold().split()).replace("_", "").replace("-", "").strip("\"'\ufeff")


def _hint(near: dict[str, str], needed: bool) -> str:
    named = {name: json.dumps(close, ensure_ascii=False) for name, close in list(near.items())[:3]}
    mapped = ", ".join(f"{name} = {{ from = {text} }}" for name, text in named.items())
    meant = f"if these are meant, write {mapped} under [columns]. " if near else ""
    allow = "" if needed else ', or set missing_columns = "null" in [feed] to store nulls'
    return f"{meant}{'Else c' if near else 'c'}orrect the producer, or the names under [columns] or in [feed]{allow}"
