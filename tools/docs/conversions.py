"""What columns take of each source type, from the table of conversions: one table, sources down, columns across."""

from __future__ import annotations

from sparkhaven.store.conversions.conversion_table import COLUMNS, ConversionRule, Take, rule
from sparkhaven.store.conversions.source_types import SOURCES, SourceType
from tools.docs.markdown import code, table


def conversion_table() -> str:
    """A row for each source with its names elsewhere, a cell for each column type."""
    head = ("source", "Arrow, Parquet", "Spark", "Avro", "Protobuf", *(code(column) for column in COLUMNS))
    return table(head, (_row(source) for source in SOURCES))


def _row(source: SourceType) -> tuple[str, ...]:
    return (
        source.name,
        source.arrow,
        source.spark,
        source.avro,
        source.protobuf,
        *(_cell(rule(source, column)) for column in COLUMNS),
    )


def _cell(cell: ConversionRule) -> str:
    if cell.take is Take.REFUSED:
        return ""
    text = ", ".join(map(code, cell.options)) if cell.take is Take.OPTION else str(cell.take)
    text += " or `lossy`" if cell.lossy else ""
    return f"{text}: {cell.as_what}" if cell.as_what else text
