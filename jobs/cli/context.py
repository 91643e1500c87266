"""The context of the command line: the root, the form of results, error handling and exit codes.

Results go to standard output, as text or, with ``--json``, as JSON and nothing else; progress and messages go to
standard error. ``--result FILE`` has the JSON lines too. An error is a sentence with where, expected, found and what
to do, on standard error; as a result it is ``{"error": {...}}``. A traceback appears only with ``-v``.

A command that is not named in ``READ_ONLY`` changes a database. So a new one is refused in a root that is never
written, and is a row of the log tables, unless somebody puts it there.
"""

from __future__ import annotations

import json
import logging
import os
import re
import shlex
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial
from importlib import import_module
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperGroup
from typer.exceptions import TyperException

from sparkhaven.jobs.session.spark_or_local import LIMITS, LocalLimits
from sparkhaven.store.errors import (
    EXIT_BAD_DATA,
    EXIT_DONE,
    EXIT_USAGE,
    HistoryWarning,
    SettingsError,
    SparkhavenError,
    as_ours,
    missing_extra,
    ours,
)
from sparkhaven.store.framing import finite
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.io.local_path import local_path
from sparkhaven.store.io.read_only_roots import is_copy, is_database, is_writable, require_database, require_writable
from sparkhaven.store.layout import Layout, TableName
from sparkhaven.store.places import TablePlace, followed_root

if TYPE_CHECKING:
    from sparkhaven.jobs.settings.stream_file import NotStarted

EXIT_INTERRUPTED = 130
RESULT = "--result"
COMMAND_ROWS = "sparkhaven.jobs.monitor.logs.command_rows"
_SHOWN_COMMAND = re.compile("(?:(?<=`)|(?<=to do: ))sparkhaven (?=[a-z])")
READ_ONLY = frozenset(
    {"read", "sql", "serve", "page", "tables", "stats", "symbols", "doctor", "verify", "scrub", "compare", "inspect"}
    | {"export", "snapshot", "mirror", "jars", "class-archive"}  # write elsewhere
    | {"epochs list", "epochs show", "streams list", "quarantine list", "partitions list"}
    | {"metadata list", "metadata validate"}
    | {"schema check", "schema show", "schema history", "schema diff"}
    | {"schema infer", "schema new", "schema from-tbl"}  # write a schema file, which is deployed later
)
DRY_IN_COPIES = frozenset({"validate", "recover"})  # look at a copy, and store nothing there
LOGGED_TOO = frozenset({"snapshot"})
OWN_ROWS = frozenset({"ingest"})  # its streams write the log tables themselves
CHANGE_NOTHING = frozenset({"-h", "--help", "--status"})


class ResultFile:
    """``--result FILE``: the results of a command, alone in a file, whatever else the command and Spark print.

    The file is empty while the command runs. It is replaced as a whole once the command has ended. SettingsError: its
    directory is not there; OSError: it cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self._fs, self._path = Fs(), path
        if not path.parent.is_dir():
            raise SettingsError(
                "no directory for the result file",
                where=RESULT,
                found=path,
                hint=f"make {path.parent}, or name another",
            )
        self.write(())

    def write(self, lines: Iterable[str]) -> None:
        self._fs.replace(self._path, "".join(f"{line}\n" for line in lines).encode(), sync=False)


def open_result_file(words: Sequence[str]) -> ResultFile | None:
    """The file that the words of a command line name, before they are known to be right: an error is a result too."""
    for number, word in enumerate(words):
        name, equals, text = word.partition("=")
        if name == RESULT and (equals or number + 1 < len(words)):
            return ResultFile(local_path(text if equals else words[number + 1]))
    return None


@dataclass(slots=True)
class CliContext:
    """Context of one call of the command line; commands take it as a parameter."""

    root: Path | None = None
    named_root: bool = False  # by --root: what a person is told to run needs it again
    json: bool = False
    verbose: bool = False
    logs: bool = False
    command: str = ""  # as on the command line, without arguments: `dates move`
    words: tuple[str, ...] = ()  # the command with its arguments
    limits: LocalLimits = LIMITS
    result_file: ResultFile | None = None
    results: list[dict[str, Any]] = field(default_factory=list)  # of a command that is logged, or has a result file
    remarks: set[str] = field(default_factory=set)  # about history, which were printed
    code: int = EXIT_DONE  # of a command that goes on after an error
    _log_imports: Thread | None = None

    def layout(self) -> Layout:
        """The database root that the user has named, which may not exist yet; SettingsError without one.

        A command that changes databases is refused here in a root that is never written; see ``require_writable``.
        """
        if self.root is None:
            raise SettingsError(
                "no database root",
                expected="sparkhaven --root DIR COMMAND, or SPARKHAVEN_ROOT",
                hint="name the directory that holds Intraday, Systems and Schemas. Ingest creates it",
            )
        root = self.root.absolute()
        if root.exists() and not root.is_dir():
            raise SettingsError(
                "the database root is not a directory",
                where=root,
                expected="a directory, or nothing yet",
                found="a file",
                hint="check --root or SPARKHAVEN_ROOT",
            )
        if changes(self.command, self.words) and not (self.command in DRY_IN_COPIES and is_copy(root)):
            require_writable(root)
        return Layout(root)

    def database(self) -> Layout:
        """The database root, which must exist. Raises what ``require_database`` raises."""
        layout = self.layout()
        require_database(layout.root, "check --root or SPARKHAVEN_ROOT. Ingest makes a database")
        if layout.root.is_symlink():
            return Layout(followed_root(Fs(), layout.root))
        return layout

    def place(self, name: str, fs: Fs | None = None) -> TablePlace:
        """Where a table of the database is, by its name ``NS.T``. InvalidNameError: it is none."""
        return TablePlace(fs or Fs(), self.database(), TableName.parse(name))

    def result(self, record: dict[str, Any], show: Callable[[], object] | str) -> None:
        """Prints one result: ``record`` as a JSON line with ``--json``, else ``show``, a text or what prints one."""
        self._keep(record)
        self._print(record, show)

    def fails(self, code: int) -> None:
        """Ends the command with this exit code, where no error before it has another one."""
        self.code = self.code or code

    def report(self, error: Exception, **about: object) -> None:
        """Prints an error as ``report`` does, and goes on; its exit code is that of the command if it is the first."""
        self.fails(report(self, as_ours(error), **about))

    def failed(self, where: str, error: Exception) -> dict[str, object]:
        """Prints an error of a part as a message, and goes on like ``report``; the error as part of a result."""
        known = as_ours(error)
        self.note(f"{where}: {known}")
        self.fails(known.exit_code)
        return error_json(known)

    def failure(self, record: dict[str, Any]) -> None:
        """Prints an error as a result with ``--json``; the message is printed by who calls this."""
        self._keep(record)
        if self.json:
            self._print(record, "")

    def _keep(self, record: dict[str, Any]) -> None:
        if self.result_file is not None or self._is_logged:
            self.results.append(record)

    def expect_log(self) -> None:
        """Imports what ``log`` needs in a thread, while a command goes on that mostly waits and computes in C."""
        if self.logs and self._log_imports is None and self._is_logged:
            self._log_imports = Thread(target=import_module, args=(COMMAND_ROWS,), name="log-imports")
            self._log_imports.start()

    @property
    def _is_logged(self) -> bool:
        return is_logged(self.command, self.words)

    def log(self, code: int, seconds: float) -> None:
        """Adds what the command has done to the log tables, if it is one that they log."""
        if self._log_imports is not None:
            self._log_imports.join()
        if not (self.logs and self._is_logged) or self.root is None or not is_database(self.root):
            return
        if not is_writable(self.root):
            return
        from sparkhaven.jobs.monitor.logs.command_rows import FinishedCommand, log_command  # most write nothing

        done = FinishedCommand(self.command, self.words, self.results, code, seconds)
        log_command(Layout(self.root.absolute()), done, self.note)

    def _print(self, record: dict[str, Any], show: Callable[[], object] | str) -> None:
        if self.json:
            print(json_text(record), flush=True)
        elif isinstance(show, str):
            print(self.runnable(show), flush=True)
        else:
            show()

    def note(self, text: str) -> None:
        """Prints a message on standard error, by one call: a result on standard output may not come between."""
        print(f"{self.runnable(text)}\n", end="", file=sys.stderr, flush=True)

    def runnable(self, text: str) -> str:
        """A text whose commands have the root, if the user has named it by ``--root``."""
        if self.root is None or not self.named_root:
            return text
        return _SHOWN_COMMAND.sub(f"sparkhaven --root {shlex.quote(str(self.root))} ", text)


def changes(command: str, words: Sequence[str]) -> bool:
    """Whether a command may change a database, called with these words."""
    return bool(command) and command not in READ_ONLY and not CHANGE_NOTHING & set(words)


def is_logged(command: str, words: Sequence[str]) -> bool:
    """Whether it is a row of the log tables. A log table's own commands are not."""
    logged = command in LOGGED_TOO or (changes(command, words) and command not in OWN_ROWS)
    return logged and not any(word.startswith("SparkhavenInternal.") for word in words)


def json_text(value: object) -> str:
    """A value as standard JSON, which has no NaN and no infinities: they become texts."""
    try:
        return json.dumps(value, default=_plain, allow_nan=False)
    except ValueError:
        return json.dumps(finite(value), default=_plain, allow_nan=False)


def _plain(value: object) -> object:
    isoformat = getattr(value, "isoformat", None)
    return isoformat() if isoformat else f"{value:f}" if isinstance(value, Decimal) else str(value)


def note_warning(
    cli: CliContext, show: Callable[..., object], message: Warning | str, category: type[Warning], *to: Any, **more: Any
) -> None:
    """Prints what is to be told of history as a message, once a command; any other warning as Python does."""
    if not issubclass(category, HistoryWarning):
        show(message, category, *to, **more)
    elif str(message) not in cli.remarks:
        cli.remarks.add(str(message))
        cli.note(str(message))


def open_outputs() -> None:
    """Opens outputs that are closed (``>&-``): else the next file that is opened would be taken for one of them."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115


def stopped_by_signals() -> Event:
    """An event that SIGTERM and SIGINT set, from now on."""
    stop = Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    return stop


def quiet_libraries(words: Sequence[str]) -> None:
    """Keeps libraries from logging tracebacks of errors that the command reports itself; ``-v`` allows them."""
    if not {"-v", "--verbose"} & set(words):
        logging.disable(logging.ERROR)


class Commands(TyperGroup):
    """The whole command line: the one place where an error becomes a message and an exit code."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """Runs one command. Exit codes: 0 done, 1 bad data, 2 usage or settings, 3 worth retrying, 130 stopped."""
        open_outputs()
        words, began = list(sys.argv[1:] if args is None else args), time.monotonic()
        cli = extra.setdefault("obj", CliContext())
        cli.json, cli.code = "--json" in words, EXIT_DONE  # a usage error comes before the option is read
        try:
            if any(word.startswith(RESULT) for word in words):
                cli.result_file = open_result_file(words)
            with warnings.catch_warnings():
                warnings.simplefilter("always", HistoryWarning)
                warnings.showwarning = partial(note_warning, cli, warnings.showwarning)
                code = super().main(words, prog_name, complete_var, False, windows_expand_args, **extra)
            sys.stdout.flush()
            code = (code if isinstance(code, int) else EXIT_DONE) or cli.code
        except BaseException as error:  # noqa: BLE001  every error ends here
            if isinstance(error.__context__ if isinstance(error, SystemExit) else error, BrokenPipeError):
                sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
                code = EXIT_DONE  # `| head`: the reader has closed the pipe
            else:
                code = exit_code(cli, error)
        cli.log(code, time.monotonic() - began)
        try:
            if cli.result_file is not None:
                cli.result_file.write(map(json_text, cli.results))
        except OSError as error:
            code = exit_code(cli, error)
        if standalone_mode:
            sys.exit(code)
        return code

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if isinstance(ctx.obj, CliContext):
            ctx.obj.command, ctx.obj.words = args[0], tuple(args)
        return super().resolve_command(ctx, args)


class CommandGroup(TyperGroup):
    """A command that has commands; the context remembers its words without the options before them."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if isinstance(ctx.obj, CliContext):
            ctx.obj.command, ctx.obj.words = f"{ctx.info_name} {args[0]}", (str(ctx.info_name), *args)
        return super().resolve_command(ctx, args)


def exit_code(cli: CliContext, error: BaseException) -> int:
    if isinstance(error, KeyboardInterrupt | typer.Abort):
        cli.note("stopped")
        return EXIT_INTERRUPTED
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else EXIT_BAD_DATA
    if cli.verbose:
        traceback.print_exception(error)
    if isinstance(error, TyperException):
        text = error.format_message()
        if text.startswith("Usage: "):  # no command was given: the help itself
            cli.note(text)
            return EXIT_USAGE
        return _report_text(cli, type(error).__name__, text, EXIT_USAGE, hint="see --help")
    if (known := ours(error)) is not None:
        return report(cli, known)
    if isinstance(error, ImportError) and (missing := missing_extra(error)) is not None:
        return report(cli, missing)
    message = f"{type(error).__name__}: {error}".splitlines()[0]
    hint = None if cli.verbose else "unexpected error: run the command again with -v for the traceback"
    return _report_text(cli, type(error).__name__, message, EXIT_BAD_DATA, hint=hint)


def report(cli: CliContext, error: SparkhavenError, **about: object) -> int:
    """Prints an error on standard error, with ``--json`` also as a result with ``about``; returns its exit code."""
    cli.note(f"sparkhaven: {error}")
    cli.failure({**about, "error": error_json(error)})
    return error.exit_code


def report_failed(cli: CliContext, failed: Iterable[NotStarted]) -> None:
    """Reports each stream that could not start."""
    for stream in failed:
        cli.report(stream.error, **({"file": str(stream.file)} if stream.name is None else {"stream": stream.name}))


def error_json(error: SparkhavenError) -> dict[str, Any]:
    """An error with all its parts, as ``error`` of a JSON result."""
    parts = {"where": error.where, "expected": error.expected, "found": error.found, "hint": error.hint}
    parts_by_name = {"type": type(error).__name__, "what": error.what, **parts, **error.extra}
    return parts_by_name | {"exit_code": error.exit_code, "retryable": error.retryable}


def _report_text(cli: CliContext, kind: str, message: str, code: int, *, hint: str | None) -> int:
    cli.note(f"sparkhaven: {message}" + (f"\n  to do: {hint}" if hint else ""))
    cli.failure({"error": {"type": kind, "what": message, "hint": hint, "exit_code": code, "retryable": False}})
    return code
