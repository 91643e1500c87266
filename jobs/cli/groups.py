"""Options that belong together, as values, and commands that take such values as parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Annotated, Any, get_type_hints

import typer

from sparkhaven.jobs.cli.context import CliContext
from sparkhaven.jobs.cli.options import (
    DryRun,
    LocalOption,
    SparkOption,
    StopOnErrorOption,
    StreamArgument,
    TableArgument,
    WorkersOption,
    chosen_runner,
    memory_bytes,
)
from sparkhaven.jobs.session.spark_or_local import HistoryRun, Where
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import TableName, check_stream
from sparkhaven.store.places import StreamPlace


@dataclass(frozen=True, slots=True)
class OneStream:
    """A stream of a table, by its words ``NS.T STREAM``."""

    name: TableArgument
    stream: StreamArgument

    def place(self, cli: CliContext) -> StreamPlace:
        """Where it is; whether it has a log is not looked at. InvalidNameError: a word is no name."""
        return StreamPlace(Fs(), cli.database(), TableName.parse(self.name), check_stream(self.stream))


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


def with_groups(command: Callable[..., None]) -> Callable[..., None]:
    """A command, of which each parameter that is a group of options stands for these options, in its place.

    A group is a frozen class. Its fields are declared as parameters of commands are, or are groups themselves.
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
    if not is_dataclass(kind):
        yield Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=kind)
        return
    hints = get_type_hints(kind, include_extras=True)
    for field in fields(kind):
        yield from _options(
            field.name, hints[field.name], Parameter.empty if field.default is MISSING else field.default
        )


def _filled(name: str, kind: Any, values: dict[str, Any]) -> Any:
    if not is_dataclass(kind):
        return values[name]
    hints = get_type_hints(kind, include_extras=True)
    return kind(*(_filled(field.name, hints[field.name], values) for field in fields(kind)))  # type: ignore[operator]
