"""What Prometheus can read, from the catalogue of metrics."""

from __future__ import annotations

from docs.generate.markdown import code, table
from jobs.metrics.catalogue import CATALOGUE, OF_TABLES, PREFIX, Metric


def metric_tables() -> str:
    """Metrics of streams, then those of tables."""
    return f"## Of a stream\n\n{_table(CATALOGUE)}\n## Of a table\n\n{_table(OF_TABLES)}"


def _table(metrics: tuple[Metric, ...]) -> str:
    return table(
        ("metric", "kind", "labels", "meaning"),
        ((code(PREFIX + m.name), m.kind, ", ".join(m.labels), m.help) for m in metrics),
    )
