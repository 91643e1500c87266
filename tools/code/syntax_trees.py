"""Syntax trees of Python modules, whatever else the process does meanwhile."""

from __future__ import annotations

import ast
import gc
from pathlib import Path


def syntax_tree(source: str) -> ast.Module:
    """The tree of a module's text. SyntaxError as from ``ast.parse``.

    Python 3.11 counts the depth of all trees that it makes in one place. Objects are made without a collection here:
    a finaliser could make another tree meanwhile, as the print of a traceback does, and ``ast.parse`` would end with
    SystemError.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        return ast.parse(source)
    finally:
        if collects:
            gc.enable()


def module_tree(path: Path) -> ast.Module:
    """The tree of a file in UTF-8. OSError, SyntaxError."""
    return syntax_tree(path.read_text(encoding="utf-8"))
