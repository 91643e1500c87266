"""Commands and options that messages of the program name, found in its source; what a message fills in is ``7``."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import typer

from sparkhaven.jobs.cli.main import app
from tests.support.places import REPOSITORY
from tools.code.syntax_trees import module_tree

PACKAGES = ("jobs", "ingest", "writers", "readers", "store", "sparkhaven")
FILLED = "7"
NUMBERS = ("N", "VERSION")
_QUOTED = re.compile(r"`([^`\n]+)`")
_PLAIN = re.compile(r"(?<![`\w])sparkhaven ([a-z][a-z-]+(?: [^`,;:()|]+)?)")
_PROSE = re.compile(
    r" (?:to|then|again|of|and|or|if|with|once|anew|where|runs|itself|is|in|needs|every|on|error) .*| again$"
)
_STYLE = ("pictures.py",)  # of the operations page, whose variables look like options
_PLACE = re.compile(r"\{[a-z]+\}")  # of a template
_OPTION = re.compile(r"(?<![\w(-])--[a-z][a-z_-]*+(?![:\d])")  # no variable of a style sheet


@dataclass(frozen=True, slots=True)
class Message:
    """A text of a module that is no docstring."""

    file: Path
    line: int
    text: str


@cache
def messages() -> tuple[Message, ...]:
    """All texts of the program but docstrings."""
    return tuple(_messages())


def _messages() -> Iterator[Message]:
    for package in PACKAGES:
        for path in sorted((REPOSITORY / package).rglob("*.py")):
            if "demo" in path.parts or path.name in _STYLE:
                continue
            tree = module_tree(path)
            yield from (Message(path, line, text) for line, text in _texts(tree))


def _texts(node: ast.AST) -> Iterator[tuple[int, str]]:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return  # a docstring
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.lineno, _PLACE.sub(FILLED, node.value)
    elif isinstance(node, ast.JoinedStr):
        yield (
            node.lineno,
            "".join(str(part.value) if isinstance(part, ast.Constant) else FILLED for part in node.values),
        )
    else:
        for child in ast.iter_child_nodes(node):
            yield from _texts(child)


def calls(text: str) -> Iterator[list[str]]:
    """The words of each command that a text tells a person to run, without ``sparkhaven``."""
    for quoted in _QUOTED.findall(text):
        words = shlex.split(quoted.replace("[", "").replace("]", "").partition("|")[0].replace("…", ""))
        if not words:
            continue
        if words[0] == "sparkhaven" and len(words) > 1:
            yield words[1:]
    for plain in _PLAIN.findall(_QUOTED.sub("", text)):
        words = shlex.split(_PROSE.sub("", plain))
        if words[0] in _program().commands:
            yield words


def without_program(text: str) -> list[str]:
    """Commands with arguments that a person cannot run as they stand: ``sparkhaven``, and so the root, is missing."""
    quoted = [words for words in _QUOTED.findall(text) if " " in words]
    return [words for words in quoted if words.split()[0] in _program().commands]


def fault(words: list[str]) -> str | None:
    """Why the command line refuses these words; None if it takes them."""
    rest, command = [FILLED if word in NUMBERS else word for word in words if word != "--help"], _program()
    if rest[0] == "--root":
        rest = rest[2:]
    while hasattr(command, "commands"):
        name = rest.pop(0) if rest else ""
        if name not in command.commands:
            return f"no command {name!r}"
        command = command.commands[name]
    if "--help" in words:
        return None
    while True:
        try:
            # a command keeps the help option of its first context: that of the whole program
            command.make_context(words[0], list(rest), **_program().context_settings)
        except Exception as error:  # what a parser raises, whichever it is
            if "unexpected extra argument" in str(error) and rest[-1:] == [FILLED]:
                rest.pop()  # filled in were options
                continue
            return f"{type(error).__name__}: {error}"
        return None


def options_named(text: str) -> set[str]:
    """Words of a text that look like options."""
    return set(_OPTION.findall(text))


@cache
def known_options() -> set[str]:
    """The options of all commands."""
    return {name for command in _all(_program()) for one in command.params for name in (*one.opts, *one.secondary_opts)}


def _all(command: Any) -> Iterator[Any]:
    yield command
    for inner in dict(getattr(command, "commands", {})).values():
        yield from _all(inner)


@cache
def _program() -> Any:
    return typer.main.get_command(app)
