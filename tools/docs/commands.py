"""The command line, from its own definition: usage, what it does, arguments, options, examples."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

from typer.main import get_command

from sparkhaven.jobs.cli.main import app
from tools.docs.markdown import code, table

PROGRAM = "sparkhaven"


def commands() -> Iterator[tuple[str, Any]]:
    """Each command that does something, by the words that call it."""
    yield from _below(PROGRAM, get_command(app))


def command_pages() -> str:
    """A section for each command."""
    return "\n".join(_section(words, command) for words, command in commands())


def _below(words: str, command: Any) -> Iterator[tuple[str, Any]]:
    if not hasattr(command, "commands"):
        yield words, command
        return
    for name, inner in command.commands.items():
        if not inner.hidden:
            yield from _below(f"{words} {name}", inner)


def _section(words: str, command: Any) -> str:
    context = command.context_class(command, info_name=words)
    usage = " ".join(command.collect_usage_pieces(context))
    parts = [f"## {words}", f"```text\n{words} {usage}\n```", _prose(command.help)]
    rows = [row for parameter in command.params if (row := _row(parameter, context))]
    parts.append(table(("argument or option", "default", "meaning"), rows))
    parts.append(_epilog(command.epilog))
    return "\n\n".join(part for part in parts if part) + "\n"


def _row(parameter: Any, context: Any) -> tuple[str, str, str] | None:
    """Name, default and meaning of an argument or option; typer's own parts of its help are taken apart."""
    if parameter.name == "help" or parameter.hidden:
        return None
    if parameter.param_type_name == "argument":
        return code(parameter.metavar or parameter.name), "required" if parameter.required else "", parameter.help or ""
    names = ", ".join(code(name) for name in (*parameter.opts, *parameter.secondary_opts))
    if not parameter.is_flag:
        written = parameter.get_help_record(context)[0].split()
        names += f" {code(written[-1].removesuffix('range>').strip() or '<int>')}"
    default = parameter.default
    shown = "" if parameter.is_flag or default in (None, [], ()) else code(default)
    return names, "required" if parameter.required else shown, parameter.help or ""


def _prose(text: str | None) -> str:
    return inspect.cleandoc(text or "").replace("\b", "").strip()


def _epilog(text: str | None) -> str:
    lines = [line.strip() for line in _prose(text).splitlines() if line.strip()]
    examples = [line for line in lines if line.startswith(f"{PROGRAM} ")]
    described = [line for line in lines if line not in examples and line not in ("Example:", "Examples:")]
    block = "```sh\n" + "\n".join(examples) + "\n```" if examples else ""
    return "\n\n".join(part for part in (block, "\n\n".join(described)) if part)
