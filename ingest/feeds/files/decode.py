"""One planned file to blocks of typed rows, in bounded memory.

1. The file is compared with the plan (size, time); 2. its bytes are unpacked and cut into blocks; 3. a decoder
makes typed rows of each block; 4. the caller routes them to locations; 5. the file is compared with the plan again.
Nothing of a split may be committed before the iterator has ended, since step 5 may still refuse the file.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa

from sparkhaven.ingest.bad_rows import Rejects, Unit, bad_row
from sparkhaven.ingest.content.file_parts import part_lines
from sparkhaven.ingest.content.lines import LineBlock, line_blocks
from sparkhaven.ingest.content.raw_file import changed, chunks, verify
from sparkhaven.ingest.decode_guard import guarded_file
from sparkhaven.ingest.encodings import in_own_bytes, utf8_chunks
from sparkhaven.ingest.feeds.base import SILENT, Block, Clock
from sparkhaven.ingest.feeds.files.options import FilesOptions
from sparkhaven.ingest.formats.csv.csv_parts import RecordRange, find_records, record_lines
from sparkhaven.ingest.formats.csv.csv_rows import CsvRows
from sparkhaven.ingest.formats.json.json_rows import JsonRows
from sparkhaven.ingest.formats.parquet.file_constants import NO_CONSTANTS, FileConstants
from sparkhaven.ingest.formats.parquet.parquet_rows import ParquetDecoder
from sparkhaven.ingest.router import Router, reference_ns
from sparkhaven.ingest.spec.payload_formats import UTF8, Format
from sparkhaven.ingest.spec.stream_spec import StreamSpec, Target
from sparkhaven.ingest.targets.declared_columns import require_columns
from sparkhaven.ingest.targets.target_columns import resolve_targets
from sparkhaven.ingest.values.instants import INSTANT_HIGH
from sparkhaven.ingest.values.refusals import out_of_range
from sparkhaven.ingest.values.typed_rows import TypedRows
from sparkhaven.store.epochs.state.log_values import FileId, FilePart
from sparkhaven.store.errors import SettingsError
from sparkhaven.store.instants import NS_PER_SECOND
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.types.frozen import frozen
from sparkhaven.store.types.model import TableSchema

Payload = Callable[[int], bytes]
FAR_FILE = "the modification time of the file"


@frozen
class KnownFile:
    """What is known of a file beside its bytes.

    ``place`` names its rows instead of its path, ``time_ns`` is its time where that is not its modification time.
    ``utc96``: its timestamps of type INT96 are instants. ``declared``: names of columns that its table declares without
    the file.
    """

    place: str | None = None
    constants: FileConstants = NO_CONSTANTS
    time_ns: int | None = None
    utc96: bool = False
    declared: Callable[[], Collection[str]] = frozenset


NOTHING = KnownFile()


def file_blocks(
    fs: Fs,
    split: FileId,
    spec: StreamSpec,
    options: FilesOptions,
    schema: TableSchema,
    rejects: Rejects,
    clock: Clock,
    known: KnownFile = NOTHING,
) -> Iterator[Block]:
    """Steps 1 to 3 and 5: typed rows block by block; bad rows and counts go to ``rejects``.

    Raises PositionGapError when the file is not what was planned (both sizes named), FeedError when it cannot be
    read, ErrorBudgetExceeded when it has more bad rows than a batch may have.
    """
    with guarded_file(known.place or split.path):
        rejects.time_ns = _time_ns(split, known)
        rejects.complete = partial(in_own_bytes, options.encoding) if options.encoding != UTF8 else None
        targets = resolve_targets(spec, schema)
        before = verify(fs, split)
        unit = unit_of(options.format)
        clock_ns = _clock_ns(fs, split, spec, options, targets, clock, known)
        router = Router(targets, spec.partition, known.place or split.path, clock_ns, unit)
        payload_targets = [t for t in targets if t.meta is None]
        for rows, payload in decoded(fs, split, spec, options, payload_targets, rejects, known):
            rows = _near(rows, targets, router, _time_ns(split, known), payload, rejects)
            yield router, _with_meta(rows, targets, split, clock, known), payload
        after = verify(fs, split)
        if (after.inode, after.ctime_ns) != (before.inode, before.ctime_ns):
            raise changed(split, after.size, after.mtime_ns)
        rejects.complete = None


def unit_of(format: Format) -> Unit:
    """What rows of a file are numbered by."""
    return "row" if format == "parquet" else "line"


def decoded(
    fs: Fs,
    split: FileId,
    spec: StreamSpec,
    options: FilesOptions,
    targets: Sequence[Target],
    rejects: Rejects,
    known: KnownFile = NOTHING,
) -> Iterator[tuple[TypedRows, Payload]]:
    """Typed rows of a file block by block, with the text of each line by number."""
    alias, missing = spec.allow_null_alias, options.missing_columns
    if options.format == "parquet":
        parquet_rows = ParquetDecoder(
            targets,
            spec.ignore,
            alias=alias,
            constants=known.constants,
            path=known.place,
            utc96=known.utc96,
            bytes_too=options.binary_as_text,
        )
        text = parquet_rows.payload(fs, split)

        def check(names: Sequence[str]) -> None:
            require_columns(targets, names, split.path, missing, further=known.declared)

        for rows in parquet_rows.decode(fs, split, rejects, check):
            yield rows, text
        return
    encoding = options.encoding

    def blocks(records: RecordRange | None = None) -> Iterator[LineBlock]:
        first, pieces = 1, chunks(fs, split)
        if isinstance(split, FilePart):
            first, pieces = part_lines(fs, split) if records is None else record_lines(fs, split, records)
        return line_blocks(utf8_chunks(pieces, encoding, split.path), first=first)

    if options.format == "json":
        json_rows = JsonRows(targets, spec.ignore, alias=alias)
        for block in blocks():
            yield json_rows.decode(block, split.path, rejects), block.line_of
        return
    if options.format != "csv":
        raise SettingsError("unknown feed format", expected="json, csv or parquet", found=options.format)
    csv_rows = CsvRows(targets, spec.ignore, options.csv, alias=alias, missing=missing)
    records: RecordRange | None = None
    if isinstance(split, FilePart):
        records = find_records(fs, split, options.csv, partial(csv_rows.start, file=split.path))
    first: int | None = 1
    while first is not None:  # a second time for a file with a quote that nothing closes
        yield from _csv_rows(csv_rows, blocks(records), first, split.path, rejects)
        first = csv_rows.unclosed()


def _csv_rows(
    csv_rows: CsvRows, blocks: Iterator[LineBlock], first: int, file: str, rejects: Rejects
) -> Iterator[tuple[TypedRows, Payload]]:
    """Rows of the lines from the one with the number ``first`` on."""
    rest: LineBlock | None = None
    for whole in blocks:
        block = whole.after(first - 1) if first > 1 else whole
        if rest is not None:
            block = rest.before(block)
        rows, used = csv_rows.decode(block, file, rejects, last=False)
        yield rows, csv_rows.record_of
        rest = block.rest(used) if used < len(block) else None
    if rest is not None:
        rows, _ = csv_rows.decode(rest, file, rejects, last=True)
        yield rows, csv_rows.record_of


def _clock_ns(
    fs: Fs,
    split: FileId,
    spec: StreamSpec,
    options: FilesOptions,
    targets: Sequence[Target],
    clock: Clock,
    known: KnownFile,
) -> int:
    """What the bounds are measured from. ``batch`` is the newest instant of the file itself.

    A batch is put together anew after a crash; a file is not. So the same file gives the same rows each time.
    """
    chosen = [target for target in targets if target.column.name == spec.partition.value.column]
    now_ns = round(clock() * NS_PER_SECOND)
    if spec.partition.clock.kind == "batch" and any(target.meta is not None for target in chosen):
        return _time_ns(split, known) if chosen[0].meta == "timestamp" else now_ns

    def rows() -> Iterator[TypedRows]:
        return (rows for rows, _ in decoded(fs, split, spec, options, chosen, Rejects(SILENT, keep=0), known))

    return reference_ns(spec.partition, chosen, now_ns, rows)


def _time_ns(split: FileId, known: KnownFile) -> int:
    """The time of a file; one that no Instant holds is the last or first of 64 bits."""
    time_ns = split.mtime_ns if known.time_ns is None else known.time_ns
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


def _with_meta(rows: TypedRows, targets: Sequence[Target], split: FileId, clock: Clock, known: KnownFile) -> TypedRows:
    """Rows with the columns that come from the source position put in their places."""
    if not any(t.meta for t in targets):
        return rows
    payload = iter(rows.columns)
    columns = [next(payload) if t.meta is None else _meta(t, rows, split, clock, known) for t in targets]
    return replace(rows, columns=tuple(columns))


def _meta(target: Target, rows: TypedRows, split: FileId, clock: Clock, known: KnownFile) -> pa.Array:
    if target.meta == "file":
        return pa.repeat(split.path, len(rows))
    if target.meta == "line":
        return pa.array(rows.numbers, pa.int64()).cast(target.column.type.arrow)
    stamp: int | None = round(clock() * NS_PER_SECOND)
    if target.meta == "timestamp":
        stamp = _time_ns(split, known)
        if abs(stamp) == INSTANT_HIGH and target.far == "null":
            return pa.nulls(len(rows), target.column.type.arrow)
    return pa.array(np.full(len(rows), stamp, np.int64)).view(target.column.type.arrow)
