"""A served root with a listener inside of its engine, and scans by it: one JSON line in, one out.

Run by the Python of the engine's environment: ``python -P -m benchmarks.served.engine ROOT CYCLE_MS HEAP_BYTES``.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sparkhaven.readers.live.live_root import LiveRoot
from sparkhaven.readers.live.service import Engine, EngineOptions
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout
from sparkhaven.store.scan.checksums import checks_of


class Served:
    """The engine and what its listener has seen; times are seconds of the machine's monotonic clock."""

    def __init__(self, root: Path, cycle_ms: int, heap: int) -> None:
        note = lambda line: print(line, file=sys.stderr)  # noqa: E731
        live = LiveRoot(
            Fs(), Layout(root), None, note=note, checks=checks_of("read"), now_ms=lambda: time.time_ns() // 10**6
        )
        self._engine = Engine(EngineOptions("127.0.0.1", 0, heap, cycle_ms=cycle_ms), live.backend, note)
        for variable, key in live.keys.items():
            self._engine.bind(variable, key)
        gate, bind = self._engine.gate, self._engine.bind
        follow = lambda: live.run(threading.Event(), time.monotonic, gate, bind, lambda health: None)  # noqa: E731
        threading.Thread(target=follow, daemon=True).start()
        self._seen: dict[int, float] = {}

    def listen(self, variable: str, column: str) -> bool:
        """Notes when each value of a column is first seen by a listener."""
        from deephaven.table_listener import listen

        def on_update(update: Any, is_replay: bool) -> None:
            now = time.monotonic()
            for value in update.added([column])[column].tolist():
                self._seen.setdefault(value, now)

        self._listener = listen(_table(variable), on_update)
        return True

    def seen(self) -> dict[int, float]:
        """What was noted so far."""
        return self._seen

    def scan(
        self, variable: str, parquet: str, columns: list[str], runs: int, *, memory: bool
    ) -> dict[str, list[float]]:
        """Seconds of sums of columns in turn: ours, the engine's own reader for files that stay as they are, and for a
        directory that may grow, as ours does. The first reads the files. ``memory``: a copy in the heap, too.

        No cycle may run meanwhile, as when a client asks: else the engine sums all anew, up to three times.
        """
        from deephaven import agg
        from deephaven import parquet as engines

        growing = {"file_layout": engines.ParquetFileLayout.FLAT_PARTITIONED, "is_refreshing": True}
        tables = {
            "ours": _table(variable),
            "parquet": engines.read(parquet),
            "growing": engines.read(str(Path(parquet).parent), **growing),
        }
        if memory:
            tables["memory"] = engines.read(parquet).select(columns)
        sums: dict[str, list[Any]] = {name: [] for name in tables}
        seconds: dict[str, list[float]] = {name: [] for name in tables}
        for run in range(runs + 1):
            for name, table in tables.items():
                terms = [f"{column}{run} = {column}" for column in columns]  # an engine remembers what it has summed
                with self._engine.gate():
                    begun = time.monotonic()
                    summed = table.agg_by([agg.sum_(terms)])
                    seconds[name].append(time.monotonic() - begun)
                sums[name].append([_value(summed, f"{column}{run}") for column in columns])
        if any(sum_ != sums["ours"][0] for listed in sums.values() for sum_ in listed):
            raise ValueError(f"sums differ: {sums}")
        return seconds


def _table(variable: str) -> Any:
    return vars(sys.modules["__main__"])[variable]


def _value(table: Any, column: str) -> Any:
    from deephaven import arrow

    return arrow.to_arrow(table)[column][0].as_py()


def main() -> None:
    """Answers until its input ends."""
    root, cycle_ms, heap = sys.argv[1:]
    results = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what the engine prints goes to standard error
    served = Served(Path(root), int(cycle_ms), int(heap))
    answers: dict[str, Callable[..., Any]] = {
        "listen": served.listen,
        "seen": served.seen,
        "scan": served.scan,
    }
    print(json.dumps({"result": "ready"}), file=results, flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        print(json.dumps({"result": answers[request.pop("do")](**request)}), file=results, flush=True)
    os._exit(0)  # the engine's threads do not end by themselves


if __name__ == "__main__":
    main()
