"""Elements of a parsed schema document, for tests."""

from __future__ import annotations

from collections.abc import Iterator

from sparkhaven.store.schema.xml_tree import Element


def walk(element: Element) -> Iterator[Element]:
    """The element and everything below it, in document order."""
    todo = [element]
    while todo:
        here = todo.pop()
        yield here
        todo.extend(reversed(here.children))
