"""Tokens of key formulas, a cursor over them, and the columns that the tree of a formula or a condition names."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol


class Token(NamedTuple):
    """``kind`` is the group of the lexer that matched, or "end"; ``character`` is its first, counted from 1."""

    kind: str
    text: str
    character: int


def tokens(text: str, lexer: re.Pattern[str], refuse: Callable[[int, str], Exception]) -> list[Token]:
    """All tokens but spaces (group ``space``), and an end; raises what ``refuse`` makes of a position and character."""
    matched: list[Token] = []
    offset = 0
    while offset < len(text):
        match = lexer.match(text, offset)
        if match is None:
            raise refuse(offset + 1, text[offset])
        if match.lastgroup != "space":
            matched.append(Token(str(match.lastgroup), match[0], offset + 1))
        offset = match.end()
    return [*matched, Token("end", "the end", len(text) + 1)]


class Cursor:
    """Position of a recursive-descent parser. ``make_error`` makes the error of (position, expected, found)."""

    def __init__(self, parsed: list[Token], make_error: Callable[[int, str, str], Exception]) -> None:
        self.tokens, self.position, self._make_error = parsed, 0, make_error

    @property
    def here(self) -> Token:
        return self.tokens[self.position]

    @property
    def following(self) -> Token:
        return self.tokens[min(self.position + 1, len(self.tokens) - 1)]

    def take(self, *texts: str) -> Token | None:
        token = self.here
        if token.kind in ("sign", "name") and token.text in texts:
            self.position += 1
            return token
        return None

    def need(self, text: str) -> None:
        if self.take(text) is None:
            raise self._make_error(self.here.character, repr(text), repr(self.here.text))


class Tree(Protocol):
    """A node of either language; ``value`` of the operation ``column`` is its name."""

    @property
    def op(self) -> str: ...
    @property
    def parts(self) -> Sequence[Tree]: ...
    @property
    def value(self) -> object: ...


def columns_of(tree: Tree) -> tuple[str, ...]:
    names: set[str] = set()
    todo = [tree]
    while todo:
        node = todo.pop()
        if node.op == "column":
            names.add(str(node.value))
        todo.extend(node.parts)
    return tuple(sorted(names))
