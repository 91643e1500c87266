"""A client of a served root, in a process and an environment of its own: one JSON line in, one out.

Run by the Python of the engine's environment, which has pydeephaven but none of the packages of the tests.
"""

from __future__ import annotations

import faulthandler
import gc
import json
import os
import signal
import sys
from typing import Any

import grpc
import pyarrow as pa
from pydeephaven import DHError, Session

PSK = "io.deephaven.authentication.psk.PskAuthenticationHandler"
SETTINGS = "/io.deephaven.proto.backplane.grpc.ConfigService/GetConfigurationConstants"


class Client:
    """One session; tables that were opened stay attached under a name."""

    def __init__(self, host: str, port: int, key: str) -> None:
        self._at = host, port
        self._session = Session(host=host, port=port, auth_type=PSK, auth_token=key)
        self._tables: dict[str, Any] = {}
        self._counts: dict[str, Any] = {}

    def open(self, name: str, variable: str) -> bool:
        self._counts.pop(name, None)
        self._tables[name] = self._session.open_table(variable)
        return bool(self._tables[name].is_refreshing)

    def rows(self, name: str, path: str, columns: list[str] | None = None, where: list[str] | None = None) -> int:
        """Writes a snapshot to an Arrow file; the number of its rows."""
        table = self._tables[name]
        if where:
            table = table.where(where)
        found = table.select(columns).to_arrow() if columns else table.to_arrow()
        with pa.ipc.new_file(path, found.schema) as file:
            file.write_table(found)
        return int(found.num_rows)

    def count(self, name: str) -> int:
        """Rows, counted by the engine in a table of its own."""
        counted = self._counts.get(name)
        if counted is None:
            counted = self._counts[name] = self._tables[name].count_by("Rows")
        found = counted.to_arrow()["Rows"].to_pylist()
        return int(found[0]) if found else 0

    def last_by(self, name: str, by: str, columns: list[str]) -> list[dict[str, Any]]:
        found = self._tables[name].view(columns).last_by([by]).to_arrow()
        return list(found.to_pylist())

    def snapshot(self, name: str, column: str) -> list[Any]:
        return list(self._tables[name].view([column]).to_arrow().column(0).to_pylist())

    def script(self) -> bool:
        self._session.run_script("print(1)")
        return True

    def call(self, key: str | None) -> str:
        """The status of a bare call with a key or none."""
        with grpc.insecure_channel(f"{self._at[0]}:{self._at[1]}") as channel:
            try:
                given = [("authorization", f"{PSK} {key}")] if key is not None else []
                channel.unary_unary(SETTINGS)(b"", metadata=given, timeout=60)
            except grpc.RpcError as error:
                return str(error.code().name)
        return "OK"

    def login(self, key: str) -> bool:
        Session(host=self._at[0], port=self._at[1], auth_type=PSK, auth_token=key).close()
        return True


def main() -> None:
    # A table that is collected calls the server: in a thread of gRPC, which would wait for its own answer.
    gc.disable()
    faulthandler.register(signal.SIGUSR1)  # who waits too long asks where this process is
    host, port, key = sys.argv[1:]
    client = Client(host, int(port), key)
    print(json.dumps({"result": "ready"}), flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = {"result": getattr(client, request.pop("do"))(**request)}
        except DHError as error:
            answer = {"error": str(error)}
        gc.collect()
        print(json.dumps(answer), flush=True)
    os._exit(0)  # threads of the session may still wait for a table that has ended


if __name__ == "__main__":
    main()
