"""Measured figures: ``docs/figures.json`` is the only place where one is written.

A name has the value as a text with the digits that pages show, its unit, the benchmark that measures it
(``python -m benchmarks.<command>``), and the day and commit of the measurement. ``note`` says what else to know.
A row of a table whose figure is not there yet is left out.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from tools.docs.markdown import code, table

FIGURES = Path(__file__).resolve().parents[2] / "docs" / "figures.json"
_PEER_HEAD = ("what", "sparkhaven", "peer", "its figure", "ratio", "command: `python -m benchmarks.`")
_SORT = "DuckDB `ORDER BY` to Parquet"
_QUESTDB = "QuestDB behind a consumer of Kafka"
_PARQUET = "Spark's own zstd Parquet"
_SPARK_READS = (  # what is asked in Spark; the figure
    ("Spark, 4 M rows × 20 columns: sum of 2 columns", "sum"),
    ("all columns", "columns"),
    ("sum of 2 columns of one date", "date"),
    ("`count(*)`", "count"),
    ("group by a symbol", "groups"),
    ("`=` on a symbol", "symbol"),
    ("`=` on a grouping column", "grouping"),
    ("`=` on an indexed column", "index"),
    ("maximum of texts", "texts"),
    ("sum of all numbers", "numbers"),
    ("2,000 small locations", "small"),
)
_FEEDS = (  # 1 M rows x 10 columns; the figure
    ("the same rows as Avro from Kafka", "avro"),
    ("as CSV files", "csv"),
    ("as Parquet files", "parquet"),
    ("as a Delta table", "delta"),
)
_PEERS = (  # what; ours; the peer; its figure; the ratio
    ("JSON-lines files", "files", "Spark into Parquet", "files.parquet", "files.parquet.ratio"),
    ("", "", "Spark into Delta", "files.delta", "files.delta.ratio"),
    ("the same messages from Kafka", "kafka", "Spark into Parquet", "kafka.parquet", "kafka.parquet.ratio"),
    ("", "", "Spark into Delta", "kafka.delta", "kafka.delta.ratio"),
    ("", "", "our tasks without Spark", "kafka.without_spark", ""),
    ("from Kafka over TLS", "kafka.tls", "Spark into Parquet", "kafka.tls.parquet", "kafka.tls.parquet.ratio"),
    ("", "", "Spark into Delta", "kafka.tls.delta", "kafka.tls.delta.ratio"),
    (
        "the same messages, QuestDB 9.3.4 by its Python client, without Kafka, synced",
        "questdb",
        "parsed by Arrow, data frames",
        "questdb.frames",
        "questdb.frames.ratio",
    ),
    ("", "", "a call a row", "questdb.rows", "questdb.rows.ratio"),
    *(
        (*ours, f"Spark into {sink.title()}", f"feeds.{form}.{sink}", f"feeds.{form}.{sink}.ratio")
        for what, form in _FEEDS
        for sink, ours in (("parquet", (what, f"feeds.{form}")), ("delta", ("", "")))
    ),
    ("latency in Spark, p50", "latency.p50", "Delta", "latency.delta.p50", "latency.delta.ratio"),
    ("latency in Spark, p99", "latency.p99", "Delta", "latency.delta.p99", ""),
    ("latency of `--local`, p50", "latency.local.p50", "Delta", "latency.delta.p50", "latency.local.ratio"),
    ("", "", _QUESTDB, "latency.questdb.p50", "latency.questdb.ratio"),
    ("latency of `--local`, p99", "latency.local.p99", "Delta", "latency.delta.p99", ""),
    ("", "", _QUESTDB, "latency.questdb.p99", ""),
    ("merge of 20 M rows × 10 columns, `--local`", "merge.local", _SORT, "merge.duckdb", "merge.local.duckdb.ratio"),
    ("", "", "Spark", "merge.sort_in_spark", "merge.local.sort_in_spark.ratio"),
    ("the same merge, tasks in Spark", "merge.spark", _SORT, "merge.duckdb", "merge.spark.duckdb.ratio"),
    ("", "", "Spark", "merge.sort_in_spark", "merge.spark.sort_in_spark.ratio"),
    (
        "the same merge, cold: new process, nothing cached",
        "merge.cold",
        _SORT,
        "merge.cold.duckdb",
        "merge.cold.duckdb.ratio",
    ),
    (
        "whole `merge` of 5 M rows × 20 numbers",
        "shapes.numbers",
        _SORT,
        "shapes.numbers.duckdb",
        "shapes.numbers.ratio",
    ),
    ("1.6 M rows of distinct texts", "shapes.texts", "DuckDB", "shapes.texts.duckdb", "shapes.texts.ratio"),
    ("1 M rows of 200 sources", "shapes.sources", "DuckDB", "shapes.sources.duckdb", "shapes.sources.ratio"),
    *(
        (what, f"spark_read.{name}", _PARQUET, f"spark_read.{name}.parquet", f"spark_read.{name}.ratio")
        for what, name in _SPARK_READS
    ),
    (
        "sums of 50 M rows × 3 columns by a Deephaven engine",
        "live.sums",
        "its reader of zstd Parquet",
        "live.parquet",
        "live.ratio",
    ),
    (
        "of 5 M rows, which the engine keeps in its heap",
        "live.small.sums",
        "its reader of zstd Parquet",
        "live.small.parquet",
        "live.small.ratio",
    ),
    ("`verify --deep` of one location, a core", "deep.verify", "copy in memory", "deep.copy", ""),
)
_ALONE = (  # what; the figure; what follows it
    *(
        (f"scan of one column of {kind}, checksums verified, {said}", f"deep.{kind}.{when}", "")
        for kind in ("numbers", "texts", "symbols")
        for when, said in (("first", "nothing cached"), ("warm", "again"))
    ),
    ("`ingest --once` of one row, the whole command", "startup.local", ""),
    ("the same with `--spark`, after `sparkhaven class-archive`", "startup.spark", ""),
    ("the same with `--spark`, Spark as it starts by itself", "startup.plain", ""),
    ("1 M rows of 10 columns as Protobuf from Kafka", "feeds.protobuf", ""),
    ("decoding dates, times and decimals, against numbers", "types.spelled.ratio", ""),
    ("decoding a column of each type, against numbers", "types.all.ratio", ""),
    ("merge with one worker, 5 M rows × 20 numbers", "shapes.numbers.one_worker", " as long"),
    ("merge with one worker, 1.6 M rows of distinct texts", "shapes.texts.one_worker", " as long"),
    ("merge with one worker, 1 M rows of 200 sources", "shapes.sources.one_worker", " as long"),
    ("commit to a listener in the engine, cycle of 100 ms, p50", "live.cycle_100.p50", ""),
    ("commit to a listener in the engine, cycle of 20 ms, p50", "live.cycle_20.p50", ""),
    ("memory of a merge of 10 M rows × 20 columns, limit 1 GiB a worker", "merge.memory", " a worker"),
    ("memory of a merge of 86 M rows × 20 columns (10 GB), the same limit", "night.memory", " a worker"),
    ("that merge, against the same one in memory", "night.speed", " of the speed"),
    ("commit and publish at epoch 20,000 with 2,001 locations", "commit.cost", ""),
    ("the same, against epoch 100 with one location", "commit.growth", ""),
    (
        "open a table of 10,000 locations and 3,000 dates, read one date of 20 columns, beside 600,000 remembered "
        "files and 100,000 removals",
        "open_table",
        "",
    ),
    ("10,000 locations opened, planned, handed over to Spark", "spark_read.planned", ""),
    ("restart after a kill, log of 10 epochs", "restart.short", ""),
    ("restart after a kill, 10,000 epochs, 100 kept", "restart.folded", ""),
    ("restart after a kill, 10,000 epochs, all kept", "restart.kept", " more"),
    ("decoding 1 % bad rows, against a clean feed", "decode.bad.ratio", ""),
    ("decoding 5 % escaped texts", "decode.escaped.ratio", ""),
    ("decoding 5 % epochs with a fraction", "decode.fractions.ratio", ""),
    ("decoding 5 % unknown fields", "decode.unknown.ratio", ""),
    ("1 % bad rows with their quarantine in Delta", "quarantine.ratio", ""),
)


@cache
def figures() -> dict[str, dict[str, str]]:
    """All figures by name."""
    loaded: dict[str, dict[str, str]] = json.loads(FIGURES.read_text(encoding="utf-8"))
    return loaded


def figure(name: str) -> str:
    """A figure with its unit as pages show it; KeyError: there is none of that name."""
    entry = figures()[name]
    return entry["value"] + ("" if entry["unit"] == "×" else " ") + entry["unit"]


def peer_table() -> str:
    """Ours beside a peer that ran in the same run."""
    rows, last, subject, own = [], "", "", ""
    for label, ours, peer, its, ratio in _PEERS:
        subject, own = label or subject, ours or own
        if not _measured(own, its, ratio):
            continue
        command = figures()[its]["command"]
        rows.append(
            (subject, _or_empty(own), peer, figure(its), _or_empty(ratio), "" if command == last else code(command))
        )
        subject, own, last = "", "", command
    return table(_PEER_HEAD, rows)


def figure_table() -> str:
    """Figures without a peer."""
    rows, last = [], ""
    for label, name, rest in _ALONE:
        if not _measured(name):
            continue
        command = figures()[name]["command"]
        rows.append((label, figure(name) + rest, "" if command == last else code(command)))
        last = command
    return table(("what, without a peer", "figure", "command: `python -m benchmarks.`"), rows)


def named() -> set[str]:
    """Every figure that a table has, or will have when it is measured."""
    peers = {name for row in _PEERS for name in (row[1], row[3], row[4]) if name}
    return peers | {name for _, name, _ in _ALONE}


def _measured(*names: str) -> bool:
    return all(name in figures() for name in names if name)


def _or_empty(name: str) -> str:
    return figure(name) if name else ""
