"""Errors and their exit codes, from the tree of errors."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

from sparkhaven.errors import SparkhavenError
from tools.docs.markdown import code, table


def error_table() -> str:
    """Each error below the error that it is a kind of."""
    rows = (
        (code(kind.__name__), code(kind.__bases__[0].__name__), str(kind.exit_code), _first_paragraph(kind))
        for kind in _tree(SparkhavenError)
    )
    return table(("error", "kind of", "exit code", "meaning"), rows)


def _tree(kind: type[SparkhavenError]) -> Iterator[type[SparkhavenError]]:
    yield kind
    for inner in kind.__subclasses__():
        yield from _tree(inner)


def _first_paragraph(kind: type[SparkhavenError]) -> str:
    return inspect.cleandoc(kind.__doc__ or "").partition("\n\n")[0].replace("``", "`")
