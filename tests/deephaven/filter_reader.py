"""Filters a table of ``x`` in a Deephaven engine of this process: NaN for NaN, null for None of a JSON list.

Run by the Python of the engine's environment. Its arguments are JSON: the values, and the expressions. One JSON object
on standard output has the rows that each expression keeps.
"""

from __future__ import annotations

import json
import os
import sys

from deephaven_server import Server


def main() -> None:
    """Starts the engine, filters, ends the process."""
    values, expressions = json.loads(sys.argv[1]), json.loads(sys.argv[2])
    arguments = [
        "-XX:TieredStopAtLevel=1",
        "-Xmx512m",
        "-Dauthentication.psk=unused",
        "-Ddeephaven.console.disable=true",
    ]
    Server(host="127.0.0.1", port=0, jvm_args=arguments).start()
    from deephaven import arrow, new_table
    from deephaven.column import double_col, int_col
    from deephaven.constants import NULL_DOUBLE

    numbers = [NULL_DOUBLE if value is None else float(value) for value in values]
    table = new_table([int_col("Row", list(range(len(numbers)))), double_col("x", numbers)])
    kept = {text: arrow.to_arrow(table.where(text))["Row"].to_pylist() for text in expressions}
    print(json.dumps(kept), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
