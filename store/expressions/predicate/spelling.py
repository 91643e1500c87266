"""An expression of another language, or without its quotes, as SQL: for the hint of an error.

Signs of Java become those of SQL, texts get single quotes, and columns whose names are words of SQL get double ones.
Only an expression that can be used is proposed, and none that compares literals only.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise, zip_longest
from typing import Any

from sparkhaven.store.expressions.duckdb_engine import SqlSyntaxError, engine, parsed, quoted
from sparkhaven.store.expressions.predicate.nodes import PredicateError, PredicateNode
from sparkhaven.store.types.model import Column

PIECE = re.compile(
    r"""(?P<text>'(?:[^']|'')*'|`[^`]*`|“[^”]*”|‘[^’]*’)|(?P<name>"(?:[^"\\]|\\.|"")*")"""
    r"""|(?P<word>(?:[^\W\d]|[0-9])(?:[\w.:/-]*\w)?)|(?P<space>\s+)|(?P<sign>==|<>|!=|<=|>=|&&|\|\||!~~\*?|!~\*?|.)""",
    re.DOTALL,
)
_SIGNS = {"==": "=", "&&": "AND", "||": "OR", "!": "NOT ", "[": "(", "]": ")"}
_WORDS = frozenset(
    [
        "and",
        "or",
        "not",
        "in",
        "is",
        "null",
        "true",
        "false",
        "like",
        "ilike",
        "between",
        "case",
        "when",
        "then",
        "else",
        "end",
        "cast",
        "as",
        "escape",
        "similar",
        "to",
        "distinct",
        "from",
        "date",
        "time",
        "timestamp",
        "timestamptz",
        "interval",
        "exists",
        "any",
        "all",
    ]
)
_ASKED = re.compile(r"""(?:NOT\s+)?(?:\bisNull\s*\(([^()]*)\)|([\w"]+)\s*\.\s*isNull\s*\(\s*\))""")
_CHOICE = re.compile(r"([^?]+)\?([^?:]+):([^?]+)")


def with_sql_hint(
    text: str, error: PredicateError, parse: Callable[[str], object], columns: Iterable[Column]
) -> str | None:
    """The hint of an error, with the expression in SQL where it can be used so."""
    names = [column.name for column in columns]
    ways = [_rewritten(text, names, quotes=quotes) for quotes in (False, True)]
    joins = [_rewritten(text, names, quotes=quotes, joins=True) for quotes in (False, True)]
    for again in dict.fromkeys((*ways, *joins)):
        if again == text:
            continue
        try:
            meant: Any = parse(again)
        except PredicateError:
            continue
        if isinstance(meant, PredicateNode) and _compares_literals(meant):
            continue
        return f"{error.hint}. In SQL: {again}" if error.hint else f"in SQL: {again}"
    return error.hint


def _rewritten(text: str, columns: list[str], *, quotes: bool, joins: bool = False) -> str:
    """The text in SQL. ``quotes``: words and numbers get quotes where they can be texts; ``joins``: + joins texts."""
    pieces = [match for match in PIECE.finditer(text) if not match["space"]]
    spaces = [text[one.end() : other.start()] for one, other in pairwise(pieces)]
    parts = [_written(piece, following, columns, quotes=quotes) for piece, following in _with_next(pieces)]
    if joins:
        parts = ["||" if part == "+" else part for part in parts]
    joined = "".join(part + space for part, space in zip_longest(parts, spaces, fillvalue=""))
    joined = _ASKED.sub(_null, joined)
    choice = _CHOICE.fullmatch(joined)
    return (
        joined
        if choice is None
        else "CASE WHEN {} THEN {} ELSE {} END".format(*(part.strip() for part in choice.groups()))
    )


def _with_next(pieces: list[re.Match[str]]) -> Iterator[tuple[re.Match[str], str]]:
    following = [*(piece[0] for piece in pieces[1:]), ""]
    return zip(pieces, following[: len(pieces)], strict=True)


def _written(piece: re.Match[str], following: str, columns: list[str], *, quotes: bool) -> str:
    word = piece[0]
    if piece["name"] is not None:
        return word if word[1:-1] in columns else quoted(re.sub(r"\\(.)", r"\1", word[1:-1]))
    if piece["text"] is not None:
        return word if word[0] == "'" and "\\" not in word else quoted(re.sub(r"\\(.)", r"\1", word[1:-1]))
    if piece["sign"] is not None:
        return _SIGNS.get(word, word)
    if word in columns:
        return word if _plain_name(word) else f'"{word}"'
    head = word.partition(".")[0]
    known = word.lower() in _WORDS or following == "(" or head in columns
    return word if known or not quotes else quoted(word)


def _plain_name(name: str) -> bool:
    """Whether SQL takes the name without quotes."""
    try:
        parsed(engine(), f"select {name} = 1")
    except SqlSyntaxError:
        return False
    return True


def _null(match: re.Match[str]) -> str:
    inner = (match[1] or match[2]).strip()
    inner = inner if re.fullmatch(r'\w+|"[^"]+"', inner) else f"({inner})"
    return f"{inner} IS NOT NULL" if match[0].startswith("NOT") else f"{inner} IS NULL"


def _compares_literals(node: PredicateNode) -> bool:
    if node.op == "sql" and not node.parts:
        return True
    return node.op == "literal" or any(part.op != "literal" and _compares_literals(part) for part in node.parts)
