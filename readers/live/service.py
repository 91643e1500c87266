"""Joins live tables to a Deephaven engine in this process: the only module that imports one, and only after ``start``.

The interface is that of ``deephaven.experimental.table_data_service`` (release 42). Callbacks come from threads of the
engine; no lock of ours is held while one of theirs is called. Sizes are delivered under the engine's shared lock, so
that no cycle of it falls between two locations of one epoch.
"""

from __future__ import annotations

import importlib.util
import secrets
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from sparkhaven.readers.live.backend import LiveBackend, TableKey
from sparkhaven.readers.live.live_locations import LiveLocation
from sparkhaven.readers.live.memory_regions import PageReaders, Regions
from sparkhaven.store.errors import SettingsError, SparkhavenError

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
