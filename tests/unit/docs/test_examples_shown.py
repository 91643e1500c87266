"""The files of README's tour are those of ``examples/trades``."""

from __future__ import annotations

from tests.support.docs.console import blocks
from tests.support.places import REPOSITORY

TRADES = REPOSITORY / "examples" / "trades"


def test_the_tour_of_readme_ships_as_an_example() -> None:
    page = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    shown = {block.file: "".join(f"{line}\n" for line in block.lines) for block in blocks(page) if block.file}
    shipped = {str(path.relative_to(TRADES)): path.read_text(encoding="utf-8") for path in TRADES.rglob("*.*")}
    assert len(shown) == 4 and shipped == shown
