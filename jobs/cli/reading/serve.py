"""The command ``serve``: a live Deephaven engine over the root."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TextIO

import typer

from sparkhaven.jobs.cli.context import CliContext, exit_code, stopped_by_signals
from sparkhaven.jobs.cli.options import NullCharOption, help_end, memory_bytes
from sparkhaven.readers.live.live_column import served_schema
from sparkhaven.readers.live.live_root import Health, LiveRoot
from sparkhaven.readers.live.service import Engine, EngineOptions, is_installed
from sparkhaven.store.errors import EXIT_DONE, SettingsError, counted
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import TableName
from sparkhaven.store.places import TablePlace
from sparkhaven.store.scan.checksums import checks_of, chosen_mode
from sparkhaven.store.schema.deployed.deploy import load_deployed
from sparkhaven.store.types.null_char import chosen_null_char

ENVIRONMENT = "SPARKHAVEN_DEEPHAVEN"  # the Python of an environment that has the engine
UI = "--ui: whoever has the key can run any code on this machine as the user who runs this command"


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """Where the engine listens, how much memory it has, and whether it has a web page."""

    bind: Annotated[str, typer.Option(metavar="ADDRESS", help="Address to listen on.")] = "127.0.0.1"
    port: Annotated[int, typer.Option(metavar="PORT", min=0, max=65535, help="Port. 0: any free port.")] = 10000
    memory: Annotated[str, typer.Option(metavar="SIZE", help="Heap of the engine.")] = "2GiB"
    ui: Annotated[
        bool, typer.Option("--ui", help="Turn on the web page. Then whoever has the key can run any code here.")
    ] = False


def register(app: typer.Typer) -> None:
    usage = "no engine installed, a table that cannot be served, an address that is taken"
    app.command(epilog=help_end("serve Nyc13.Flight --port 10000", done="stopped by SIGTERM or Ctrl-C", usage=usage))(
        serve
    )


def serve(
    cli: CliContext,
    engine: EngineSettings,
    names: Annotated[list[str] | None, typer.Argument(metavar="[NS.T]...", help="Default: all tables.")] = None,
    null_char: NullCharOption = None,
) -> None:
    """Serves tables live, by a Deephaven engine.

    Intraday and history are one table, the server variable NS_T. It grows with every committed epoch while streams are
    ingested and dates merged. A rollback of rows that were shown ends it with an error. NS_T is then a new table.

    Prints the address and a random key once it is ready, then runs until SIGTERM or Ctrl-C. The key is the only
    protection: TLS is not offered.
    """
    layout = cli.database()
    chosen = [TableName.parse(name) for name in names or ()]
    options = EngineOptions(engine.bind, engine.port, memory_bytes(engine.memory), ui=engine.ui)
    for name in chosen:
        served_schema(load_deployed(TablePlace(Fs(), layout, name)))
    _enter_environment(sys.argv[1:])
    stop = stopped_by_signals()
    checks = checks_of(chosen_mode(None, os.environ))
    unit = chosen_null_char(null_char, os.environ)
    root = LiveRoot(
        Fs(),
        layout,
        chosen or None,
        note=cli.note,
        checks=checks,
        null_char=unit,
        now_ms=lambda: time.time_ns() // 10**6,
    )
    results = _apart_from_engine()
    code = EXIT_DONE
    try:
        running = Engine(options, root.backend, cli.note)
        for variable, key in root.keys.items():
            running.bind(variable, key)
        sys.stdout = results
        _show(cli, root, options, running.port)
        root.run(stop, time.monotonic, running.gate, running.bind, lambda health: cli.note(_line(health)))
        cli.note("stopped")
    except BaseException as error:  # noqa: BLE001  the engine's threads would go on without new rows
        sys.stdout = results
        code = exit_code(cli, error)
    sys.stdout.flush()
    os._exit(code)  # the engine's threads do not end by themselves


def _show(cli: CliContext, root: LiveRoot, options: EngineOptions, port: int) -> None:
    url = f"http://{options.bind}:{port}"
    record = {"url": url, "key": options.key, "tables": root.tables}
    served = ", ".join(f"{name} as {variable}" for name, variable in root.tables.items()) or "no table yet"
    text = f"serving {served}\nat {url} with the key {options.key}"
    if options.ui:
        record["page"] = f"{url}/ide/"
        text += f"\nweb page {url}/ide/, which asks for the key"
    cli.result(record, text)
    if options.ui:
        cli.note(UI)


def _line(now: Health) -> str:
    lag = "no new epoch" if now.lag_ms is None else f"new epochs shown {now.lag_ms:,} ms after their commit or sooner"
    return f"{counted(now.tables, 'table')}, {counted(now.rows, 'row')}, {lag}"


def _apart_from_engine() -> TextIO:
    """Standard output for results only: what engine and JVM print goes to standard error."""
    sys.stdout.flush()
    results = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return results


def _enter_environment(arguments: Sequence[str]) -> None:
    """Continues in the environment that has the engine, if this one does not; SettingsError: there is none."""
    if is_installed():
        return
    checkout = Path(__file__).absolute().parents[4]
    python = Path(os.environ.get(ENVIRONMENT) or checkout / ".venv-deephaven" / "bin" / "python")
    if not python.exists() or "SPARKHAVEN_ENTERED" in os.environ:
        raise SettingsError(
            "no Deephaven engine is installed",
            where=python,
            expected="an environment with deephaven-server",
            hint="`make setup-deephaven` in a checkout makes one. Elsewhere `pip install sparkhaven[deephaven]`",
        )
    path = os.pathsep.join(path_entry for path_entry in (str(checkout), os.environ.get("PYTHONPATH")) if path_entry)
    environment = {**os.environ, "PYTHONPATH": path, "SPARKHAVEN_ENTERED": "1"}
    os.execve(python, [str(python), "-P", "-m", "sparkhaven.jobs.cli.main", *arguments], environment)
