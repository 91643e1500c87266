"""Rows of a data frame, typed already, to blocks: types are checked once, values like those of any feed.

=========================  =======================================================================
column of the table        column of the frame, by its Spark type
=========================  =======================================================================
Boolean                    boolean
byte, short, int, long     tinyint, smallint, int, bigint; a value out of range is a bad row
float, double              float, double, decimal, and the whole numbers
char                       string of one UTF-16 unit
String                     string
Instant                    timestamp (exact, microseconds), or bigint (nanoseconds since the epoch)
=========================  =======================================================================

A ``timestamp_ntz`` names no instant. Every stored column must be there, and every other one must be named for routing,
as a position, or as ignored: neither nulls nor losses come from a name that was misspelt.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial

import numpy as np

from ingest.bad_rows import BadRow, Rejects
from ingest.feeds.base import Block, Clock
from ingest.formats.parquet.file import Batch
from ingest.formats.parquet.rows import ParquetRows
from ingest.formats.parquet.text import row_text
from ingest.options.frames import FrameBatch
from ingest.router import Router
from ingest.spec import ColumnSpec, StreamSpec, Target
from ingest.targets import resolve_targets
from ingest.values.rows import Ints
from store.errors import SchemaMismatchError, SettingsError
from store.types.model import TableSchema

WHOLE = frozenset({"tinyint", "smallint", "int", "bigint"})
SPARK_TYPES: dict[str, frozenset[str]] = {
    "Boolean": frozenset({"boolean"}),
    **dict.fromkeys(("byte", "short", "int", "long"), WHOLE),
    **dict.fromkeys(("float", "double"), WHOLE | {"float", "double", "decimal"}),
    "char": frozenset({"string"}),
    "String": frozenset({"string"}),
    "Instant": frozenset({"timestamp", "bigint"}),
}


def fit_frame(
    spec: StreamSpec, schema: TableSchema, columns: Mapping[str, str], positions: Iterable[str] = ()
) -> StreamSpec:
    """The settings for a frame of these columns (name to Spark's simple type); SchemaMismatchError if it does not fit.

    Whole numbers are taken for Instants as nanoseconds. ``positions`` names columns that need not be stored.
    """
    if spec.partition.clock.kind == "batch":
        raise SettingsError(
            "a data frame has no clock of its batch", where=f"stream {spec.stream}", expected="wall, or a fixed time"
        )
    targets = resolve_targets(spec, schema)
    known = {target.source for target in targets} | set(positions) | set(spec.ignore)
    missing = [target.source for target in targets if target.source not in columns]
    further = [name for name in columns if name not in known]
    ignored = [name for name in spec.ignore if name not in columns]
    if missing or further or ignored:
        differences = [f"lacks {', '.join(missing)}"] * bool(missing) + [f"has {', '.join(further)} too"] * bool(
            further
        )
        differences += [f"lacks {', '.join(ignored)}, to be ignored"] * bool(ignored)
        raise SchemaMismatchError(
            "the columns of the data frame are not those of the table",
            where=schema.full_name,
            expected=", ".join(target.source for target in targets),
            found="; ".join(differences),
            hint="select the columns by the names of the table; list what is not to be stored under `ignore`",
        )
    given = {item.column: item for item in spec.columns}
    for target in targets:
        found = re.sub(r"\(.*", "", columns[target.source])
        _check_type(schema, target, found)
        if target.column.type.name == "Instant" and found == "bigint":
            item = given.get(target.column.name, ColumnSpec(target.column.name))
            given[target.column.name] = replace(item, unit="ns")
    return replace(spec, columns=tuple(given.values()))


def _check_type(schema: TableSchema, target: Target, found: str) -> None:
    expected = SPARK_TYPES[target.column.type.name]
    if found not in expected:
        raise SchemaMismatchError(
            f"column {target.source} of the data frame cannot be stored as {target.column.type.name}",
            where=schema.full_name,
            column=target.column.name,
            expected=" or ".join(sorted(expected)),
            found=found,
            hint="cast it in the query, for instance with to_timestamp or cast('bigint')",
        )


def frame_blocks(
    split: FrameBatch, spec: StreamSpec, schema: TableSchema, rejects: Rejects, clock: Clock
) -> Iterator[Block]:
    """Typed rows of one batch, with settings that ``fit_frame`` has made; bad rows go to ``rejects``."""
    targets = resolve_targets(spec, schema)
    batch, origin, unit = split.rows, split.origin, split.unit
    places = np.arange(batch.num_rows, dtype=np.int64)  # numbers may repeat: a query can make two rows of one
    rejects.complete = partial(_numbered, split.numbers)
    decoder = ParquetRows(targets, (), alias=spec.allow_null_alias, unit=unit)
    rows = decoder.typed(Batch(batch), places, origin, rejects)
    router = Router(targets, spec.partition, origin, spec.partition.clock.now_ns(clock), unit)

    def text(place: int) -> bytes:
        return row_text({name: batch.column(name)[place] for name in batch.schema.names})

    yield router, rows, text
    rejects.complete = None


def _numbered(numbers: Ints, row: BadRow) -> BadRow:
    return replace(row, line=int(numbers[row.line]))
