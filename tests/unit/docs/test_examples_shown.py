"""The files that a page shows are those of an example, byte for byte."""

from __future__ import annotations

import pytest

from tests.support.docs.console import blocks
from tests.support.places import REPOSITORY


@pytest.mark.parametrize(("page", "example"), [("README.md", "trades"), ("docs/howto/orders.md", "orders")])
def test_the_files_of_a_page_ship_as_an_example(page: str, example: str) -> None:
    text, place = (REPOSITORY / page).read_text(encoding="utf-8"), REPOSITORY / "examples" / example
    shown = {block.file: "".join(f"{line}\n" for line in block.lines) for block in blocks(text) if block.file}
    shipped = {str(path.relative_to(place)): path.read_text(encoding="utf-8") for path in place.rglob("*.*")}
    assert len(shown) == 4 and shipped == shown
