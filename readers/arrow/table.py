"""A table at one moment, read as Arrow: intraday, history, or both as one table with each row once.

``open_table`` pins a vector of epochs. It reads the deployed schema and the commit logs of the table's streams, and
nothing else: history is looked up when a read asks for it, date by date.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa

from readers.arrow.slices import SliceReader, arrow_type
from store.epochs.files.load import list_epochs, list_streams, load_stream
from store.epochs.pins import Pin
from store.epochs.recovery.aside import SetAside, list_set_aside, refuse_set_aside
from store.epochs.recovery.witnesses import Witnesses, refuse
from store.errors import SchemaMismatchError, SettingsError, SnapshotMovedError, TableNotFoundError
from store.io.fs import Fs
from store.io.system_errors import as_storage_errors
from store.layout import Layout, TableName
from store.predicate.expression import Predicate, parse_predicate
from store.scan.checksums import Checks, ChecksumVerify, checks_of, chosen_mode
from store.scan.ranges import Filter, Plan, Snapshot, make_plan
from store.scan.selection import Selection, check_tier, near
from store.schema.deployed.deploy import deployed_tables, load_deployed
from store.types.model import Column, TableSchema
from store.volumes import require_named

BATCH_ROWS = 1 << 17
Names = str | Iterable[str]


def open_table(
    root: str | Path,
    name: str,
    *,
    epoch: int | Mapping[str, int] | None = None,
    as_of: datetime | str | None = None,
    checksum_verify: ChecksumVerify | None = None,
    skip_set_aside: bool = False,
    fs: Fs | None = None,
) -> Table:
    """Opens ``NS.T`` below a database root, pinned at the newest epochs, at given ones, or as it was at a time.

    ``epoch`` is one number for a table of one stream, or stream -> epoch (streams left out: newest). ``as_of`` is a
    time with zone, or ISO text (UTC if it has none). With ``skip_set_aside`` reads go without the rows of damaged
    locations that were set aside (``Table.set_aside`` names them), else needing them is a CorruptFileError. Raises
    TableNotFoundError for an unknown table, stream or epoch.

    ``checksum_verify`` says when reads compare committed bytes with their checksums: ``read`` when a file is first
    touched in this process, whole, and what has grown since (default; else SPARKHAVEN_CHECKSUM_VERIFY), ``open`` each
    time that it is opened, ``scrub`` and ``off`` never: then only `verify --deep` does. A difference is a
    CorruptFileError.
    """
    fs, layout, table = fs or Fs(), Layout(Path(root)), TableName.parse(name)
    mode = chosen_mode(checksum_verify, os.environ)
    if epoch is not None and as_of is not None:
        raise SettingsError("epoch and as_of exclude each other", expected="one of the two", found="both")
    with as_storage_errors():
        return _opened(fs, layout, table, epoch, as_of, checks_of(mode), skip_set_aside)


def _opened(
    fs: Fs,
    layout: Layout,
    table: TableName,
    epoch: int | Mapping[str, int] | None,
    as_of: datetime | str | None,
    checks: Checks | None,
    skip_set_aside: bool,
) -> Table:
    try:
        schema = load_deployed(fs, layout, table)
    except TableNotFoundError:
        raise _no_table(fs, layout, table) from None
    streams = list_streams(fs, layout, table)
    if not streams:
        refuse(Witnesses(fs, layout, table, ()).locations())
    if as_of is None:
        pins = _pins(table, streams, epoch)
    else:
        moment = _milliseconds(as_of)
        pins = {stream: _epoch_at(fs, layout, table, stream, moment) for stream in streams}
    held = tuple(Pin.of(fs, layout, table, stream, epoch=pins.get(stream)) for stream in streams)
    witnesses = Witnesses(fs, layout, table, [pin.state for pin in held])
    refuse(witnesses.beside_logs())
    for pin in held:
        refuse(witnesses.removed_by(pin.state.stream, pin.named))
    snapshot = Snapshot(table, schema, tuple(pin.state for pin in held))
    return Table(fs, layout, snapshot, held, checks, skip_set_aside=skip_set_aside)


def _pins(table: TableName, streams: Sequence[str], epoch: int | Mapping[str, int] | None) -> dict[str, int]:
    if epoch is None:
        return {}
    if isinstance(epoch, int):
        if len(streams) != 1:
            raise SettingsError(
                f"{table} has {len(streams)} streams, so one number is no snapshot",
                expected="stream=epoch for one or more of: " + ", ".join(streams),
                found=epoch,
                hint=f"`sparkhaven stats {table}` shows the streams with their epochs",
            )
        return {streams[0]: epoch}
    for stream in epoch:
        if stream not in streams:
            raise TableNotFoundError(
                f"{table} has no stream {stream!r}",
                expected=near(stream, streams),
                found=repr(stream),
                hint=f"`sparkhaven stats {table}` shows the streams with their epochs",
            )
    return dict(epoch)


def _epoch_at(fs: Fs, layout: Layout, table: TableName, stream: str, time_ms: int) -> int:
    """The newest epoch that was committed by then and was not rolled back later; 0 before the first one."""
    found = [entry.epoch for entry in list_epochs(fs, layout, table, stream) if entry.live and entry.time_ms <= time_ms]
    if found:
        return found[-1]
    newest = load_stream(fs, layout, table, stream)
    floor = load_stream(fs, layout, table, stream, epoch=newest.floor)
    if any(location.time_ms > time_ms for location in floor.locations.values()):
        raise TableNotFoundError(
            f"stream {stream!r} keeps no epoch of that time",
            where=layout.stream_log(table, stream),
            expected=f"epoch {newest.floor} or newer, by its time",
            found=datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(),
            hint="`sparkhaven epochs list` shows the kept ones with their times",
        )
    return newest.floor


def _milliseconds(moment: datetime | str) -> int:
    try:
        parsed = datetime.fromisoformat(moment) if isinstance(moment, str) else moment
    except ValueError:
        raise SettingsError("as_of is no time", expected="ISO, like 2026-11-21T09:30:00Z", found=repr(moment)) from None
    zoned = parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)
    return int(zoned.timestamp() * 1000)


def _no_table(fs: Fs, layout: Layout, table: TableName) -> TableNotFoundError:
    names = [str(name) for name in deployed_tables(fs, layout)]
    if fs.stat(layout.root) is None:
        hint = "there is no such directory: check --root or SPARKHAVEN_ROOT"
    else:
        hint = "`sparkhaven tables` lists what is there; a table appears with the first run of its stream"
    return TableNotFoundError(
        f"no table {table}", where=layout.schema(table), expected=near(str(table), names), found=str(table), hint=hint
    )


class Table:
    """A snapshot of one table. Reads of it see the same rows, whatever is committed or merged meanwhile.

    Where that cannot be, because an epoch was rolled back or its rows were deleted, a read is a SnapshotMovedError;
    arrays that were handed out before keep their rows.
    """

    def __init__(
        self,
        fs: Fs,
        layout: Layout,
        snapshot: Snapshot,
        pins: Iterable[Pin],
        checks: Checks | None = None,
        *,
        skip_set_aside: bool = False,
    ) -> None:
        self._skip_set_aside = skip_set_aside
        self._fs = fs
        self._layout = layout
        self._pins = {pin.state.stream: pin for pin in pins}
        self._checks = checks
        self.snapshot = snapshot

    def __repr__(self) -> str:
        return f"Table({self.name}, epochs={self.epochs})"

    @property
    def name(self) -> str:
        """``NS.T``."""
        return str(self.snapshot.table)

    def with_checks(self, checks: Checks | None) -> Table:
        """The same snapshot, whose reads compare checksums by ``checks``; None: not at all."""
        skip, pins = self._skip_set_aside, self._pins.values()
        return Table(self._fs, self._layout, self.snapshot, pins, checks, skip_set_aside=skip)

    @property
    def set_aside(self) -> list[SetAside]:
        """Damaged locations of the table that were set aside: rows that no read gives."""
        return list_set_aside(self._fs, self._layout, self.snapshot.table)

    @property
    def schema(self) -> TableSchema:
        """The deployed definition, as it was at open."""
        return self.snapshot.schema

    @property
    def epochs(self) -> dict[str, int]:
        """The pinned epochs: stream -> epoch."""
        return self.snapshot.epochs

    def arrow_schema(self, columns: Names | None = None, *, dictionaries: bool = True) -> pa.Schema:
        """Fields of a result. Symbol columns and the partitioning column are dictionaries of strings unless told."""
        shown = self._columns(columns)
        return pa.schema([pa.field(c.name, arrow_type(c, dictionaries=dictionaries)) for c in shown])

    def values(self, *, tier: str = "all") -> list[str]:
        """Partition values (dates) with rows, sorted."""
        return sorted({slice_.key.value for slice_ in self.plan(tier=tier).slices})

    def sources(self, *, tier: str = "all") -> list[str]:
        """Internal partitions with rows, sorted."""
        return sorted({slice_.key.internal for slice_ in self.plan(tier=tier).slices})

    def count(
        self,
        *,
        dates: Names | None = None,
        sources: Names | None = None,
        where: str | Predicate | None = None,
        tier: str = "all",
    ) -> int:
        """Number of rows; without ``where`` no data file is opened."""
        if where is None:
            return self.plan(dates=dates, sources=sources, tier=tier).rows
        first = [c.name for c in self.schema.stored[:1]]
        batches = self.to_batches(first, dates=dates, sources=sources, where=where, tier=tier)
        return sum(batch.num_rows for batch in batches)

    def plan(
        self,
        *,
        dates: Names | None = None,
        sources: Names | None = None,
        where: str | Predicate | None = None,
        tier: str = "all",
    ) -> Plan:
        """Row ranges that a read opens; ``dates`` takes values and ranges ``A..B``, ``sources`` internal partitions."""
        predicate = self._predicate(where)
        selection = Selection.of(dates, sources)
        with as_storage_errors():
            return self._plan(selection, tier, predicate)

    def _plan(self, selection: Selection, tier: str, predicate: Predicate | None) -> Plan:
        plan = make_plan(
            self._fs,
            self._layout,
            self.snapshot,
            tier=check_tier(tier),
            selection=selection,
            where=None if predicate is None else _filter(predicate),
        )
        witnesses = Witnesses(self._fs, self._layout, self.snapshot.table, [pin.state for pin in self._pins.values()])
        if tier != "history":
            if not self._skip_set_aside:
                hint = "read the rest with --skip-set-aside (skip_set_aside=True of open_table)"
                refuse_set_aside(self._fs, self._layout, self.snapshot.table, selection.takes_value, hint)
            refuse(witnesses.locations(selection.takes_value))
        for path, taken in plan.unmerged:
            refuse(witnesses.names_epoch(taken.stream, taken.epoch, path, "a merge"))
        for pin in self._pins.values():  # after the look at history: it may hold what came in place of rows that went
            pin.require_dates(selection.takes_value)
        return plan

    def to_arrow(
        self,
        columns: Names | None = None,
        *,
        dates: Names | None = None,
        sources: Names | None = None,
        where: str | Predicate | None = None,
        tier: str = "all",
        dictionaries: bool = True,
    ) -> pa.Table:
        """All rows as one table, ordered by date, then history before intraday, internal partition, row.

        Fixed-width columns without nulls are the mapped files themselves. Dictionaries are the same in all chunks.
        """
        predicate = self._predicate(where)
        shown = self._columns(columns)
        parts = list(self._parts(shown, predicate, None, dates=dates, sources=sources, tier=tier))
        schema = pa.schema([pa.field(c.name, arrow_type(c)) for c in shown])
        chunks = [pa.chunked_array([part[i] for part in parts], field.type) for i, field in enumerate(schema)]
        table = pa.table(chunks, schema)
        return table.unify_dictionaries() if dictionaries else table.cast(_plain(shown))

    def to_batches(
        self,
        columns: Names | None = None,
        *,
        dates: Names | None = None,
        sources: Names | None = None,
        where: str | Predicate | None = None,
        tier: str = "all",
        dictionaries: bool = True,
        batch_rows: int = BATCH_ROWS,
    ) -> pa.RecordBatchReader:
        """The rows of ``to_arrow``, in the same order, as a stream of batches of at most ``batch_rows`` rows.

        Memory holds one batch and the dictionaries of one location. A dictionary may change from batch to batch.
        """
        predicate = self._predicate(where)
        shown = self._columns(columns)
        parts = self._parts(shown, predicate, batch_rows, dates=dates, sources=sources, tier=tier)
        schema = pa.schema([pa.field(c.name, arrow_type(c)) for c in shown])
        batches = (pa.RecordBatch.from_arrays(part, schema=schema) for part in parts)
        if not dictionaries:
            schema = _plain(shown)
            batches = (batch.cast(schema) for batch in batches)
        return pa.RecordBatchReader.from_batches(schema, batches)

    def _parts(
        self,
        shown: Sequence[Column],
        predicate: Predicate | None,
        step: int | None,
        *,
        dates: Names | None,
        sources: Names | None,
        tier: str,
    ) -> Iterator[list[pa.Array]]:
        """Arrays of the shown columns, slice by slice, in steps of ``step`` rows (None: a slice at once)."""
        plan = self.plan(dates=dates, sources=sources, where=predicate, tier=tier)
        values = pa.array(sorted({slice_.key.value for slice_ in plan.slices}), pa.string())
        filtered = [c for c in self.schema.columns if predicate and c.name in predicate.columns]
        return self._read(plan, shown, filtered, values, predicate, step)

    def _read(
        self,
        plan: Plan,
        shown: Sequence[Column],
        filtered: Sequence[Column],
        values: pa.Array,
        predicate: Predicate | None,
        step: int | None,
    ) -> Iterator[list[pa.Array]]:
        for slice_ in plan.slices:
            pin = self._pins.get(slice_.stream) if slice_.stream else None
            later, checks = step is None, self._checks
            reader = SliceReader(self._fs, slice_, shown, filtered, values, pin, later=later, checks=checks)
            for first in range(slice_.start, slice_.stop, step or plan.rows):
                last = min(first + (step or plan.rows), slice_.stop)
                with as_storage_errors():
                    try:
                        yield from reader.read(first, last, predicate)
                    except SnapshotMovedError:
                        if slice_.stream is None:
                            require_named(self._fs, self._layout, self.snapshot.table, slice_.key)
                        raise
        if step is None:  # the caller takes all parts before it looks at one
            with as_storage_errors():
                for stream, pin in self._pins.items():
                    pin.require((slice_.key, slice_.directory) for slice_ in plan.slices if slice_.stream == stream)

    def _predicate(self, where: str | Predicate | None) -> Predicate | None:
        return parse_predicate(where, self.schema) if isinstance(where, str) else where

    def _columns(self, names: Names | None) -> tuple[Column, ...]:
        """The named columns in the order asked for; all in definition order for None."""
        if names is None:
            return self.schema.columns
        asked = [names] if isinstance(names, str) else list(names)
        known = [column.name for column in self.schema.columns]
        for position, name in enumerate(asked):
            if name not in known:
                raise SchemaMismatchError(
                    f"{self.name} has no column {name!r}",
                    expected=near(name, known),
                    found=repr(name),
                    hint="names are case-sensitive; `sparkhaven schema show` lists the columns",
                )
            if name in asked[:position]:
                raise SchemaMismatchError(f"column {name!r} is asked for twice", expected="each once", found=asked)
        if not asked:
            raise SchemaMismatchError("no column is asked for", expected="one or more", found="none")
        return tuple(column for name in asked for column in self.schema.columns if column.name == name)


def _filter(predicate: Predicate) -> Filter:
    return Filter(frozenset(predicate.columns), lambda stats: not predicate.prune(stats))


def _plain(shown: Sequence[Column]) -> pa.Schema:
    return pa.schema([pa.field(c.name, arrow_type(c, dictionaries=False)) for c in shown])
