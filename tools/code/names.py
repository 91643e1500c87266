"""The lint for local names: parameters and variables that say nothing of what they hold.

``python -m tools.code.names [PATH ...]`` prints each binding of such a name. A name says its noun: ``stat``,
``offset``, ``row_index``.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from tools.code.syntax_trees import module_tree

REPOSITORY = Path(__file__).resolve().parents[2]
PACKAGES = ("sparkhaven", "store", "ingest", "readers", "writers", "jobs", "demo", "tools", "native", "benchmarks")
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
ERROR_PARTS = {"at", "found"}
EMPTY = frozenset({"at", "each", "found", "made", "place", "places", "thing", "things", "stuff"})


def bindings(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and name of whatever is bound in functions: parameters, targets of assignments, loops and handlers.

    Not ``at`` and ``found`` beside ``expected``: they are parts of an error. Not ``place`` where it is a ``TablePlace``
    or ``StreamPlace``.
    """
    named = {alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names}
    place_names = {"place", "places"} if named & {"TablePlace", "StreamPlace"} else set()
    for function in (node for node in ast.walk(tree) if isinstance(node, FUNCTIONS)):
        parameters = [node for node in ast.walk(function.args) if isinstance(node, ast.arg)]
        nouns = place_names | (ERROR_PARTS if any(parameter.arg == "expected" for parameter in parameters) else set())
        for parameter in parameters:
            name, annotation = parameter.arg, parameter.annotation
            if name not in nouns or (name in place_names and annotation and "Place" not in ast.unparse(annotation)):
                yield parameter.lineno, name
        for node in ast.walk(function):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id not in nouns:
                yield node.lineno, node.id
            elif isinstance(node, ast.ExceptHandler) and node.name:
                yield node.lineno, node.name


def faults(path: Path) -> Iterator[str]:
    """What one module binds by a name that says nothing, as lines."""
    tree = module_tree(path)
    for line, name in sorted(set(bindings(tree))):
        if name in EMPTY:
            yield f"{path.relative_to(REPOSITORY)}:{line}: {name}"


def modules(paths: Sequence[str] = PACKAGES) -> Iterator[Path]:
    """The modules of packages, without links to other folders."""
    for name in paths:
        path = REPOSITORY / name
        yield from [path] if path.is_file() else sorted(p for p in path.rglob("*.py") if not p.is_symlink())


def main(paths: Sequence[str] | None = None) -> int:
    """Prints what breaks the rule; 1 if anything does."""
    lines = [line for path in modules(paths or PACKAGES) for line in faults(path)]
    print("\n".join(lines) if lines else "names: clean")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
