"""Joins live tables to a Deephaven engine in this process: the only module that imports one, and only after ``start``.

The interface is that of ``deephaven.experimental.table_data_service`` (release 42). Callbacks come from threads of the
engine; no lock of ours is held while one of theirs is called. Sizes are delivered under the engine's shared lock, so
that no cycle of it falls between two locations of one epoch.

Lets an engine read columns, and pages, where they lie in mapped memory, by classes that it compiles at its start.

Numbers, chars and Instants are the values themselves; symbols are numbers of texts that the engine has once. What is
small, has another byte order, or has come since a column was last mapped goes by pages, as everything does where an
engine lacks what the class needs.
"""

from __future__ import annotations

import gc
import importlib.util
import secrets
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparkhaven.readers.live.backend import LiveBackend, TableKey
from sparkhaven.readers.live.live_column import Plain
from sparkhaven.readers.live.shown_locations import LiveLocation
from sparkhaven.store.errors import SettingsError, SparkhavenError
from sparkhaven.store.expressions.predicate.nodes import Key
from sparkhaven.store.types.model import Column, Storage
from sparkhaven.store.types.row_ranges import RowRanges

PAGES, REGIONS = (Path(__file__).with_name(f"{name}.java") for name in ("Pages", "Regions"))
KINDS = {  # Arrow type -> the engine's kind of chunk and type of column
    pa.int8(): ("Byte", "byte"),
    pa.uint16(): ("Char", "char"),
    pa.int16(): ("Short", "short"),
    pa.int32(): ("Int", "int"),
    pa.int64(): ("Long", "long"),
    pa.float32(): ("Float", "float"),
    pa.float64(): ("Double", "double"),
    pa.timestamp("ns", "UTC"): ("Long", "java.time.Instant"),
}


def compiled(context: Any, source: Path) -> Any:
    """A class of Java, compiled by an engine; ``context`` is its execution context. RuntimeError: it is refused."""
    import jpy

    request = jpy.get_type("io.deephaven.engine.context.QueryCompilerRequest").builder()
    request.description(f"{source.stem} of mapped files").className(source.stem).packageNameRoot("sparkhaven")
    request.classBody(source.read_text(encoding="utf-8"))
    return context.j_exec_ctx.getQueryCompiler().compile(request.build())


class PageReaders:
    """The readers of an engine's table service; ``factory`` is what the service is made with."""

    def __init__(self, context: Any) -> None:
        """``context`` is the engine's execution context, whose compiler is used."""
        import jpy

        java_class = compiled(context, PAGES)
        self.factory: Any = java_class.getDeclaredConstructor().newInstance()
        self._buffer = jpy.byte_buffer

    def give(self, page: pa.Table, take: Callable[[pa.Table], None]) -> None:
        """Calls ``take`` with a page of one column: numbers without a validity bitmap as rows without bytes, whose
        values the engine finds in the page's own memory; any other page as it is."""
        (field,), (values,) = page.schema, page.column(0).chunks
        kind = KINDS.get(field.type)
        if kind is None or not len(values) or values.buffers()[0] is not None:
            take(page)
            return
        width = field.type.byte_width
        memory = values.buffers()[1].slice(values.offset * width, len(values) * width)
        self.factory.put(kind[0], self._buffer(memory), len(values))
        bare = pa.schema([pa.field(field.name, pa.null(), metadata={"deephaven:type": kind[1]})])
        take(pa.Table.from_arrays([pa.nulls(len(values))], schema=bare))


PART_ROWS = 1 << 27  # of a buffer of Java: 1 GiB of longs
MOST_TEXTS = 1 << 16  # of a column in a location; with more, texts lie too far apart to be faster than pages of them
TEXTS_SHARE = 8  # texts of symbols take at most this part of the heap
TEXT_BYTES = 56  # of a text of Java beside its characters, with the reference to it
_ERRORS = (SparkhavenError, OSError, IndexError, KeyError, ValueError, pa.ArrowException)


def is_plain(column: Column) -> bool:
    """Whether an engine can read a column from its file."""
    return column.storage is Storage.SYMBOL or (column.storage is not Storage.BLOB and column.type.arrow in KINDS)


class Regions:
    """Of one engine. ``note`` is called once if its regions cannot be used, with the reason."""

    def __init__(self, context: Any, backend: LiveBackend, memory: int, note: Callable[[str], None]) -> None:
        """``memory``: bytes of the engine's heap."""
        self._backend, self._left, self._note = backend, memory // TEXTS_SHARE, note
        self._lock = threading.Lock()
        self._class: Any = None
        try:
            self._class = compiled(context, REGIONS)
        except RuntimeError as error:  # of Java
            self._refuse(error)

    def serve(self, table: Any, key: TableKey) -> Any:
        """The engine's table with our regions; itself, if this engine cannot have them."""
        if self._class is None:
            return table
        import jpy

        names = [column.name for column in self._backend.table(key).schema.columns if is_plain(column)]
        try:
            java_regions = self._class.getDeclaredConstructor().newInstance()
            answers = _Asked(self, java_regions, key)
            served = java_regions.serve(table, answers, jpy.array("java.lang.String", names))
        except RuntimeError as error:
            self._refuse(error)
            return table
        self._backend.at_release(key, answers.release)
        return served

    def _refuse(self, error: Exception) -> None:
        self._class = None
        self._note(f"this engine reads by pages, which is slower: {str(error).partition(chr(10))[0]}")

    def plain(self, key: TableKey, location: LiveLocation, column: str) -> Plain | None:
        """A column as it is mapped; None: it is not, and must be asked for by pages, which also say what is wrong."""
        try:
            return self._backend.plain(key, location, column)
        except _ERRORS:
            return None

    def is_indexed(self, key: TableKey, column: str) -> bool:
        return self._backend.is_indexed(key, column)

    def indexed_rows(self, key: TableKey, location: LiveLocation, column: str, keys: Sequence[Key]) -> RowRanges | None:
        """Rows of a place in which a column has one of these values; None: all may have one."""
        try:
            return self._backend.indexed_rows(key, location, column, keys)
        except _ERRORS:
            return None

    def take(self, size: int) -> bool:
        """Whether there is room for texts of so many bytes, which are then taken; negative: they are given back."""
        with self._lock:
            if size > self._left:
                return False
            self._left -= size
            return True


class _Asked:
    """One table, as the class asks for it."""

    def __init__(self, regions: Regions, java_regions: Any, key: TableKey) -> None:
        self._regions, self._made, self._key, self._taken = regions, java_regions, key, 0

    def memory(self, location: LiveLocation, column: str, text_count: int) -> None:
        """Gives the class the memory of a column and its texts after the first ``text_count``, if it may have them."""
        import jpy

        mapped = self._regions.plain(self._key, location, column)
        if mapped is None or mapped.rows == 0 or len(mapped.texts) > MOST_TEXTS:
            return
        texts = mapped.texts.slice(text_count)
        size = TEXT_BYTES * len(texts) + texts.nbytes
        if len(texts) and not self._regions.take(size):
            return
        self._taken += size if len(texts) else 0
        data, part = mapped.data, PART_ROWS * (mapped.data.size // mapped.rows)
        slices = [data.slice(offset, min(part, data.size - offset)) for offset in range(0, data.size, part)]
        parts = [jpy.byte_buffer(slice_) for slice_ in slices]
        lengths, octets = (None if buffer is None else jpy.byte_buffer(buffer) for buffer in _flat(texts))
        self._made.put(jpy.array("java.nio.ByteBuffer", parts), lengths, octets, mapped.rows, data)

    def is_indexed(self, column: str) -> bool:
        return self._regions.is_indexed(self._key, column)

    def rows(self, location: LiveLocation, column: str, keys: Any) -> None:
        """Gives the class the rows in which a column may have one of these values, if an index tells."""
        import jpy

        rows = self._regions.indexed_rows(self._key, location, column, list(keys))
        if rows is not None:
            bounds = np.stack((rows.starts, rows.stops), axis=1).reshape(-1)
            self._made.choose(jpy.array("long", np.ascontiguousarray(bounds, np.int64)))

    def release(self) -> None:
        self._made.release()
        self._regions.take(-self._taken)
        self._taken = 0
        threading.Thread(target=_collect, name="cycles of an ended table", daemon=True).start()


def _collect() -> None:
    """A read that failed leaves a cycle of error and frame, which holds what it had mapped; Java may let go later."""
    for seconds in (0, 1, 4, 16, 64, 256):
        time.sleep(seconds)
        gc.collect()


def _flat(texts: pa.Array) -> tuple[pa.Buffer | None, pa.Buffer | None]:
    """The lengths of texts, -1 for null, and their bytes; None if there are none. Java's own strings would come as
    16-bit units of which some are lost."""
    if not len(texts):
        return None, None
    flat = pc.fill_null(texts.cast(pa.string()), "")
    lengths = pc.if_else(pc.is_valid(texts), pc.binary_length(flat), pa.scalar(-1, pa.int32()))
    ends = np.frombuffer(flat.buffers()[1], np.int32)[flat.offset : flat.offset + len(flat) + 1]
    size = int(ends[-1] - ends[0])
    octets = flat.buffers()[2].slice(int(ends[0]), size) if size else None
    return pa.py_buffer(np.ascontiguousarray(lengths.to_numpy(zero_copy_only=False), np.int32)), octets


HEADER = 16  # rows less in a page, so that its array with its header fills whole regions of the heap
PAGE_ROWS = (1 << 10) - HEADER, (1 << 18) - HEADER  # at least and at most; the largest are the fastest
PAGE_SHARE = 4  # a table's pages, each column of each location read once, take at most this part of the heap
CYCLE_MS = 100  # of the engine; its default is 1000
ALL_METHODS, GRPC_ONLY = "GET,POST,OPTIONS", "POST"  # clients need POST only, a browser GET to load the page
_KNOWN = (SparkhavenError, IndexError, KeyError, ValueError, pa.ArrowException)


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """Address, heap in bytes, milliseconds of a cycle, and whether there is a web page, which needs the console: then
    clients may run code."""

    bind: str
    port: int
    memory: int
    ui: bool = False
    cycle_ms: int = CYCLE_MS
    key: str = field(default_factory=lambda: secrets.token_urlsafe(24))

    def jvm_arguments(self) -> list[str]:
        """What the engine's JVM is started with, in this process: the key is in no list of processes."""
        settings = {
            "authentication.psk": self.key,
            "PeriodicUpdateGraph.targetCycleDurationMillis": self.cycle_ms,
            "deephaven.console.disable": str(not self.ui).lower(),
            "http.allowedMethods": ALL_METHODS if self.ui else GRPC_ONLY,
        }
        # a table that has ended asks for a collection, which must not stop the others
        return [
            f"-Xmx{self.memory >> 10}k",
            "-XX:+ExplicitGCInvokesConcurrent",
            *(f"-D{name}={value}" for name, value in settings.items()),
        ]


def page_rows(memory: int, locations: int, columns: int) -> int:
    """Rows of a page: the engine allocates whole ones, also for a location of few rows."""
    fitting = memory // PAGE_SHARE // (8 * max(1, locations * columns))
    least, most = PAGE_ROWS
    return max(least, min(most, (1 << max(0, fitting.bit_length() - 1)) - HEADER))


def is_installed() -> bool:
    return importlib.util.find_spec("deephaven_server") is not None


class Engine:
    """A running engine; there can be one in a process, until the process ends."""

    def __init__(self, options: EngineOptions, backend: LiveBackend, note: Callable[[str], None]) -> None:
        """``note`` is called if the engine cannot read as fast as it should."""
        from deephaven_server import Server

        server = Server(host=options.bind, port=options.port, jvm_args=options.jvm_arguments())
        try:
            server.start()
        except RuntimeError as error:  # the engine's own text has a Java stack
            raise SettingsError(
                "the engine did not start",
                where=f"{options.bind}:{options.port}",
                expected="a free port on an address of this machine",
                found=str(error).partition("\n")[0],
                hint="choose another --port, or --port 0 for any free one",
            ) from error
        # these need the JVM
        from deephaven.execution_context import get_exec_ctx
        from deephaven.experimental.table_data_service import TableDataService
        from deephaven.table import Table
        from deephaven.update_graph import shared_lock

        self.port: int = server.port
        self._table, self._shared_lock = Table, shared_lock
        self._context = get_exec_ctx()
        self._pages = PageReaders(self._context)
        self._regions = Regions(self._context, backend, options.memory, note)
        self._service, self._adapter = TableDataService, _adapter(backend, self._pages)
        self._backend, self._memory = backend, options.memory

    def gate(self) -> AbstractContextManager[object]:
        """While it is held no cycle of the engine runs."""
        held: AbstractContextManager[object] = self._shared_lock(self._context.update_graph)
        return held

    def bind(self, variable: str, key: TableKey) -> None:
        """Offers a table under the name of a variable, which from now on stands for this one.

        All its locations are subscribed to here: a table that subscribes on first use could see the first epochs of
        some locations beside later ones of others.
        """
        with self._context:
            shown = self._backend.table(key)
            rows = page_rows(self._memory, len(shown.places()), len(shown.schema.columns))
            service = self._service(self._adapter, page_size=rows, chunk_reader_factory=self._pages.factory)
            served = service.make_table(key, refreshing=True)
            vars(sys.modules["__main__"])[variable] = self._table(self._regions.serve(served.j_table, key).coalesce())


def _adapter(backend: LiveBackend, pages: PageReaders) -> Any:
    from deephaven.experimental.table_data_service import TableDataServiceBackend

    class Adapter(TableDataServiceBackend):  # type: ignore[misc]
        """Answers by callbacks; an error of ours goes to the failure callback."""

        def table_schema(self, table_key: TableKey, schema_cb: Any, failure_cb: Any) -> None:
            answer(
                lambda: backend.table(table_key).schema, lambda s: schema_cb(s.data, s.partition or None), failure_cb
            )

        def table_locations(self, table_key: TableKey, location_cb: Any, success_cb: Any, failure_cb: Any) -> None:
            backend.locations(table_key, location_cb)
            success_cb()

        def subscribe_to_table_locations(
            self, table_key: TableKey, location_cb: Any, success_cb: Any, failure_cb: Any
        ) -> Callable[[], None]:
            return backend.follow_places(table_key, location_cb, success_cb, failure_cb)

        def table_location_size(
            self, table_key: TableKey, table_location_key: LiveLocation, size_cb: Any, failure_cb: Any
        ) -> None:
            answer(lambda: backend.table(table_key).size(table_location_key), size_cb, failure_cb)

        def subscribe_to_table_location_size(
            self, table_key: TableKey, table_location_key: LiveLocation, size_cb: Any, success_cb: Any, failure_cb: Any
        ) -> Callable[[], None]:
            return backend.follow_size(table_key, table_location_key, size_cb, success_cb, failure_cb)

        def column_values(  # the parameters are the engine's
            self,
            table_key: TableKey,
            table_location_key: LiveLocation,
            col: str,
            offset: int,
            min_rows: int,
            max_rows: int,
            values_cb: Any,
            failure_cb: Any,
        ) -> None:
            where = table_key, table_location_key, col
            tell = lambda page: pages.give(page, values_cb)  # noqa: E731
            answer(lambda: backend.values(*where, offset, min_rows, max_rows), tell, failure_cb)

    def answer(ask: Callable[[], Any], tell: Callable[[Any], None], fail: Callable[[Exception], None]) -> None:
        try:
            answer_ = ask()
        except _KNOWN as error:
            fail(error)
        else:
            tell(answer_)

    return Adapter()
