"""Tables of reference pages, each from the table, the tree or the enumeration of the code that it shows."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping

from sparkhaven.errors import SparkhavenError
from sparkhaven.jobs.monitor.metrics.catalogue import CATALOGUE, OF_LOGS, OF_TABLES, PREFIX, Metric
from sparkhaven.readers.checks.catalogue import GENERALLY, PARTS, Entry, severity_of
from sparkhaven.store.conversions.conversion_table import (
    COLUMNS,
    SOURCES,
    ConversionRule,
    SourceType,
    Take,
    column_rule,
    rule,
)
from sparkhaven.store.epochs.state.resume_rules import ResumeRule
from sparkhaven.store.quarantine.rejected_rows import Reason
from sparkhaven.store.schema.document.validator_rules import RULE_SPECS, SWITCHES
from sparkhaven.store.schema.findings import VIOLATIONS
from sparkhaven.store.types.datatypes import CODED, TYPES, CodedRow, DataType, data_type
from tools.docs.markdown import code, table


def conversion_table() -> str:
    """A row for each source with its names elsewhere, a cell for each column type."""
    head = ("source", "Arrow, Parquet", "Spark", "Avro", "Protobuf", *(code(column) for column in COLUMNS))
    return table(head, (_conversion(source) for source in SOURCES))


def _conversion(source: SourceType) -> tuple[str, ...]:
    names = source.name, source.arrow, source.spark, source.avro, source.protobuf
    return *names, *(_taken(rule(source, column)) for column in COLUMNS)


def _taken(cell: ConversionRule) -> str:
    if cell.take is Take.REFUSED:
        return ""
    text = ", ".join(map(code, cell.options)) if cell.take is Take.OPTION else str(cell.take)
    text += " or `lossy`" if cell.lossy else ""
    return f"{text}: {cell.as_what}" if cell.as_what else text


def coded_conversion_table() -> str:
    """A row for each source that a type with a codec takes, a cell for each such type."""
    kinds = {row.name: data_type(row.spellings[0]) for row in CODED} | {"any other class": data_type("x.y.Z")}
    cells = {name: [_taken(column_rule(source, kind)) for source in SOURCES] for name, kind in kinds.items()}
    alike: dict[tuple[str, ...], list[str]] = {}
    for name, column in cells.items():
        alike.setdefault(tuple(column), []).append(name)
    head = ("source", *(", ".join(map(code, names)) for names in alike.values()))
    rows = ((source.name, *(column[row] for column in alike)) for row, source in enumerate(SOURCES))
    return table(head, (row for row in rows if any(row[1:])))


def error_table() -> str:
    """Each error below the error that it is a kind of."""
    rows = (
        (code(kind.__name__), code(kind.__bases__[0].__name__), str(kind.exit_code), _first_paragraph(kind))
        for kind in _errors_below(SparkhavenError)
    )
    return table(("error", "kind of", "exit code", "meaning"), rows)


def _errors_below(kind: type[SparkhavenError]) -> Iterator[type[SparkhavenError]]:
    yield kind
    for inner in kind.__subclasses__():
        yield from _errors_below(inner)


def _first_paragraph(kind: type[SparkhavenError]) -> str:
    return inspect.cleandoc(kind.__doc__ or "").partition("\n\n")[0].replace("``", "`")


def metric_tables() -> str:
    """Metrics of streams, of tables, of log tables."""
    parts = (("stream", CATALOGUE), ("table", OF_TABLES), ("log table", OF_LOGS))
    return "\n".join(f"## Of a {of}\n\n{_metrics(metrics)}" for of, metrics in parts)


def _metrics(metrics: tuple[Metric, ...]) -> str:
    rows = ((code(PREFIX + m.name), m.kind, ", ".join(m.labels), m.help) for m in metrics)
    return table(("metric", "kind", "labels", "meaning"), rows)


def reason_table() -> str:
    """Each code in alphabetical order: what it means, and what to do."""
    rows = ((code(reason.value), reason.meaning, reason.remedy) for reason in sorted(Reason))
    return table(("code", "meaning", "what to do"), rows)


def finding_tables() -> str:
    """Each part of the catalogue: codes by number, with what the finding says, what it means, and what to do."""
    return "\n".join(f"## {title}\n\n{_findings(entries)}" for title, entries in PARTS.items())


class _Shown(dict[str, str]):
    """Places of a text: in general words, else by their names."""

    def __missing__(self, name: str) -> str:
        return f"{{{name}}}"


def _findings(entries: Mapping[str, Entry]) -> str:
    by_number = sorted(entries.items(), key=lambda entry: (entry[0][1:], entry[0]))
    shown = ((name, entry, entry.todo.format_map(_Shown(GENERALLY))) for name, entry in by_number)
    rows = ((code(name), severity_of(name), entry.what, entry.means, todo) for name, entry, todo in shown)
    return table(("code", "severity", "finding", "meaning", "what to do"), rows)


def resume_rule_table() -> str:
    """Each resume rule: what is proposed, and what the stream does."""
    rows = ((str(violation), violation.situation, violation.resolution) for violation in ResumeRule)
    return table(("violation", "what is proposed", "what the stream does"), rows)


def schema_code_table() -> str:
    """Each code of a schema file with what is wrong."""
    by_number = sorted(VIOLATIONS.items(), key=lambda violation: (violation[0][1:], violation[0]))
    rows = ((code(name), "error" if name.startswith("E") else "warning", words) for name, words in by_number)
    return table(("code", "severity", "violation"), rows)


def validator_rule_table() -> str:
    """Rules that have the same attributes, with those that may be left out."""
    alike: dict[tuple[str, ...], list[str]] = {}
    for spec in RULE_SPECS.values():
        switches = [name for name in spec.optional if name not in SWITCHES]
        optional = ", ".join(map(code, switches)) + (", switches" if set(SWITCHES) <= set(spec.optional) else "")
        named = ", ".join(map(code, spec.required))
        alike.setdefault((named, optional.removeprefix(", "), spec.fit_text), []).append(code(spec.name))
    rows = ((", ".join(names), *cells) for cells, names in alike.items())
    return table(("rules", "attributes", "optional", "of columns of"), rows)


def type_table() -> str:
    """Spellings, bytes a row, null, and the Arrow type that readers hand out."""
    head = ("type", "other spellings", "bytes a row", "null", "Arrow")
    return table(head, (*(_type(kind) for kind in TYPES), *(_coded(row) for row in CODED)))


def _coded(row: CodedRow) -> tuple[str, str, str, str, str]:
    """A type with a codec, as a column has it that names none."""
    kind = data_type(row.spellings[0])
    spellings = ", ".join(code(spelling) for spelling in kind.spellings if spelling != kind.name)
    null = "" if kind.fixed is None else code(kind.fixed.null.hex().upper())
    width = str(kind.width) if kind.width else "8 (set)" if row.name == "StringSet" else "8 (blob)"
    return code(kind.name), spellings, width, null, code(kind.arrow)


def _type(kind: DataType) -> tuple[str, str, str, str, str]:
    spellings = ", ".join(code(spelling) for spelling in kind.spellings if spelling != kind.name)
    width = str(kind.width) if kind.width else "4 (symbol), 8 (blob)"
    null = "" if kind.null is None else code(kind.null)
    return code(kind.name), spellings, width, null, code(kind.arrow)
