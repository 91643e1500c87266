"""Every command of the command line, and how tests call one without a root of their environment."""

from __future__ import annotations

from typing import Any

import typer
from typer.testing import CliRunner, Result

from sparkhaven.jobs.cli.main import app

COMMANDS: Any = typer.main.get_command(app)


def run(*words: str) -> Result:
    return CliRunner().invoke(app, list(words), env={"SPARKHAVEN_ROOT": ""})


def commands(of: Any = None, before: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """Every command with the words that lead to it."""
    of = of or COMMANDS
    found: list[tuple[str, ...]] = []
    for name, command in sorted(of.commands.items()):
        found += commands(command, (*before, name)) if hasattr(command, "commands") else [(*before, name)]
    return found


def command_of(words: tuple[str, ...]) -> Any:
    command = COMMANDS
    for word in words:
        command = command.commands[word]
    return command
