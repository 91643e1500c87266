"""What is proposed, as texts: a ``.schema``, and a stream file for a schema and a feed, with reasons as comments.

A stream file is TOML; values are written so that ``tomllib`` reads the same value back. In a schema the reason for each
column stands above it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, cast
from xml.sax.saxutils import quoteattr

from sparkhaven.ingest.inference.field_facts import ColumnSettings, Reading
from sparkhaven.ingest.inference.fitting import Fit, Fitted
from sparkhaven.ingest.inference.proposal import (
    DateColumn,
    FieldColumn,
    Proposal,
    date_column,
    grouping_column,
    internal_column,
)
from sparkhaven.ingest.sample_rows import printable, shown
from sparkhaven.store.instants import DAY_NS, NS_PER_SECOND
from sparkhaven.store.layout import TableName
from sparkhaven.store.types.model import TableSchema

_BARE = re.compile(r"[A-Za-z0-9_-]+\Z")
_SHORT = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
WALL_DAYS = 30  # of ``max_past`` and ``max_future`` where nothing is said
FAR_DAYS = 3650  # around the sample, for feeds of the past
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
BY_GROUP, SINGLE = "${autobalance_by_first_grouping_column}", "${autobalance_single}"


def toml_value(value: Any) -> str:
    """A value, tables inline. TypeError for what TOML has no form for."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return '"' + "".join(_character(c) for c in value) + '"'
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(toml_value, value))}]"
    if isinstance(value, Mapping):
        return f"{{ {', '.join(f'{toml_key(k)} = {toml_value(v)}' for k, v in value.items())} }}" if value else "{}"
    raise TypeError(f"no TOML value: {type(value).__name__}")


def toml_key(name: str) -> str:
    """A key, in quotes where it needs them."""
    return name if _BARE.match(name) else toml_value(name)


def literal(text: str) -> str:
    """A text in which ``${`` means itself, not a name of the environment."""
    return text.replace("${", "$${")


def _character(character: str) -> str:
    if character in _SHORT:
        return _SHORT[character]
    return character if character.isprintable() or ord(character) > 0x9F else f"\\u{ord(character):04X}"


@dataclass(frozen=True, slots=True)
class StreamWishes:
    """What the stream is called, the path of its schema as the file says it, the zone of days, and what time it is."""

    name: str
    schema_path: str
    zone: str
    now_ns: int


def stream_text(schema: TableSchema, raw: Mapping[str, Any], fit: Fit, wishes: StreamWishes) -> str:
    """The file. ``raw`` is what is there of it, as it is to be written: ``feed``, and any other table, which stays."""
    return "".join(f"{line}\n" for line in _lines(schema, raw, fit, wishes))


def _lines(schema: TableSchema, raw: Mapping[str, Any], fit: Fit, wishes: StreamWishes) -> Iterator[str]:
    sample = fit.sample
    extent = (
        f"{sample.rows:,} rows of {printable(sample.origin)} ({'all there are' if sample.whole else 'there are more'})"
    )
    yield f"# {schema.full_name} from {extent}: look it over before use."
    for remark in sample.remarks:
        yield f"# {printable(remark)}"
    yield f"name   = {toml_value(literal(wishes.name))}"
    yield f"table  = {toml_value(schema.full_name)}"
    yield f"schema = {toml_value(literal(wishes.schema_path))}"
    yield ""
    yield "[feed]"
    for key, value in {**raw["feed"], **_feed_more(raw["feed"], fit)}.items():
        yield f"{toml_key(key)} = {toml_value(value)}"
    dates = date_column(sample, fit.candidates, wishes.zone)
    table = raw.get("columns", {})
    columns = [line for fitted in fit.columns if (line := _column(fitted))]
    stored = {fitted.column.name for fitted in fit.columns}
    columns += [f"{toml_key(k)} = {toml_value(v)}" for k, v in table.items() if k not in stored and k != "ignore"]
    if dates is not None and dates.routing is not None and "partition" not in raw:
        source, reading = dates.routing
        columns.append(
            f"{dates.name} = {toml_value(_settings(dates.name, source, reading))}   # not stored: gives the date"
        )
    ignore = list(dict.fromkeys([*table.get("ignore", []), *(literal(name) for name in fit.ignored)]))
    if columns or ignore:
        yield ""
        yield "[columns]"
        yield from columns
        if ignore:
            yield f"ignore = {toml_value(ignore)}   # fields that no column takes"
    yield ""
    yield "[partition]"
    yield from _table(raw["partition"]) if "partition" in raw else _partition(schema, fit, dates, wishes)
    yield ""
    yield "[bad_rows]"
    if "bad_rows" in raw:
        yield from _table(raw["bad_rows"])
    else:
        yield "max_rows = 1000   # a batch. Further ones stop the stream. 0: the first one does"
    if "commit" in raw:
        yield ""
        yield "[commit]"
        yield from _table(raw["commit"])


def _table(values: Mapping[str, Any]) -> Iterator[str]:
    yield from (f"{toml_key(key)} = {toml_value(value)}" for key, value in values.items())


def _feed_more(feed: Mapping[str, Any], fit: Fit) -> dict[str, Any]:
    sample = fit.sample
    more: dict[str, Any] = {}
    if sample.form == "csv" and tuple(feed.get("null", [""])) != sample.null:
        more["null"] = [literal(text) for text in sample.null]
    if "missing_columns" not in feed and any(fitted.source in sample.lacking for fitted in fit.columns):
        more["missing_columns"] = "null"
    return more


def _column(fitted: Fitted) -> str | None:
    name = toml_key(fitted.column.name)
    if fitted.given is not None:
        return f"{name} = {toml_value(fitted.given)}"
    if fitted.meta is not None:
        return f'{name} = {{ meta = "{fitted.meta}" }}'
    if fitted.source is None or fitted.reading is None:
        return None
    settings = _settings(fitted.column.name, fitted.source, fitted.reading)
    if not settings:
        return None
    remark = ""
    if fitted.reading.zone is not None:
        remark = "   # the zone of times without an offset: correct it if it is another"
    if fitted.bad:
        remark = f"   # {fitted.bad:,} values of the sample cannot be stored and are bad rows"
    return f"{name} = {toml_value(settings)}{remark}"


def _settings(column: str, source: str, reading: Reading) -> ColumnSettings:
    form = reading.form
    settings: ColumnSettings = {}
    if source != column:
        settings["from"] = literal(source)
    if reading.unit != "iso":
        settings["unit"] = reading.unit
    if reading.zone is not None:
        settings["zone"] = reading.zone
    if reading.far is not None:
        settings["far"] = reading.far
    if reading.lossy:
        settings["lossy"] = True
    if form is not None:
        kept: dict[str, Any] = {
            "format": form.pattern,
            "trim": form.trim,
            "quoted": form.quoted,
            "as_text": form.as_text,
        }
        kept |= {"thousands": form.thousands, "decimal": form.decimal if form.decimal != "." else None}
        kept |= {"true": list(form.true), "false": list(form.false)}
        settings |= cast("ColumnSettings", {key: value for key, value in kept.items() if value})
    return settings


def _partition(schema: TableSchema, fit: Fit, dates: DateColumn | None, wishes: StreamWishes) -> Iterator[str]:
    sample = fit.sample
    grouping = schema.grouping[0].name if schema.grouping else None
    column = internal_column(fit.candidates, sample.rows, grouping)
    if sample.messages:
        yield 'internal = { meta = "partition" }   # one directory a topic partition: each task has its own'
    elif column is not None:
        remark = f'{column.facts.distinct} plain values, each often. Or {{ fixed = "0" }}'
        yield f"internal = {toml_value({'column': column.name})}   # {remark}"
    else:
        yield 'internal = { fixed = "0" }   # or { column = "a String with few values, none null" }'
    if dates is not None:
        yield f"value = {toml_value({'column': dates.name, 'zone': wishes.zone})}"
        yield from _bounds(dates, wishes)
    elif sample.messages and any(fitted.meta == "timestamp" for fitted in fit.columns):
        name = next(fitted.column.name for fitted in fit.columns if fitted.meta == "timestamp")
        yield f"value = {toml_value({'column': name, 'zone': wishes.zone})}"
    else:
        yield 'value = { fixed = "all" }   # no field without nulls is an instant. { column = "an Instant" } has dates'


def _bounds(dates: DateColumn, wishes: StreamWishes) -> Iterator[str]:
    """The clock that bounds are measured from, where the wall clock would refuse rows of the sample."""
    near = (WALL_DAYS - 1) * DAY_NS
    if wishes.now_ns - near <= dates.low and dates.high <= wishes.now_ns + near:
        return
    past = max(FAR_DAYS, 2 * -(-(dates.high - dates.low) // DAY_NS))
    newest = _EPOCH + timedelta(seconds=dates.high // NS_PER_SECOND)
    yield f'clock = "{newest:%Y-%m-%dT%H:%M:%SZ}"   # the newest of the sample: by the wall clock it is out of bounds'
    yield f'max_past = "{past} d"   # rows further away are bad rows'
    yield f'max_future = "{FAR_DAYS} d"'


@dataclass(frozen=True, slots=True)
class SchemaWishes:
    """What of the schema was asked for instead of being inferred. ``grouping``: names of columns; none: the best."""

    partitioning: str = "Date"
    zone: str = "UTC"
    grouping: tuple[str, ...] = ()
    key_formula: str | None = None


def schema_text(table: TableName, proposal: Proposal, wishes: SchemaWishes) -> str:
    """The file. The same proposal gives the same text."""
    return "".join(f"{line}\n" for line in _schema_lines(table, proposal, wishes))


def groups_of(proposal: Proposal, wishes: SchemaWishes) -> tuple[str, ...]:
    if wishes.grouping:
        return wishes.grouping
    best = grouping_column(proposal.stored)
    return () if best is None else (best.name,)


def comment(text: str) -> str:
    """A comment of XML that cannot end early."""
    plain = printable(text)
    while "--" in plain:
        plain = plain.replace("--", "- -")
    return f"<!-- {plain} -->"


def _schema_lines(table: TableName, proposal: Proposal, wishes: SchemaWishes) -> Iterator[str]:
    sample = proposal.sample
    groups = groups_of(proposal, wishes)
    dates = date_column(sample, proposal.stored, wishes.zone)
    formula = wishes.key_formula or (BY_GROUP if groups else SINGLE)
    yield (
        f"<Table namespace={quoteattr(table.namespace)} name={quoteattr(table.table)} "
        'storageType="NestedPartitionedOnDisk" defaultMergeFormat="DeephavenV1">'
    )
    extent = "all there are" if sample.whole else "there are more"
    yield f"  {comment(f'inferred from {sample.rows:,} rows of {sample.origin} ({extent}): look it over before use')}"
    if sample.unreadable:
        first = sample.unreadable[0]
        remark = f"{len(sample.unreadable):,} records cannot be read, first {first.position}: {shown(first.reason)}"
        yield f"  {comment(remark)}"
    for remark in sample.remarks:
        yield f"  {comment(remark)}"
    if sample.form == "csv" and any(sample.null):
        remark = f"texts that mean null: {', '.join(repr(text) for text in sample.null)}"
        yield f"  {comment(remark)}"
    yield f"  <Partitions keyFormula={quoteattr(formula)}/>"
    if dates is not None:
        remark = f"name of a directory: the day of {dates.name} in {wishes.zone}"
    elif proposal.position:
        remark = "name of a directory: the day of KafkaTimestamp, since no field without nulls is an instant"
    else:
        remark = "name of a directory. No field without nulls is an instant, so schema new proposes a fixed text"
    yield f"  {comment(remark)}"
    yield f'  <Column name={quoteattr(wishes.partitioning)} dataType="String" columnType="Partitioning"/>'
    for column in proposal.stored:
        yield from _schema_column(column, groups, dates is not None and dates.name == column.name, table)
    for name, kind, meta in proposal.position:
        yield f"  {comment(f'added: the {meta} of each message, by which a row can be traced')}"
        yield f'  <Column name="{name}" dataType="{kind}"/>'
    for column in proposal.columns:
        if column.reading is None:
            yield f"  {comment(f'left out, field {shown(column.source)}: {column.reason}')}"
    for name, why in sample.unnamed.items():
        yield f"  {comment(f'left out, field {shown(name)!r}: {why}')}"
    yield "</Table>"


def _schema_column(column: FieldColumn, groups: tuple[str, ...], dates: bool, table: TableName) -> Iterator[str]:
    if column.reading is None:
        return
    remarks = [column.reason, *column.notes]
    if column.source != column.name:
        remarks.append(f"of field {shown(column.source)}")
    if column.name in groups:
        facts = column.facts
        remarks.append(f"grouping: {facts.distinct:,} values in {facts.values:,} rows, which history keeps together")
    if dates:
        remarks.append("gives the partition, and the order of history by the option sort of merge")
    yield f"  {comment('; '.join(remarks))}"
    role = ' columnType="Grouping"' if column.name in groups else ""
    blob = ' symbolTable="None" encoding="UTF_8"' if column.blob else ""
    yield f"  <Column name={quoteattr(column.name)} {column.reading.declared}{role}{blob}/>"
