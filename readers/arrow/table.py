"""A snapshot of a table, read as Arrow: intraday, history, or both as one table with each row once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

import pyarrow as pa

from sparkhaven.readers.arrow.slices import PartitionValues, SliceReader, arrow_type
from sparkhaven.readers.arrow.stream import stream_capsule
from sparkhaven.store.epochs.pins import Pin
from sparkhaven.store.epochs.recovery.set_aside import SetAside, list_set_aside, refuse_set_aside
from sparkhaven.store.epochs.recovery.witnesses import Witnesses, refuse
from sparkhaven.store.errors import SchemaMismatchError, SnapshotMovedError
from sparkhaven.store.expressions.predicate.expression import Predicate, parse_predicate
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.io.system_errors import as_storage_errors
from sparkhaven.store.layout import Layout, LocationKey
from sparkhaven.store.scan.checksums import Checks
from sparkhaven.store.scan.ranges import Filter, ReadPlan, Slice, Snapshot, make_plan
from sparkhaven.store.scan.selection import Selection, check_tier
from sparkhaven.store.suggestions import near
from sparkhaven.store.types.model import Column, TableSchema
from sparkhaven.store.volumes import require_named

BATCH_ROWS = 1 << 17
Names = str | Iterable[str]


class Table:
    """A snapshot of one table: reads are isolated from concurrent commits and merges.

    Where the rows of the snapshot were rolled back or deleted, a read is a SnapshotMovedError. Arrays that were
    returned before keep their rows.

    A table is an Arrow stream of all rows and columns, each time from the start: ``duckdb.sql("from t")``,
    ``polars.DataFrame(t)``, ``pyarrow.table(t)``, ``pandas.DataFrame.from_arrow(t)`` (pandas 3. Before that:
    ``pyarrow.table(t).to_pandas()``). Texts are plain strings there. An error in mid-stream reaches the consumer as
    its own class with the text of ours.
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
        """The same snapshot with other checksum checks of its reads. None: no checks."""
        skip, pins = self._skip_set_aside, self._pins.values()
        return Table(self._fs, self._layout, self.snapshot, pins, checks, skip_set_aside=skip)

    def narrowed(self, slices: Iterable[Slice]) -> Table:
        """The same snapshot for reading these slices only, in this process or, pickled, in another."""
        keys: dict[str, list[LocationKey]] = {}
        for slice_ in slices:
            if slice_.stream is not None:
                keys.setdefault(slice_.stream, []).append(slice_.key)
        return self._with(self._pins[stream].narrowed(keys[stream]) for stream in keys)

    def detached(self) -> Table:
        """The same snapshot, all of it in memory: it can be pickled, and reads on when its epochs are not kept."""
        return self._with(pin.narrowed(pin.state.locations) for pin in self._pins.values())

    def _with(self, pins: Iterable[Pin]) -> Table:
        held = list(pins)
        snapshot = replace(self.snapshot, streams=tuple(pin.state for pin in held))
        return Table(self._fs, self._layout, snapshot, held, self._checks, skip_set_aside=self._skip_set_aside)

    @property
    def set_aside(self) -> list[SetAside]:
        """Damaged locations of the table that were set aside, whose rows no read returns."""
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
        """Fields of a result. Default: symbol columns and the partitioning column are dictionaries of strings."""
        shown = self.columns(columns)
        return pa.schema([pa.field(c.name, arrow_type(c, dictionaries=dictionaries)) for c in shown])

    def __arrow_c_schema__(self) -> object:
        """The schema of the stream, as a capsule of the Arrow C data interface."""
        return self.arrow_schema(dictionaries=False).__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """All rows and columns of tier ``all``, batch by batch, as a capsule of the Arrow C stream interface.

        A requested schema is honoured where its fields are those of the table and there is a cast.
        """
        return stream_capsule(lambda dictionaries: self.to_batches(dictionaries=dictionaries), requested_schema)

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
        """Number of rows. Without ``where`` no data file is opened."""
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
    ) -> ReadPlan:
        """Row ranges that a read opens. ``dates`` takes values and ranges ``A..B``, ``sources`` internal partitions.

        A source is named by the value from the data, or by its directory. SettingsError: a text may mean two.
        """
        predicate = self._predicate(where)
        selection = Selection.of(dates, sources)
        with as_storage_errors():
            return self._plan(selection, tier, predicate)

    def _plan(self, selection: Selection, tier: str, predicate: Predicate | None) -> ReadPlan:
        plan = make_plan(
            self._fs,
            self._layout,
            self.snapshot,
            tier=check_tier(tier),
            selection=selection,
            where=filter_of(predicate),
        )
        witnesses = Witnesses(self._fs, self._layout, self.snapshot.table, [pin.state for pin in self._pins.values()])
        if tier != "history":
            if not self._skip_set_aside:
                hint = "read the rest with --skip-set-aside (skip_set_aside=True of open_table)"
                refuse_set_aside(self._fs, self._layout, self.snapshot.table, selection.takes_value, hint)
            refuse(witnesses.locations(selection.takes_value))
        for path, taken in plan.unmerged:
            refuse(witnesses.names_epoch(taken.stream, taken.epoch, path, "a merge"))
        for pin in self._pins.values():  # after history was read: it may hold rows that replaced removed ones
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

        Fixed-width columns without nulls are zero-copy: the mapped files themselves. Dictionaries are the same in all
        chunks.
        """
        predicate = self._predicate(where)
        shown = self.columns(columns)
        parts = list(self._parts(shown, predicate, None, None, dates=dates, sources=sources, tier=tier))
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
        on_read: Callable[[int], object] | None = None,
    ) -> pa.RecordBatchReader:
        """The rows of ``to_arrow``, in the same order, as a stream of batches of at most ``batch_rows`` rows.

        Memory holds one batch and the dictionaries of one location. A dictionary may change from batch to batch.
        ``on_read`` is called with the number of rows of each step before it is read and filtered. The result is an
        Arrow stream, which other libraries take as it is, once: ``polars.DataFrame(t.to_batches(["Sym", "Px"]))``.
        """
        predicate = self._predicate(where)
        shown = self.columns(columns)
        parts = self._parts(shown, predicate, batch_rows, on_read, dates=dates, sources=sources, tier=tier)
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
        on_read: Callable[[int], object] | None,
        *,
        dates: Names | None,
        sources: Names | None,
        tier: str,
    ) -> Iterator[list[pa.Array]]:
        """Arrays of the shown columns, slice by slice, in steps of ``step`` rows (None: a slice at once)."""
        plan = self.plan(dates=dates, sources=sources, where=predicate, tier=tier)
        return self._read(plan.slices, shown, predicate, step, on_read)

    def read(
        self,
        slices: Sequence[Slice],
        columns: Names | None = None,
        *,
        where: Predicate | None = None,
        batch_rows: int = BATCH_ROWS,
    ) -> Iterator[pa.RecordBatch]:
        """The rows of some slices of a plan, in batches like those of ``to_batches``."""
        shown = self.columns(columns)
        schema = pa.schema([pa.field(c.name, arrow_type(c)) for c in shown])
        for part in self._read(slices, shown, where, batch_rows):
            yield pa.RecordBatch.from_arrays(part, schema=schema)

    def _read(
        self,
        slices: Sequence[Slice],
        shown: Sequence[Column],
        predicate: Predicate | None,
        step: int | None,
        on_read: Callable[[int], object] | None = None,
    ) -> Iterator[list[pa.Array]]:
        values = PartitionValues.of(slice_.key.value for slice_ in slices)
        filtered = [c for c in self.schema.readable.columns if predicate and c.name in predicate.columns]
        for slice_ in slices:
            pin = self._pins.get(slice_.stream) if slice_.stream else None
            later, checks = step is None, self._checks
            reader = SliceReader(self._fs, slice_, shown, filtered, values, pin, later=later, checks=checks)
            rows = step or slice_.stop - slice_.start
            for first in range(slice_.start, slice_.stop, rows):
                last = min(first + rows, slice_.stop)
                if on_read is not None:
                    on_read(last - first)
                with as_storage_errors():
                    try:
                        yield from reader.read(first, last, predicate)
                    except SnapshotMovedError:
                        if slice_.stream is None:
                            require_named(self._fs, self._layout, self.snapshot.table, slice_.key)
                        raise
        if step is None:  # the caller gets all parts before it reads one
            with as_storage_errors():
                for stream, pin in self._pins.items():
                    pin.require((slice_.key, slice_.directory) for slice_ in slices if slice_.stream == stream)

    def _predicate(self, where: str | Predicate | None) -> Predicate | None:
        return parse_predicate(where, self.schema.readable) if isinstance(where, str) else where

    def columns(self, names: Names | None = None) -> tuple[Column, ...]:
        """The named columns in the requested order. None: all in the order of the definition.

        A column that was dropped from the schema is found by its name, where its files are still there.
        SchemaMismatchError for a name that the table does not have, or that is named twice.
        """
        if names is None:
            return self.schema.columns
        asked = [names] if isinstance(names, str) else list(names)
        readable = self.schema.readable.columns
        known = [column.name for column in readable]
        for position, name in enumerate(asked):
            if name not in known:
                raise SchemaMismatchError(
                    f"{self.name} has no column {name!r}",
                    expected=near(name, known),
                    found=repr(name),
                    hint=f"names are case-sensitive; `sparkhaven schema show {self.name}` lists the columns",
                )
            if name in asked[:position]:
                raise SchemaMismatchError(
                    f"column {name!r} is requested twice", expected="each column once", found=asked
                )
        if not asked:
            raise SchemaMismatchError("no column is requested", expected="one or more", found="none")
        return tuple(column for name in asked for column in readable if column.name == name)


def filter_of(predicate: Predicate | None) -> Filter | None:
    """An expression as the scan sees it."""
    return None if predicate is None else Filter(frozenset(predicate.columns), predicate.may_match)


def _plain(shown: Sequence[Column]) -> pa.Schema:
    return pa.schema([pa.field(c.name, arrow_type(c, dictionaries=False)) for c in shown])
