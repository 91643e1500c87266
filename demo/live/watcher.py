"""A client of the engine in a process of its own: one JSON line in, one out.

Run by the Python of the engine's environment, which has pydeephaven; nothing of ours is imported. The first line has
``host``, ``port``, ``key`` and ``variable``; the key comes this way to be in no list of processes. Then ``{"do":
"look"}`` asks for the last price of each symbol, and ``{"do": "save", "path": …}`` for the whole table as Arrow file.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

import pyarrow as pa
from pydeephaven import DHError, Session, agg

PSK = "io.deephaven.authentication.psk.PskAuthenticationHandler"
PATIENCE_SECONDS = 300.0  # until the table is offered
PAUSE_SECONDS = 0.1


class Watcher:
    """One session with one table, and one of its last rows by symbol, both ticking."""

    def __init__(self, host: str, port: int, key: str, variable: str) -> None:
        session = Session(host=host, port=port, auth_type=PSK, auth_token=key)
        until = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                self._table = session.open_table(variable)
                break
            except DHError:  # before the first epoch there is none
                if time.monotonic() > until:
                    raise
                time.sleep(PAUSE_SECONDS)
        self._last = self._table.agg_by([agg.last(["Price", "At"]), agg.count_("Rows")], ["Sym"])

    def look(self) -> dict[str, Any]:
        """One snapshot: number of rows, prices by symbol, and the age of the newest row in microseconds."""
        last = self._last.to_arrow()
        now = time.time_ns() // 1_000
        times = last["At"].cast(pa.timestamp("us", "UTC"), safe=False).cast(pa.int64()).to_pylist()
        return {
            "rows": sum(last["Rows"].to_pylist()),
            "last": dict(sorted(zip(last["Sym"].to_pylist(), last["Price"].to_pylist(), strict=True))),
            "age_us": now - max(times) if times else None,
        }

    def save(self, path: str) -> int:
        """Writes the whole table; the number of its rows."""
        table = self._table.to_arrow()
        with pa.ipc.new_file(path, table.schema) as file:
            file.write_table(table)
        return int(table.num_rows)


def main() -> None:
    watcher = Watcher(**json.loads(sys.stdin.readline()))
    print(json.dumps({"result": "ready"}), flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        print(json.dumps({"result": getattr(watcher, request.pop("do"))(**request)}), flush=True)
    os._exit(0)  # threads of the session would go on


if __name__ == "__main__":
    main()
