"""Commands, of which parameters may be the context of the command line, or options that belong together as values."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import MISSING, fields, is_dataclass
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Any, get_type_hints

import typer

from sparkhaven.jobs.cli.context import CliContext, CommandGroup


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
