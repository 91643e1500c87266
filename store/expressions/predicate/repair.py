"""A where-expression as it was meant, where quotes are missing or superfluous: for the hint of an error.

One literal is quoted, or freed of quotes, at the character of each error, until the expression parses. What compares
literals only is not taken for meant: then a name of a column is wrong.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection

from sparkhaven.store.expressions.predicate.nodes import COMPARISONS, SYNTAX, TYPES, PredicateError, PredicateNode

STEPS = 20
QUOTES, NO_QUOTES = "texts stand in quotes", "numbers, true and false stand without quotes"
_PIECE = re.compile(
    r"""(?P<quoted>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|`[^`]*`|“[^”]*”|‘[^’]*’)|(?P<word>[^\s()\[\],=<>!&|"'`]+)"""
    r"""|(?P<sign>[()\[\],]|[=<>!&|]+)""",
    re.DOTALL,
)
_BARE = re.compile(r"true|false|[-+]?[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
_WORDS = frozenset({"and", "or", "not", "in", "isNull", "isNaN", "null"})


def repaired(
    text: str, error: PredicateError, parse: Callable[[str], PredicateNode], columns: Collection[str]
) -> tuple[str, str] | None:
    """The hint and the expression as it was meant; None where quotes do not help. ``error``: that of the text."""
    hint = QUOTES
    for step in range(STEPS):
        edits = _edits(text, error, columns, step > 0)
        if not edits:
            return None
        for first, last, literal in reversed(edits):
            hint = QUOTES if literal[:1] in ('"', "'") else NO_QUOTES
            text = text[:first] + literal + text[last:]
        try:
            node = parse(text)
        except PredicateError as next_error:
            error = next_error
        else:
            return None if _compares_literals(node) else (hint, text)
    return None


def _edits(text: str, error: PredicateError, columns: Collection[str], joins: bool) -> list[tuple[int, int, str]]:
    """Which characters to replace, by what. ``joins``: a word may belong to the text before it."""
    pieces = list(_PIECE.finditer(text))
    here = next((i for i, piece in enumerate(pieces) if piece.start() < error.character <= piece.end()), None)
    if here is None:
        return []
    if error.kind == TYPES:
        return [edit for piece in _operands(pieces, here, columns) for edit in _turned(piece, columns)]
    piece, before = pieces[here], pieces[here - 1] if here else None
    if (
        joins
        and error.kind == SYNTAX
        and piece["word"]
        and before
        and before["quoted"]
        and before.end() < piece.start()
    ):
        words = f"{before[0][1:-1]}{text[before.end() : piece.start()]}{piece[0]}"  # a text of several words
        return [(before.start(), piece.end(), _quote(words))]
    if piece["quoted"] and piece[0][0] in "“‘":
        return [(piece.start(), piece.end(), _quote(piece[0][1:-1]))]
    edits = _quoted(piece, columns)
    while edits and here + 2 < len(pieces) and pieces[here + 1][0] == ",":  # the rest of a list
        here += 2
        edits += _quoted(pieces[here], columns)
    return edits


def _operands(pieces: list[re.Match[str]], operator: int, columns: Collection[str]) -> list[re.Match[str]]:
    """The literals that an operator compares: the list behind it, the word behind it, or the one before it."""
    behind = operator + 1
    while behind < len(pieces) and pieces[behind][0] in ("in", "(", "["):
        behind += 1
    if behind > operator + 1:
        stop = next((i for i in range(behind, len(pieces)) if pieces[i][0] in (")", "]")), len(pieces))
        return [piece for piece in pieces[behind:stop] if not piece["sign"]]
    if behind < len(pieces) and pieces[behind][0] not in columns:
        return pieces[behind : behind + 1]
    return pieces[operator - 1 : operator] if operator else []


def _turned(piece: re.Match[str], columns: Collection[str]) -> list[tuple[int, int, str]]:
    """A literal with quotes without them, where it is a number; one without quotes with them."""
    if piece["quoted"]:
        bare = piece[0][1:-1]
        return [(piece.start(), piece.end(), bare)] if _BARE.fullmatch(bare) else []
    return _quoted(piece, columns)


def _quoted(piece: re.Match[str], columns: Collection[str]) -> list[tuple[int, int, str]]:
    if not piece["word"] or piece[0] in columns or piece[0] in _WORDS:
        return []
    return [(piece.start(), piece.end(), _quote(piece[0]))]


def _quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _compares_literals(node: PredicateNode) -> bool:
    compares = node.op == "in" or node.op in COMPARISONS
    if compares and all(part.op == "literal" for part in node.parts):
        return True
    return any(_compares_literals(part) for part in node.parts)
