"""A proposal as a ``.schema``: columns with the reason for each as a comment above it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from xml.sax.saxutils import quoteattr

from sparkhaven.ingest.inference.proposal import FieldColumn, Proposal, date_column, grouping_column
from sparkhaven.ingest.sample_rows import printable, shown
from sparkhaven.store.layout import TableName

BY_GROUP, SINGLE = "${autobalance_by_first_grouping_column}", "${autobalance_single}"


@dataclass(frozen=True, slots=True)
class SchemaWishes:
    """What of the schema was asked for instead of being inferred. ``grouping``: names of columns; none: the best."""

    partitioning: str = "Date"
    zone: str = "UTC"
    grouping: tuple[str, ...] = ()
    key_formula: str | None = None


def schema_text(table: TableName, proposal: Proposal, wishes: SchemaWishes) -> str:
    """The file. The same proposal gives the same text."""
    return "".join(f"{line}\n" for line in _lines(table, proposal, wishes))


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


def _lines(table: TableName, proposal: Proposal, wishes: SchemaWishes) -> Iterator[str]:
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
        yield from _column(column, groups, dates is not None and dates.name == column.name, table)
    for name, kind, meta in proposal.position:
        yield f"  {comment(f'added: the {meta} of each message, by which a row can be traced')}"
        yield f'  <Column name="{name}" dataType="{kind}"/>'
    for column in proposal.columns:
        if column.reading is None:
            yield f"  {comment(f'left out, field {shown(column.source)}: {column.reason}')}"
    for name, why in sample.unnamed.items():
        yield f"  {comment(f'left out, field {shown(name)!r}: {why}')}"
    yield "</Table>"


def _column(column: FieldColumn, groups: tuple[str, ...], dates: bool, table: TableName) -> Iterator[str]:
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
