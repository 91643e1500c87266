"""Arguments and options that several commands share, and the end of every command's help.

One thing has one name on the command line: whatever two commands have in common is declared here once. Options that
belong together are a class: ``with_groups`` makes them parameters of a command.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from sparkhaven.ingest.settings import parse_duration, parse_size
from sparkhaven.jobs.cli.context import CliContext, CommandGroup
from sparkhaven.jobs.session.spark_or_local import HistoryRun, Where
from sparkhaven.store.errors import SettingsError
from sparkhaven.store.io.local_path import local_path
from sparkhaven.store.layout import check_stream
from sparkhaven.store.places import StreamPlace
from sparkhaven.store.scan.selection import is_well_formed

_JVM_MEMORY = re.compile(r"([0-9]+)([kmgtKMGT]?)\Z")
BAD_DATA = "damaged files"
USAGE = "wrong options or settings, no such table"
RETRY = "a volume is not mounted, no space on the disk"


def help_end(*lines: str, done: str = "done", bad_data: str = BAD_DATA, usage: str = USAGE, retry: str = RETRY) -> str:
    """The end of a command's help: examples, and what each exit code means."""
    examples = "\n\n".join(f"  sparkhaven {line}" for line in lines)
    codes = f"0 {done} · 1 {bad_data}, or an unexpected error · 2 {usage} · 3 worth retrying: {retry}"
    return f"Example:\n\n{examples}\n\nExit codes: {codes}."


def seconds_of(text: str, option: str, example: str) -> float:
    """The seconds of an option that takes a time; SettingsError for anything else."""
    try:
        return parse_duration(text)
    except ValueError as error:
        expected = f"a time like {example}"
        raise SettingsError(f"{option} is not a time", expected=expected, found=text, hint=str(error)) from None


def memory_bytes(text: str) -> int:
    """Bytes of ``--memory``: digits, a JVM's ``512m`` or ``2g``, or a size like ``1GiB``; else a SettingsError."""
    match = _JVM_MEMORY.match(text)
    if match is not None and int(match[1]):
        return int(match[1]) << 10 * (" kmgt".index(match[2].lower()) if match[2] else 0)
    try:
        return parse_size(text)
    except ValueError:
        expected = 'an amount like "1GiB", "512MB" or "2g"'
        raise SettingsError("--memory is not an amount of memory", expected=expected, found=text) from None


def _set(name: str) -> Callable[[typer.Context, bool], bool]:
    """What remembers a switch; a command has it that is given before it, too."""

    def remember(ctx: typer.Context, value: bool) -> bool:
        if not isinstance(ctx.obj, CliContext):
            return value
        setattr(ctx.obj, name, value or getattr(ctx.obj, name))
        return bool(getattr(ctx.obj, name))

    return remember


def _set_root(ctx: typer.Context, value: Path | None) -> Path | None:
    if value is not None and isinstance(ctx.obj, CliContext):
        ctx.obj.root, ctx.obj.named_root = value, True
    return value


def chosen_runner(local: bool, spark: bool) -> Where:
    """What ``--local`` and ``--spark`` ask for; SettingsError for both."""
    if local and spark:
        raise SettingsError("--local and --spark exclude each other", expected="one of them, or neither", found="both")
    return "local" if local else "spark" if spark else "auto"


Json = Annotated[
    bool, typer.Option("--json", help="Results as JSON on standard output.", callback=_set("json"), is_eager=True)
]
Verbose = Annotated[
    bool,
    typer.Option("-v", "--verbose", help="More progress, and tracebacks.", callback=_set("verbose"), is_eager=True),
]
RootOption = Annotated[
    Path | None,
    typer.Option(
        "--root", metavar="DIR", parser=local_path, help="Database root. Default: SPARKHAVEN_ROOT.", callback=_set_root
    ),
]
ResultOption = Annotated[
    Path | None,
    typer.Option(
        "--result",
        metavar="FILE",
        parser=local_path,
        help="Also write the JSON results to FILE, once the command has ended.",
    ),
]
DirectIo = Annotated[
    bool, typer.Option("--direct-io", help="Write past the page cache, so that live readers keep what they use there.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Report what would be done, change nothing.")]

YesOption = Annotated[bool, typer.Option("--yes", help="Drop what is listed. Rows without a snapshot are lost.")]

TableArgument = Annotated[str, typer.Argument(metavar="NS.T", help="Namespace and table, like Nyc13.Flight.")]
AnyTableArgument = Annotated[str | None, typer.Argument(metavar="[NS.T]", help="Default: all tables.")]
StreamArgument = Annotated[str, typer.Argument(metavar="STREAM", help="Name of the stream, as in its stream file.")]
TableAndFilesArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[NS.T] [STREAM.toml]...",
        help="Default: all tables. Stream files: also ask their sources how much input waits.",
    ),
]


def epochs_named(texts: list[str] | None) -> int | dict[str, int] | None:
    """The epochs that ``--epoch`` names, as ``open_table`` takes them. SettingsError: a text names none."""
    if not texts:
        return None
    if len(texts) == 1 and texts[0].isdigit():
        return int(texts[0])
    epochs: dict[str, int] = {}
    for text in texts:
        stream, equals, number = text.rpartition("=")
        if not equals or not number.isdigit() or stream in epochs:
            raise SettingsError("--epoch is not an epoch number", expected="N, or STREAM=N once a stream", found=text)
        epochs[stream] = int(number)
    return epochs


def split_dates(texts: list[str] | None) -> list[str] | None:
    """The texts, with ``A,B`` as two: what is apart by commas is several dates if each part is a date or a range."""
    parts = [text.split(",") for text in texts or ()]
    return [date for texts in parts for date in (texts if _all_dates(texts) else [",".join(texts)])] or None


def _all_dates(parts: list[str]) -> bool:
    return all(parts) and all(map(is_well_formed, parts))


DatesOption = Annotated[
    list[str] | None,
    typer.Option(
        "--dates",
        "--date",
        metavar="D|A..B",
        callback=split_dates,
        help="A date, or all dates from A to B. A day takes its hours. May be repeated, or separated by commas.",
    ),
]
LossyOption = Annotated[
    list[str] | None,
    typer.Option(
        "--lossy", metavar="COLUMN", help="Round this column to the nearest float or double. May be repeated."
    ),
]
AsOfOption = Annotated[
    str | None,
    typer.Option(
        "--as-of", metavar="TIME", help="The snapshot of that time, like 2026-11-21T09:30:00Z. Default: the newest."
    ),
]
EpochOption = Annotated[
    list[str] | None, typer.Option("--epoch", metavar="N|STREAM=N", help="Epoch of the snapshot. Default: the newest.")
]
TierOption = Annotated[str, typer.Option("--tier", metavar="TIER", help="intraday, history, or all: each row once.")]
NullCharOption = Annotated[
    str | None,
    typer.Option(
        "--null-char",
        metavar="UNIT",
        help="Null of char in column files: 0xFFFF or 0xFFFE. Default: SPARKHAVEN_NULL_CHAR, else 0xFFFF.",
    ),
]
SkipSetAsideOption = Annotated[
    bool, typer.Option("--skip-set-aside", help="Read without the rows of damaged locations that were set aside.")
]
WorkersOption = Annotated[
    int | None, typer.Option("--workers", metavar="N", min=1, help="Tasks at once. Default: all cores.")
]
LocalOption = Annotated[bool, typer.Option("--local", help="Run in this process, without Spark, also for large input.")]
SparkOption = Annotated[bool, typer.Option("--spark", help="Run in Spark, also for small input.")]
StopOnErrorOption = Annotated[
    bool, typer.Option("--stop-on-error", help="End with the first failure. Default: go on with the others.")
]
GraceOption = Annotated[
    float, typer.Option("--grace", min=0, metavar="SECONDS", help="Grace period after the truncate.")
]
UnevaluatedOption = Annotated[
    bool, typer.Option("--allow-unevaluated", help="Rules that cannot be evaluated do not fail the date.")
]


def table_and_files(words: list[str] | None) -> tuple[str | None, list[Path]]:
    """The table and the stream files of ``TableAndFilesArgument``."""
    files = [local_path(word) for word in words or () if word.endswith(".toml")]
    names = [word for word in words or () if not word.endswith(".toml")]
    if len(names) > 1:
        raise SettingsError("more than one table is named", expected="[NS.T] [STREAM.toml]...", found=" ".join(names))
    return names[0] if names else None, files


@dataclass(frozen=True, slots=True)
class OneStream:
    """A stream of a table, by its words ``NS.T STREAM``."""

    name: TableArgument
    stream: StreamArgument

    def place(self, cli: CliContext) -> StreamPlace:
        """Where it is; whether it has a log is not looked at. InvalidNameError: a word is no name."""
        return cli.place(self.name).of_stream(check_stream(self.stream))


@dataclass(frozen=True, slots=True)
class Workers:
    """Where a job runs, and with how much: as many tasks at once, each with so much memory."""

    workers: WorkersOption = None
    memory: Annotated[str, typer.Option(metavar="SIZE", help="Memory of one worker.")] = "1GiB"
    local: LocalOption = False
    spark: SparkOption = False

    @property
    def where(self) -> Where:
        """What ``--local`` and ``--spark`` ask for; SettingsError for both."""
        return chosen_runner(self.local, self.spark)

    @property
    def bytes(self) -> int:
        return memory_bytes(self.memory)


@dataclass(frozen=True, slots=True)
class DatedRun:
    """How a job over dates of history runs."""

    workers: Workers
    stop_on_error: StopOnErrorOption = False
    dry_run: DryRun = False

    def of(self, cli: CliContext) -> HistoryRun:
        """For the job; its progress goes to standard error. SettingsError: ``--local`` and ``--spark``."""
        return HistoryRun(
            self.workers.where, self.workers.workers, self.stop_on_error, self.dry_run, cli.verbose, cli.note
        )


class CommandLine(typer.Typer):
    """Takes commands as functions whose parameters are options, ``CliContext``, or groups of options."""

    def command(self, name: str | None = None, **options: Any) -> Callable[[Callable[..., None]], Any]:
        """What registers a function as a command, as ``typer.Typer.command`` does."""
        register = super().command(name, **options)
        return lambda command: register(with_groups(command))


def group(text: str) -> CommandLine:
    """A command that has commands."""
    commands = CommandLine(help=text, cls=CommandGroup, no_args_is_help=True, rich_markup_mode=None)

    @commands.callback()  # else a group of one command is that command
    def options() -> None:
        pass

    return commands


def with_groups(command: Callable[..., None]) -> Callable[..., None]:
    """A command, of which each parameter that is a group of options stands for these options, in its place.

    ``CliContext`` stands for the context. A group is a frozen class. Its fields are declared as parameters of commands
    are, or are groups themselves.
    """
    given = signature(command, eval_str=True).parameters.values()
    hints = {parameter.name: parameter.annotation for parameter in given}
    defaults = {parameter.name: parameter.default for parameter in given}

    @wraps(command)
    def call(**values: Any) -> None:
        command(**{name: _filled(name, kind, values) for name, kind in hints.items()})

    parameters = [option for name, kind in hints.items() for option in _options(name, kind, defaults[name])]
    call.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    return call


def _options(name: str, kind: Any, default: Any) -> Iterator[Parameter]:
    if kind is CliContext:
        yield Parameter("ctx", Parameter.KEYWORD_ONLY, annotation=typer.Context)
        return
    if not is_dataclass(kind):
        yield Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=kind)
        return
    hints = get_type_hints(kind, include_extras=True)
    for field in fields(kind):
        yield from _options(
            field.name, hints[field.name], Parameter.empty if field.default is MISSING else field.default
        )


def _filled(name: str, kind: Any, values: dict[str, Any]) -> Any:
    if kind is CliContext:
        return values["ctx"].obj
    if not is_dataclass(kind):
        return values[name]
    hints = get_type_hints(kind, include_extras=True)
    return kind(*(_filled(field.name, hints[field.name], values) for field in fields(kind)))  # type: ignore[operator]
