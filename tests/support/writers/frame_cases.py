"""Arrow rows that become history by the rows of a frame, without waiting for the disk."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, TableName
from sparkhaven.store.places import TablePlace
from sparkhaven.writers.foreign_values import STRICT, AllowedConversions
from sparkhaven.writers.merge.date_result import DateResult
from sparkhaven.writers.merge.executor import LocalExecutor
from sparkhaven.writers.merge.plan.date_plan import merged_schema
from sparkhaven.writers.merge.plan.merge_plan import MergeOptions, parse_dedupe
from sparkhaven.writers.transfer.date_import import DateImports, ImportOptions
from sparkhaven.writers.transfer.frames import FrameChoice, FrameRows, run_reader
from tests.support.writers.merge_cases import TABLE
from tests.support.writers.merge_runs import FS

RULES = ("dedupe", "keep", "last_by", "upsert", "order_by")
NOW_S = 1_700_000_000.0


def take(
    layout: Layout,
    rows: pa.Table | pa.RecordBatchReader,
    *dates: str,
    table: TableName = TABLE,
    fs: Fs = FS,
    rewrite: bool = False,
    dry_run: bool = False,
    conversions: AllowedConversions = STRICT,
    task_memory: int = 1 << 30,
    **options: Any,
) -> list[DateResult]:
    """Merges rows of Arrow; raises the error of a date. Options are those of ``MergeOptions``, and rules as texts."""
    place = TablePlace(fs, layout, table)
    schema = merged_schema(place)
    rule = parse_dedupe(schema, **{name: options.pop(name) for name in RULES if name in options})
    merge = MergeOptions(dedupe=rule, **options)
    reader = rows if isinstance(rows, pa.RecordBatchReader) else rows.to_reader(1000)
    choice = FrameChoice("the frame", "frame", dates or None, conversions, task_memory, merge.allow_empty)
    given = FrameRows(place, schema, reader.schema, run_reader(fs, reader), choice)
    chosen = ImportOptions(rewrite, merge, "rewrite or upsert")
    imports = DateImports(place, schema, chosen, LocalExecutor(), lambda: NOW_S)
    done = list(imports.planned(given) if dry_run else imports.locked(given))
    for date in done:
        if date.error is not None:
            raise date.error
    return done
