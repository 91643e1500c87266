"""One planned file to blocks of typed rows, in bounded memory.

1. The file is compared with the plan (size, time); 2. its bytes are unpacked and cut into blocks; 3. a decoder
makes typed rows of each block; 4. the caller routes them to locations; 5. the file is compared with the plan again.
Nothing of a split may be committed before the iterator has ended, since step 5 may still refuse the file.

Rejected rows of files are decoded once more, one at a time, from what quarantine keeps of them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparkhaven.ingest.bad_rows import BadRow, Rejects, bad_row, guarded_file
from sparkhaven.ingest.content.raw_file import NOTHING, KnownFile, PlannedFile, changed
from sparkhaven.ingest.encodings import in_own_bytes, to_utf8
from sparkhaven.ingest.feeds.base import SILENT, Block, Clock, DecoderCache, RequeuedRows
from sparkhaven.ingest.feeds.files.formats.decoding import Decoding, Payload, TablesDecoding
from sparkhaven.ingest.feeds.files.options import FORMATS, FilesOptions
from sparkhaven.ingest.router import Router, TableChoice, TableRows, counting, reference_ns, routing_target
from sparkhaven.ingest.spec import UTF8, StreamSpec, TableRoutes, Target
from sparkhaven.ingest.targets import resolve_targets
from sparkhaven.ingest.values.instants import INSTANT_HIGH
from sparkhaven.ingest.values.typed_rows import Ints, Refusal, TypedRows, Value, attempted, out_of_range, typed_array
from sparkhaven.store.epochs.state.log_values import FileId
from sparkhaven.store.instants import NS_PER_SECOND
from sparkhaven.store.quarantine.rejected_rows import Reason, RejectedRow
from sparkhaven.store.types.model import TableSchema

FAR_FILE = "the modification time of the file"


def _resolved(
    spec: StreamSpec, schema: TableSchema, routes: TableRoutes | None
) -> tuple[tuple[Target, ...], tuple[Target, ...], StreamSpec]:
    """All targets, those whose values are in a file, and the settings by which these are decoded."""
    targets = resolve_targets(spec, schema)
    payload_targets = tuple(target for target in targets if target.meta is None)
    return targets, payload_targets, spec if routes is None else counting(spec, routes)


_TARGETS = DecoderCache(_resolved)


def file_blocks(
    file: PlannedFile,
    tables: Mapping[int, TableRows],
    routes: TableRoutes | None,
    options: FilesOptions,
    clock: Clock,
    known_file: KnownFile = NOTHING,
) -> Iterator[tuple[int, Block]]:
    """Steps 1 to 3 and 5: typed rows block by block, each with the number of its table; bad rows go to its rejects.

    ``routes`` None: one table has all rows. Raises PositionGapError when the file is not what was planned (both sizes
    named), FeedError when it cannot be read, ErrorBudgetExceeded when it has more bad rows than a batch may have.
    """
    split = file.split
    named, time_ns, form = known_file.place or split.path, _time_ns(split, known_file), FORMATS[options.format]
    with _as_planned(file, named, tables.values(), options, time_ns):
        decodings: dict[int, tuple[Decoding, Rejects]] = {}
        routers: dict[int, Router] = {}
        for number, table in tables.items():
            spec = table.spec
            targets, payload_targets, counted = _TARGETS.of(spec, table.schema, routes, small=True)
            clock_ns = _clock_ns(file, Decoding(spec, options, targets, known_file), clock)
            routers[number] = Router(targets, spec.partition, named, clock_ns, form.unit)
            decodings[number] = Decoding(counted, options, payload_targets, known_file, spec.strict), table.rejects
        choice = None if routes is None else TableChoice(routes, tables, named, form.unit)
        deciding: tuple[Decoding, TableChoice] | None = None
        if routes is not None and choice is not None:
            choice.probe.time_ns = time_ns
            spec = next(iter(tables.values())).spec
            deciding = Decoding(spec, options, (routing_target(routes),), known_file), choice
        for number, rows, payload in form.code.decode(file, TablesDecoding(decodings, deciding)):
            router = routers[number]
            rows = _near(rows, router, time_ns, payload, tables[number].rejects)
            yield number, (router, _with_meta(rows, router.targets, split, clock, known_file), payload)
        if choice is not None:
            choice.settle()  # what was rejected behind the last row


@contextmanager
def _as_planned(
    file: PlannedFile, named: str, tables: Collection[TableRows], options: FilesOptions, time_ns: int
) -> Iterator[None]:
    """Steps 1 and 5 around the body, which decodes a file for some tables."""
    complete = partial(in_own_bytes, options.encoding) if options.encoding != UTF8 else None
    with guarded_file(named), ExitStack() as completing:
        for table in tables:
            table.rejects.time_ns = time_ns
            completing.enter_context(table.rejects.completing(complete))
        before = file.verify()
        yield
        after = file.verify()
        if (after.inode, after.ctime_ns) != (before.inode, before.ctime_ns):
            raise changed(file.split, after.size, after.mtime_ns)


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
        code, alone = FORMATS[whole.options.format].code, (replace(whole, targets=chosen), Rejects(SILENT, keep=0))
        return (rows for _, rows, _ in code.decode(file, TablesDecoding({0: alone})))

    return reference_ns(rule, chosen, now_ns, rows)


def _time_ns(split: FileId, known_file: KnownFile) -> int:
    """The time of a file; one that no Instant holds is the last or first of 64 bits."""
    time_ns = split.mtime_ns if known_file.time_ns is None else known_file.time_ns
    return min(max(time_ns, -INSTANT_HIGH), INSTANT_HIGH)


def _near(rows: TypedRows, router: Router, time_ns: int, payload: Payload, rejects: Rejects) -> TypedRows:
    """The rows. None of them where a column has the time of a file that no Instant holds: they are bad."""
    strict = [target for target in router.targets if target.meta == "timestamp" and target.far is None]
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
    payload, now_ns = iter(rows.columns), round(clock() * NS_PER_SECOND)
    times = pa.repeat(pa.scalar(_time_ns(split, known_file), pa.int64()), len(rows))
    columns = [
        next(payload) if t.meta is None else position_column(t, split.path, rows.numbers, times, now_ns)
        for t in targets
    ]
    return replace(rows, columns=tuple(columns))


def position_column(target: Target, file: str, numbers: Ints, times: pa.Int64Array, now_ns: int) -> pa.Array:
    """A column that rows of a file have of their position; ``times`` are those of the file, in ns."""
    arrow = target.column.type.arrow
    if target.meta == "file":
        return pa.repeat(file, len(numbers))
    if target.meta == "line":
        return pa.array(numbers, pa.int64()).cast(arrow)
    if target.meta != "timestamp":
        return pa.array(np.full(len(numbers), now_ns, np.int64)).view(arrow)
    if target.far == "null":
        times = pc.if_else(pc.equal(pc.abs(times), INSTANT_HIGH), None, times)
    return times.view(arrow)


def requeue_file_rows(
    source: str,
    rows: Sequence[RejectedRow],
    decoding: Decoding,
    now_ns: int,
    rejects: Rejects,
    path: str | None = None,
) -> RequeuedRows:
    """Rows of one file, each by the exact rules of its format; ``path`` of the file (default: ``source``).

    ``decoding`` has all columns, also those that are not of the content of files.
    """
    targets, form, encoding = decoding.targets, FORMATS[decoding.options.format], decoding.options.encoding
    payload_targets = tuple(target for target in targets if target.meta is None)
    values_of, unit = form.code.decode_one(replace(decoding, targets=payload_targets)), form.unit
    complete = partial(in_own_bytes, encoding) if encoding != UTF8 else None
    strict = [target.column.name for target in targets if target.meta == "timestamp" and target.far is None]
    kept: list[RejectedRow] = []
    values: list[list[Value]] = []
    with rejects.completing(complete):
        for row in rows:
            rejects.read += 1
            payload, number, time_ns = to_utf8(row["Payload"] or b"", encoding), row["Position"], row["SourceTime"] or 0
            outcome: list[Value] | BadRow | Refusal
            if payload.strip():
                outcome = attempted(values_of, payload, row, rejects)
                if isinstance(outcome, Refusal):
                    outcome = bad_row(source, number, None, outcome, "", payload, unit=unit)
                if strict and abs(time_ns) == INSTANT_HIGH and not isinstance(outcome, BadRow):
                    outcome = bad_row(
                        source, number, strict[0], out_of_range(time_ns > 0), FAR_FILE, payload, unit=unit
                    )
            else:
                outcome = bad_row(source, number, None, Refusal(Reason.EMPTY, "a row"), "", payload, unit=unit)
            if isinstance(outcome, BadRow):
                rejects.add_all([outcome])
            else:
                kept.append({**row, "Payload": payload})
                values.append(outcome)
    arrays = iter([typed_array([value[n] for value in values], t) for n, t in enumerate(payload_targets)])
    file = source if path is None else path
    numbers = np.array([row["Position"] for row in kept], np.int64)
    times = pa.array([row["SourceTime"] for row in kept], pa.int64())
    columns = tuple(
        next(arrays) if t.meta is None else position_column(t, file, numbers, times, now_ns) for t in targets
    )
    payloads = {row["Position"]: row["Payload"] or b"" for row in kept}
    return RequeuedRows(source, TypedRows(columns, numbers), payloads, unit, complete)
