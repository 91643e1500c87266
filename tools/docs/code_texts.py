"""The texts in the code that users see: errors, hints, findings, progress, log lines, the operations page.

Every string of two words or more is taken, whatever it is passed to, so that no call can be forgotten. Docstrings are
not, nor strings that are code: regular expressions, SQL, markup, headers. A placeholder is one word.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tools.code.syntax_trees import module_tree

PACKAGES = ("store", "ingest", "writers", "readers", "jobs", "demo", "airflow_dags", "sparkhaven")
WORDS = re.compile(r"[A-Za-z]+[,;:.]? +[A-Za-z]{2,}")
NOT_PROSE = re.compile(
    r"\\[wsSdb(]|\(\?|charset=|-src |-ancestors '|;\n|import \w+, "
)  # patterns, headers, style sheets, programs
RULE = re.compile(r"\b(?:(?<!case )only|must|needs?|never)\b")  # says what holds, not what is wrong
PLACEHOLDER = re.compile(r"`[^`]*\b(?:NS\.T|STREAM|TABLE|COLUMN|VERSION)\b(?!\.)[^`]*`")
TAG = re.compile(r"</?\w[^<>]*>")


def code_texts(repository: Path) -> Iterator[tuple[str, str]]:
    """Each text with ``file:line``."""
    for module in _modules(repository):
        for line, text in _texts(module_tree(module)):
            if WORDS.search(text) and not NOT_PROSE.search(text):
                prose = TAG.sub("Code", re.sub(r"\n +", "\n\n", text))
                yield f"{module.relative_to(repository)}:{line}", prose


def error_faults(repository: Path) -> Iterator[tuple[str, str]]:
    """What breaks a rule of errors, with ``file:line``."""
    for module in _modules(repository):
        tree = module_tree(module)
        path = module.relative_to(repository)
        for line, text in _texts(tree):
            yield from ((f"{path}:{line}", f"a hint without the real name: {c[0]}") for c in PLACEHOLDER.finditer(text))
        for call in ast.walk(tree):
            if isinstance(call, ast.Call) and call.args and ast.unparse(call.func).endswith("Error"):
                for line, text in _texts(call.args[0]):
                    yield from ((f"{path}:{line}", f"the rule, not the violation: {text}") for _ in RULE.finditer(text))


def _modules(repository: Path) -> Iterator[Path]:
    for package in PACKAGES:
        folder = repository / package
        # what is linked in sparkhaven is a package of its own
        yield from sorted(folder.glob("*.py") if package == "sparkhaven" else folder.rglob("*.py"))


def _texts(node: ast.AST) -> Iterator[tuple[int, str]]:
    text = _text(node)
    if text is not None:
        yield getattr(node, "lineno", 0), text
    for inner in _inner(node):
        yield from _texts(inner)


def _text(node: ast.AST) -> str | None:
    """The text of a string, of an f-string or of a sum of them, with ``X`` in the place of each value."""
    match node:
        case ast.Constant(value=str(value)):
            return value
        case ast.JoinedStr(values=values):
            return "".join(_text(value) or "X" for value in values)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            parts = (_text(left), _text(right))
            return None if parts == (None, None) else "".join(part or "X" for part in parts)
    return None


def _inner(node: ast.AST) -> Iterator[ast.AST]:
    """What is below a node and is not part of its own text."""
    for inner in ast.iter_child_nodes(node):
        if isinstance(inner, ast.Expr) and isinstance(inner.value, ast.Constant):
            continue  # a docstring
        if isinstance(inner, ast.Attribute) and inner.attr == "split":
            continue  # a list of words
        if _text(node) is not None and _text(inner) is not None:
            yield from _inner(inner)
        else:
            yield inner
