"""One planned file to blocks of typed rows, in bounded memory.

1. The file is compared with the plan (size, time); 2. its bytes are unpacked and cut into blocks; 3. a decoder
makes typed rows of each block; 4. the caller routes them to locations; 5. the file is compared with the plan again.
Nothing of a split may be committed before the iterator has ended, since step 5 may still refuse the file.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa

from sparkhaven.ingest.bad_rows import Rejects, bad_row, guarded_file
from sparkhaven.ingest.content.raw_file import PlannedFile, changed
from sparkhaven.ingest.decoder_cache import DecoderCache
from sparkhaven.ingest.encodings import in_own_bytes
from sparkhaven.ingest.feeds.base import SILENT, Block, Clock
from sparkhaven.ingest.feeds.files.formats.decoding import Decoding, Payload, TogetherDecoding
from sparkhaven.ingest.feeds.files.formats.table import FORMATS
from sparkhaven.ingest.feeds.files.options import FilesOptions
from sparkhaven.ingest.formats.parquet.known_file import NOTHING, KnownFile
from sparkhaven.ingest.router import Router, reference_ns
from sparkhaven.ingest.spec.payload_formats import UTF8
from sparkhaven.ingest.spec.stream_spec import StreamSpec, TableRoutes, Target
from sparkhaven.ingest.table_choice import TableChoice, TableRows, counting, routing_target
from sparkhaven.ingest.targets.target_columns import resolve_targets
from sparkhaven.ingest.values.instants import INSTANT_HIGH
from sparkhaven.ingest.values.refusals import out_of_range
from sparkhaven.ingest.values.typed_rows import TypedRows
from sparkhaven.store.epochs.state.log_values import FileId
from sparkhaven.store.instants import NS_PER_SECOND
from sparkhaven.store.types.model import TableSchema


def _resolved(spec: StreamSpec, schema: TableSchema) -> tuple[tuple[Target, ...], tuple[Target, ...]]:
    """All targets, and those whose values are in a file."""
    targets = resolve_targets(spec, schema)
    return targets, tuple(target for target in targets if target.meta is None)


_TARGETS = DecoderCache(_resolved)
FAR_FILE = "the modification time of the file"


def file_blocks(
    file: PlannedFile, table: TableRows, options: FilesOptions, clock: Clock, known_file: KnownFile = NOTHING
) -> Iterator[Block]:
    """Steps 1 to 3 and 5: typed rows block by block; bad rows and counts go to the rejects of the table.

    Raises PositionGapError when the file is not what was planned (both sizes named), FeedError when it cannot be
    read, ErrorBudgetExceeded when it has more bad rows than a batch may have.
    """
    spec, rejects, split = table.spec, table.rejects, file.split
    named, time_ns, form = known_file.place or split.path, _time_ns(split, known_file), FORMATS[options.format]
    with _as_planned(file, named, [table], options, time_ns):
        targets, payload_targets = _TARGETS.of(spec, table.schema, small=True)
        clock_ns = _clock_ns(file, Decoding(spec, options, targets, known_file), clock)
        router = Router(targets, spec.partition, named, clock_ns, form.unit)
        decoding = Decoding(spec, options, payload_targets, known_file, spec.strict)
        for rows, payload in form.code.decode(file, decoding, rejects):
            rows = _near(rows, targets, router, time_ns, payload, rejects)
            yield router, _with_meta(rows, targets, split, clock, known_file), payload


def file_table_blocks(
    file: PlannedFile,
    tables: Mapping[int, TableRows],
    routes: TableRoutes,
    options: FilesOptions,
    clock: Clock,
    known_file: KnownFile = NOTHING,
) -> Iterator[tuple[int, Block]]:
    """Typed rows of a file for several tables, each with the number of its table. Raises as ``file_blocks``."""
    split = file.split
    named, time_ns, form = known_file.place or split.path, _time_ns(split, known_file), FORMATS[options.format]
    with _as_planned(file, named, tables.values(), options, time_ns):
        targets: dict[int, Sequence[Target]] = {}
        decodings: dict[int, tuple[Decoding, Rejects]] = {}
        routers: dict[int, Router] = {}
        for number, table in tables.items():
            targets[number] = resolve_targets(table.spec, table.schema)
            payload_targets = tuple(target for target in targets[number] if target.meta is None)
            spec = counting(table.spec, routes)
            decodings[number] = Decoding(spec, options, payload_targets, known_file, spec.strict), table.rejects
            clock_ns = table.spec.partition.clock.now_ns(clock)
            routers[number] = Router(targets[number], table.spec.partition, named, clock_ns, form.unit)
        choice = TableChoice(routes, tables, named, form.unit)
        choice.probe.time_ns = time_ns
        spec = next(iter(tables.values())).spec
        deciding = Decoding(spec, options, (routing_target(routes),), known_file)
        for number, rows, payload in form.code.decode_tables(file, TogetherDecoding(decodings, deciding, choice)):
            rejects = tables[number].rejects
            rows = _near(rows, targets[number], routers[number], time_ns, payload, rejects)
            yield number, (routers[number], _with_meta(rows, targets[number], split, clock, known_file), payload)
        choice.settle()  # what was rejected behind the last row


@contextmanager
def _as_planned(
    file: PlannedFile, named: str, tables: Collection[TableRows], options: FilesOptions, time_ns: int
) -> Iterator[None]:
    """Steps 1 and 5 around the body, which decodes a file for some tables."""
    with guarded_file(named):
        for table in tables:
            table.rejects.time_ns = time_ns
            table.rejects.complete = partial(in_own_bytes, options.encoding) if options.encoding != UTF8 else None
        before = file.verify()
        yield
        after = file.verify()
        if (after.inode, after.ctime_ns) != (before.inode, before.ctime_ns):
            raise changed(file.split, after.size, after.mtime_ns)
        for table in tables:
            table.rejects.complete = None


def _clock_ns(file: PlannedFile, whole: Decoding, clock: Clock) -> int:
    """What the bounds are measured from. ``batch`` is the newest instant of the file itself.

    A batch is put together anew after a crash; a file is not. So the same file gives the same rows each time.
    """
    rule = whole.spec.partition
    chosen = tuple(target for target in whole.targets if target.column.name == rule.value.column)
    now_ns = round(clock() * NS_PER_SECOND)
    if rule.clock.kind == "batch" and any(target.meta is not None for target in chosen):
        return _time_ns(file.split, whole.known) if chosen[0].meta == "timestamp" else now_ns

    def rows() -> Iterator[TypedRows]:
        code, rejects = FORMATS[whole.options.format].code, Rejects(SILENT, keep=0)
        return (rows for rows, _ in code.decode(file, replace(whole, targets=chosen), rejects))

    return reference_ns(rule, chosen, now_ns, rows)


def _time_ns(split: FileId, known_file: KnownFile) -> int:
    """The time of a file; one that no Instant holds is the last or first of 64 bits."""
    time_ns = split.mtime_ns if known_file.time_ns is None else known_file.time_ns
    return min(max(time_ns, -INSTANT_HIGH), INSTANT_HIGH)


def _near(
    rows: TypedRows, targets: Sequence[Target], router: Router, time_ns: int, payload: Payload, rejects: Rejects
) -> TypedRows:
    """The rows. None of them where a column has the time of a file that no Instant holds: they are bad."""
    strict = [target for target in targets if target.meta == "timestamp" and target.far is None]
    if abs(time_ns) < INSTANT_HIGH or not strict:
        return rows
    why, name = out_of_range(time_ns > 0), strict[0].column.name
    rejects.add_all(
        bad_row(router.file, number, name, why, FAR_FILE, payload(number), unit=router.unit)
        for number in rows.numbers.tolist()
    )
    return rows.part(0, 0)


def _with_meta(
    rows: TypedRows, targets: Sequence[Target], split: FileId, clock: Clock, known_file: KnownFile
) -> TypedRows:
    if not any(t.meta for t in targets):
        return rows
    payload = iter(rows.columns)
    columns = [next(payload) if t.meta is None else _meta(t, rows, split, clock, known_file) for t in targets]
    return replace(rows, columns=tuple(columns))


def _meta(target: Target, rows: TypedRows, split: FileId, clock: Clock, known_file: KnownFile) -> pa.Array:
    if target.meta == "file":
        return pa.repeat(split.path, len(rows))
    if target.meta == "line":
        return pa.array(rows.numbers, pa.int64()).cast(target.column.type.arrow)
    stamp: int | None = round(clock() * NS_PER_SECOND)
    if target.meta == "timestamp":
        stamp = _time_ns(split, known_file)
        if abs(stamp) == INSTANT_HIGH and target.far == "null":
            return pa.nulls(len(rows), target.column.type.arrow)
    return pa.array(np.full(len(rows), stamp, np.int64)).view(target.column.type.arrow)
