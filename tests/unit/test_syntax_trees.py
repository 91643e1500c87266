"""A syntax tree is made whole, whatever the garbage collector finds meanwhile."""

from __future__ import annotations

import ast
import gc
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from tools.code.syntax_trees import module_tree, syntax_tree

SOURCE = "value = [(1 + 2, {'key': [word for word in 'a b'.split()]})]\n" * 200


@pytest.fixture
def parsing_collector() -> Iterator[list[str]]:
    """Collections are frequent, and each makes a tree of its own, as a finaliser that prints a traceback does."""
    threshold, phases = gc.get_threshold(), list[str]()

    def parse_below(calls: int) -> None:
        if calls:
            parse_below(calls - 1)
        else:
            ast.parse("a + b")

    def parse(phase: str, _: dict[str, Any]) -> None:
        parse_below(30)  # farther down than the tree is deep
        phases.append(phase)

    gc.callbacks.append(parse)
    gc.set_threshold(50)
    yield phases
    gc.set_threshold(*threshold)
    gc.callbacks.remove(parse)


@pytest.mark.usefixtures("parsing_collector")
def test_no_tree_is_made_amid_another_one() -> None:
    tree = syntax_tree(SOURCE)
    assert len(tree.body) == 200
    assert gc.isenabled()


def test_pythons_own_parser_has_collections_in_between(parsing_collector: list[str]) -> None:
    counts_at_one_place = sys.version_info < (3, 12)
    expected: Any = pytest.raises(SystemError, match="AST constructor recursion depth mismatch")
    with expected if counts_at_one_place else nullcontext():
        ast.parse(SOURCE)
    assert parsing_collector


def test_a_collector_that_is_off_stays_off() -> None:
    gc.disable()
    try:
        syntax_tree("a = 1")
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_a_fault_is_told_and_the_collector_goes_on(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("a = ", encoding="utf-8")
    with pytest.raises(SyntaxError):
        module_tree(tmp_path / "a.py")
    assert gc.isenabled()
