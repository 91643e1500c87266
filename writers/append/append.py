"""Appending rows to one intraday location, up to but not including the commit.

Bytes past the committed length of a file do not exist, so an append can be retried any number of times: opening a
location truncates what an earlier attempt left. Two checks make that safe: the lock on the location's directory and,
under it, the fencing tokens (generation of the stream, attempt of the task). The lock is held only while files change,
so a task can write to more locations than it may have open files.

A location may have no room for a row: a set whose text would be the 65th of a column, a value that its files cannot
hold. Rows are taken in their order. A row that is left out takes no room, so the same rows after the same symbols are
always left out alike.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sparkhaven.store.epochs.files.published_size import (
    OWNER,
    TABLE_DEFINITION,
    TABLE_SIZE,
    named_owner,
    owner_mark,
    physical_size,
)
from sparkhaven.store.epochs.reading.stream_state import list_streams, load_stream
from sparkhaven.store.epochs.state.log_values import LocationReport
from sparkhaven.store.epochs.state.resume_rules import PAGE
from sparkhaven.store.epochs.state.statistics import join
from sparkhaven.store.errors import (
    CommitError,
    EpochConflictError,
    LockLostError,
    SchemaMismatchError,
    SettingsError,
    phase_of,
)
from sparkhaven.store.format.column.codecs import Base, encode_column
from sparkhaven.store.format.column.prefix import charset_of, encode_prefix
from sparkhaven.store.format.column.symbols import decode_symbols
from sparkhaven.store.format.table.table_size import TableSize
from sparkhaven.store.io.fs import Fs, Lock
from sparkhaven.store.layout import LocationKey
from sparkhaven.store.native.checked_columns import crc32
from sparkhaven.store.scan.column_file import committed_column
from sparkhaven.store.types.codings.string_set import MOST_SYMBOLS
from sparkhaven.store.types.committed_columns import FileState, RangeStats
from sparkhaven.store.types.model import Column, Storage, TableSchema, fitting, narrowed, same_form
from sparkhaven.writers.append.column_files import column_values, cut_tails, nulls_like, range_stats
from sparkhaven.writers.append.worker_cache import Ids, SymbolKey, WorkerCache, location_columns
from sparkhaven.writers.task import StreamTarget

Left = dict[int, str]
"""Rows that are left out, and the column of each that has no room."""
LOCK_PAUSES = (0.001, 0.01, 0.05, *[0.1] * 100)  # seconds; another attempt holds the lock for one append
EMPTY = FileState(0, 0)
SYMBOLIC = (Storage.SYMBOL, Storage.SET)
_WRITING_ORDER = (".sym.bytes", ".sym", ".bytes", ".dat")


def committed_texts(
    fs: Fs, schema: TableSchema, directory: Path, files: Mapping[str, FileState], named_by: int
) -> dict[str, frozenset[str]]:
    """The texts that a location with these committed files has, by column of sets.

    ``named_by``: the version of the schema by which the files are named.
    """
    texts = {}
    for column in schema.stored:
        if column.storage is Storage.SET:
            own, known = column.at(named_by).within(files), frozenset[str]()
            if own.files[0] in files:
                _, sym, data = (directory / name for name in own.files)
                ends, octets = (fs.map(path, files[path.name].size) for path in (sym, data))
                known = frozenset(decode_symbols(ends, octets, charset_of(own), "LITTLE_ENDIAN", sym).to_pylist())
            texts[column.name] = known
    return texts


def rows_without_room(batches: Sequence[pa.RecordBatch], texts: Mapping[str, Collection[str]]) -> Left:
    """Rows of batches that follow each other. ``texts``: those that the location has, by column of sets."""
    held = {name: set(known) for name, known in texts.items()}
    left: Left = {}
    start = 0
    for batch in batches:
        columns = {name: batch.column(name) for name in held if name in batch.schema.names}
        if any(len(held[name] | _texts(array)) > MOST_SYMBOLS for name, array in columns.items()):
            for row in _rows_with_more(columns, held):
                sets = {name: set(array[row].as_py() or ()) for name, array in columns.items()}
                full = [name for name, members in sets.items() if len(held[name] | members) > MOST_SYMBOLS]
                if full:
                    left[start + row] = full[0]
                else:
                    for name, members in sets.items():
                        held[name] |= members
        else:
            for name, array in columns.items():
                held[name] |= _texts(array)
        start += batch.num_rows
    return left


def _texts(array: pa.Array) -> set[str]:
    return set(array.flatten().unique().to_pylist()) - {None}


def _rows_with_more(columns: Mapping[str, pa.Array], held: Mapping[str, set[str]]) -> list[int]:
    """Rows with a text that the location does not have yet, ascending."""
    more: set[int] = set()
    for name, array in columns.items():
        coded = array.flatten().dictionary_encode()
        new = np.array([text is not None and text not in held[name] for text in coded.dictionary.to_pylist()], np.bool_)
        lengths = np.where(np.asarray(array.is_null()), 0, np.diff(np.asarray(array.offsets, np.int64)))
        rows: npt.NDArray[np.int64] = np.repeat(np.arange(len(array)), lengths)
        codes = np.asarray(coded.indices.fill_null(0))
        more.update(rows[new[codes]].tolist() if len(codes) else ())
    return sorted(more)


@dataclass(frozen=True, slots=True)
class LocationRoom:
    """What a location can take: ``texts`` that it has, by column of sets, and the earlier ``forms`` that it has of
    widened columns, both by the name in the schema."""

    texts: Mapping[str, Collection[str]]
    forms: Mapping[str, Column]

    def left_out(self, batches: Sequence[pa.RecordBatch]) -> Left:
        """Rows of batches that follow each other for which there is no room, and the column that has none."""
        left: Left = {}
        start = 0
        for batch in batches if self.forms else ():
            for name, form in self.forms.items():
                if name in batch.schema.names:
                    wide = np.flatnonzero(~fitting(batch.column(name), form))
                    left |= dict.fromkeys((start + wide).tolist(), name)
            start += batch.num_rows
        if not self.texts:
            return left
        if not left:
            return rows_without_room(batches, self.texts)
        kept = np.delete(np.arange(start), sorted(left))
        rest = pa.Table.from_batches(batches).take(pa.array(kept)).to_batches()
        return left | {int(kept[row]): name for row, name in rows_without_room(rest, self.texts).items()}


def may_lack_room(schema: TableSchema) -> bool:
    """Whether the table has columns of sets or widened ones, of which a location may have no room for a row."""
    return any(column.storage is Storage.SET or column.forms for column in schema.stored)


def committed_form(fs: Fs, directory: Path, column: Column, files: Collection[str]) -> Column:
    """A column, under its name there, as the files of a location have it; itself where they do not have it."""
    named = column.within(files)
    if not named.forms or named.files[0] not in files:
        return named
    return committed_column(fs, directory / named.files[0], named).column


def committed_room(
    fs: Fs, schema: TableSchema, directory: Path, files: Mapping[str, FileState], named_by: int
) -> LocationRoom:
    """The room in a location with these committed files, which are named by a version of the schema."""
    named = {column.name: column.at(named_by) for column in schema.stored if column.forms}
    own = {name: committed_form(fs, directory, column, files) for name, column in named.items()}
    return LocationRoom(committed_texts(fs, schema, directory, files, named_by), earlier_forms(schema, own))


def earlier_forms(schema: TableSchema, own: Mapping[str, Column]) -> dict[str, Column]:
    """Those of the columns of a location, by their name in the schema, that are in a form from before a widening."""
    widened = [column for column in schema.stored if column.forms]
    return {column.name: own[column.name] for column in widened if not same_form(column, own[column.name])}


class LocationAppender:
    """Appends the rows of a batch to one location.

    ``touched`` files, then ``directories``, must be synced before the commit. ``closed``: the location is truncated and
    takes no rows.
    """

    def __init__(
        self,
        fs: Fs,
        target: StreamTarget,
        key: LocationKey,
        memory: WorkerCache,
        *,
        may_write: Callable[[], None],
        resume: LocationReport | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Opens or creates the location and truncates uncommitted bytes.

        ``may_write`` is called under the lock and raises if this process is fenced off. ``resume`` continues after rows
        that the same batch has already appended. SettingsError: another stream owns the location. LockLostError:
        another process keeps it locked. CorruptFileError: a file is shorter than committed; nothing is changed.
        """
        self._fs, self._target, self.key, self._memory = fs, target, key, memory
        self._may_write, self._sleep = may_write, sleep
        self._empty = memory.empty_location(target.schema)
        self.directory = target.location(key)
        self.touched: dict[Path, None] = {}
        self.directories: dict[Path, None] = {}
        self.written = 0  # bytes appended
        self._stats: dict[str, RangeStats] = {}
        self._ids: dict[str, Ids] = {}
        with writing(self.directory):
            fs.mkdirs(self.directory)
        with self._locked(), fs.during("cut-tails"):
            committed = self._committed()
            self.closed = committed is not None and committed.truncated
            self._start(committed, resume)

    def _committed(self) -> TableSize | None:
        path = self.directory / TABLE_SIZE
        try:
            record = self._memory.table_size(self._fs.read(path), path)
        except FileNotFoundError:
            self._own()
            return None
        if record.stream != self._target.stream:
            raise _belongs(self.directory, self._target.stream, record.stream)
        return record

    def _own(self) -> None:
        """Writes the owner mark of a location without commits, so that two streams cannot both create it.

        The mark is synced with the files of the batch, before the first commit that names the location. If files exist
        without a mark, the mark may be lost: the logs of the other streams are read.
        """
        path, stream = self.directory / OWNER, self._target.stream
        with writing(path):
            owner = named_owner(self._target.place(self._fs), self.directory)
            if owner is None and self._fs.names(self.directory):
                owner = committed_owner(self._fs, self._target, self.key)
            if owner not in (None, stream):
                raise _belongs(self.directory, stream, owner)
            self._fs.write_new(path, owner_mark(stream, self._target.generation))
        self.touched[path] = None
        self.directories[self.directory] = None

    def _start(self, committed: TableSize | None, resume: LocationReport | None) -> None:
        self.base_epoch = committed.epoch or 0 if committed else 0
        self.base_rows = committed.rows if committed else 0
        known = committed.files if committed else {}
        self.rows = self.base_rows
        if resume is not None:
            if (resume.base_epoch, resume.base_rows) != (self.base_epoch, self.base_rows):
                raise EpochConflictError(
                    "a location changed while the results of a batch were combined",
                    where=self.directory,
                    expected=f"epoch {resume.base_epoch}, {resume.base_rows} rows",
                    found=f"epoch {self.base_epoch}, {self.base_rows} rows",
                    hint="restart the stream. Nothing of this batch was committed",
                )
            known, self.rows, self._stats = dict(resume.files), resume.rows, dict(resume.stats)
        self._files: dict[str, FileState] = known
        named_by = self._target.schema.version if committed is None else committed.named_by
        self._columns = {
            column.name: (committed_form(self._fs, self.directory, column, known), current)
            for column, current in location_columns(self._target.schema, known, named_by).values()
        }
        own = {current: column for column, current in self._columns.values()}
        self._forms = earlier_forms(self._target.schema, own)
        if cut_tails(self._fs, self.directory, self._files):
            self.directories[self.directory] = None
        changed = committed is None or committed.schema_version != self._target.schema.version
        if changed and not self.closed:
            self._define(new=committed is None)

    def _define(self, *, new: bool) -> None:
        """Writes ``table.tbl``; after a schema change, checks that each file still belongs to its column."""
        for column, current in self._columns.values():
            name = f"{column.name}.dat"
            if name in self._files and current in self._empty.prefixes:
                prefix = encode_prefix(column)
                if self._fs.read_range(self.directory / name, 0, len(prefix)) != prefix:
                    raise SchemaMismatchError(
                        "the files of a column were written with another definition of it",
                        where=self.directory / name,
                        expected=f"column {column.name} as version {self._target.schema.version} declares it",
                        found="another id, type, storage or charset",
                        hint=f"`sparkhaven inspect {self.directory / name}` shows it. Write it to a new date, see"
                        f" E161 in {PAGE}",
                    )
        path = self.directory / TABLE_DEFINITION
        if not new and (self._forms or any(name != current for name, (_, current) in self._columns.items())):
            return  # files are as before a rename or a widening, as the definition that is there
        with writing(path):
            if new:
                self._fs.write_new(path, self._empty.tbl)
                # an earlier attempt may have made these directories and died before any sync
                value = self.directory.parent
                self.directories.update(dict.fromkeys((value, value.parent, value.parent.parent)))
            else:  # of a committed location: durable before it replaces the old one
                self._fs.replace(path, self._empty.tbl)
        self.touched[path] = None
        self.directories[self.directory] = None

    def append(self, batches: Sequence[pa.RecordBatch]) -> None:
        """Appends rows. All columns are encoded before the first byte is written; ``.dat`` is written last.

        A column that the batches lack is null. CommitError: a write failed (disk full).
        """
        batches = [batch for batch in batches if batch.num_rows]
        if not batches:
            return
        rows = self.rows + sum(batch.num_rows for batch in batches)
        parts: list[tuple[str, Column, memoryview]] = []
        stats: dict[str, RangeStats] = {}
        symbols: dict[str, list[str]] = {}
        for column, current in self._columns.values():
            array = self._values(column, current, batches)
            stats[column.name] = range_stats(array, self.rows, texts=column.type.coding is None)
            base = self._base(column)
            if base.rows != self.rows:  # the column is newer than the location, or came back
                array = pa.concat_arrays([nulls_like(array, self.rows - base.rows), array])
            encoded = encode_column(column, array, base)
            parts.extend((name, column, data) for name, data in encoded.parts.items())
            symbols[column.name] = encoded.symbols
        parts.sort(key=lambda part: _WRITING_ORDER.index(part[0][len(part[1].name) :]))
        with self._locked(), self._fs.during("append"):
            for name, column, data in parts:
                self._write(name, column, data)
        for name, new in symbols.items():
            if new:
                ids = self._ids[name]
                ids.update(zip(new, range(len(ids), len(ids) + len(new)), strict=True))
        for name, part in stats.items():
            self._stats[name] = join(self._stats[name], part) if name in self._stats else part
        self.rows = rows

    def _values(self, column: Column, current: str, batches: Sequence[pa.RecordBatch]) -> pa.Array:
        declared = self._target.schema.column(current)
        if current not in self._forms or declared is None or declared.type.arrow == column.type.arrow:
            return column_values(column, batches, current)
        values = column_values(declared, batches, current)
        fits = fitting(values, column)
        if not fits.all():
            raise SchemaMismatchError(
                "value cannot be stored in the column",
                where=f"{self.directory}, column {column.name}",
                expected=f"a {column.type.name}: the column was widened after the location was begun",
                found=values[int(fits.argmin())].as_py(),
                hint="merge the date and delete its intraday files, then write the row",
            )
        return narrowed(values, column)

    @property
    def room(self) -> LocationRoom:
        """What the location can take."""
        sets = {current: column for column, current in self._columns.values() if column.storage is Storage.SET}
        texts = {current: dict(self._base(column).symbols) for current, column in sets.items()}
        return LocationRoom(texts, self._forms)

    def _base(self, column: Column) -> Base:
        if f"{column.name}.dat" not in self._files:
            self._ids[column.name] = {}
            return Base()
        if column.storage in SYMBOLIC and column.name not in self._ids:
            self._ids[column.name] = self._load_symbols(column)
        sizes = {name: self._files[name].size for name in column.files}
        return Base(sizes[f"{column.name}.dat"] // column.width, sizes, self._ids.get(column.name, {}))

    def _load_symbols(self, column: Column) -> Ids:
        _, sym, text = (self.directory / name for name in column.files)
        ends, data = (self._files[name] for name in column.files[1:])

        def load() -> list[str | None]:
            buffers = self._fs.map(sym, ends.size), self._fs.map(text, data.size)
            symbols: list[str | None] = decode_symbols(
                *buffers, column.encoding or "UTF_8", "LITTLE_ENDIAN", sym
            ).to_pylist()
            return symbols

        key = SymbolKey(self.directory, column.name, self._target.generation)
        return self._memory.symbols.take(key, (ends, data), load)

    def _write(self, name: str, column: Column, data: memoryview) -> None:
        path, state = self.directory / name, self._files.get(name)
        with writing(path):
            if state is None:
                prefix = self._empty.prefixes[self._columns[column.name][1]] if name.endswith(".dat") else b""
                self._fs.write_new(path, prefix + data if prefix else bytes(data))
                self.directories[self.directory] = None
                state = EMPTY
            elif len(data):
                self._fs.write_at(path, physical_size(name, state.size), data)
            else:
                return
        self._files[name] = FileState(state.size + len(data), crc32(data, state.crc))
        self.written += len(data)
        self.touched[path] = None

    def report(self) -> LocationReport:
        """What was appended; puts the symbol tables into the worker's cache for the next batch."""
        for name, ids in self._ids.items():
            if self._columns[name][0].storage in SYMBOLIC:
                key = SymbolKey(self.directory, name, self._target.generation)
                self._memory.symbols.give(key, (self._files[f"{name}.sym"], self._files[f"{name}.sym.bytes"]), ids)
        self._ids = {}
        return LocationReport(
            self.key, self.base_epoch, self.base_rows, self.rows, dict(self._files), dict(self._stats)
        )

    def _try_lock(self) -> Lock | None:
        with writing(self.directory):  # recovery of another stream may have removed an empty directory
            return self._fs.lock(self.directory, make=False)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        pauses = iter(LOCK_PAUSES)
        while (lock := self._try_lock()) is None:
            pause = next(pauses, None)
            if pause is None:
                raise LockLostError(
                    "a location is locked by another process",
                    where=self.directory,
                    expected="free within 10 seconds",
                    found="still locked",
                    hint="end the process that holds the lock (`fuser` on the directory names it), then restart",
                )
            self._sleep(pause)
        with lock:
            self._may_write()
            yield


@contextmanager
def writing(path: Path, phase: str = "append") -> Iterator[None]:
    """Turns an OSError of a write into a CommitError with file and phase; the batch can be retried."""
    try:
        yield
    except OSError as error:
        raise CommitError(
            f"cannot write: {error.strerror or error}",
            where=path,
            hint="free space or repair the disk, then restart the stream. Nothing of this batch was committed",
            phase=phase_of(error) or phase,
        ) from error


def committed_owner(fs: Fs, target: StreamTarget, key: LocationKey) -> str | None:
    """The other stream of the table whose commit log has the location, or None. Reads those logs."""
    stream_place = target.place(fs)
    for stream in list_streams(stream_place):
        if stream != target.stream and key in load_stream(stream_place.of_stream(stream)).locations:
            return stream
    return None


def _belongs(directory: Path, stream: str, owner: str | None) -> SettingsError:
    return SettingsError(
        "a location belongs to another writer",
        where=directory,
        expected=f"stream {stream}",
        found=f"stream {owner}" if owner else "a table.size without a stream",
        hint="route the rows to another internal partition. A location has one writer."
        " If that stream no longer exists, move the directory away",
    )
