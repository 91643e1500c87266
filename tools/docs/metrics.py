"""What Prometheus can read, from the catalogue of metrics."""

from __future__ import annotations

from sparkhaven.jobs.metrics.catalogue import CATALOGUE, OF_LOGS, OF_TABLES, PREFIX, Metric
from tools.docs.markdown import code, table


def metric_tables() -> str:
    """Metrics of streams, of tables, of log tables."""
    parts = (("stream", CATALOGUE), ("table", OF_TABLES), ("log table", OF_LOGS))
    return "\n".join(f"## Of a {of}\n\n{_table(metrics)}" for of, metrics in parts)


def _table(metrics: tuple[Metric, ...]) -> str:
    return table(
        ("metric", "kind", "labels", "meaning"),
        ((code(PREFIX + m.name), m.kind, ", ".join(m.labels), m.help) for m in metrics),
    )
