"""Names of parameters and local variables say what they hold, and the lint for that sees those that do not."""

from __future__ import annotations

import pytest

from tools.code.names import EMPTY, bindings, modules
from tools.code.syntax_trees import syntax_tree


def test_every_package_is_read() -> None:
    tops = {path.parts[-2] for path in modules()}
    assert {"epochs", "scan", "files", "cli", "checks", "code"} <= tops


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("def f(found): ...", {"found"}),
        ("def f():\n    at = 1", {"at"}),
        ("def f():\n    for each in (): ...", {"each"}),
        ("def f():\n    return [each for each in ()]", {"each"}),
        ("def f():\n    (made, _) = 1, 2", {"made"}),
        ("def f():\n    try: ...\n    except OSError as thing: ...", {"thing"}),
        ("key = lambda each: 1", {"each"}),
        ("def f(place: int): ...", {"place"}),
        ("from a import TablePlace\ndef f(place: int): ...", {"place"}),
        ("from a import TablePlace\ndef f(place: TablePlace): ...", set()),
        ("from a import StreamPlace\ndef f():\n    for place in (): ...", set()),
        ("def f(at, expected, found): ...", set()),
        ("found = 1", set()),
        ("def f(stat): ...", set()),
    ],
)
def test_empty_names_are_seen(source: str, names: set[str]) -> None:
    assert {name for _, name in bindings(syntax_tree(source)) if name in EMPTY} == names
