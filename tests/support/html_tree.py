"""HTML as a tree, parsed by the standard library, for tests that look at documents as a browser does."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = frozenset({"meta", "link", "input", "br", "img", "hr"})


@dataclass(slots=True)
class Node:
    """An element; ``content`` has texts and elements in order."""

    tag: str
    attributes: dict[str, str] = field(default_factory=dict)
    content: list[str | Node] = field(default_factory=list)

    def all(self, *tags: str) -> Iterator[Node]:
        """Elements below this one with one of these tags; all without tags."""
        for each in self.content:
            if isinstance(each, Node):
                if not tags or each.tag in tags:
                    yield each
                yield from each.all(*tags)

    def one(self, tag: str, **attributes: str) -> Node:
        """The only such element."""
        found = [each for each in self.all(tag) if attributes.items() <= each.attributes.items()]
        assert len(found) == 1, f"{len(found)} {tag} {attributes}"
        return found[0]

    @property
    def text(self) -> str:
        """The whole text."""
        return "".join(each if isinstance(each, str) else each.text for each in self.content)

    def rows(self) -> list[list[str]]:
        """The texts of the cells of a table, its header first."""
        return [[cell.text for cell in row.all("th", "td")] for row in self.all("tr")]


class _Builder(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root = Node("")
        self._open = [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        assert len(set(names)) == len(names), f"{tag} has an attribute twice: {names}"
        made = Node(tag, {name: value or "" for name, value in attrs})
        self._open[-1].content.append(made)
        if tag not in VOID:
            self._open.append(made)

    def handle_endtag(self, tag: str) -> None:
        assert self._open[-1].tag == tag, f"</{tag}> closes <{self._open[-1].tag}>"
        self._open.pop()

    def handle_data(self, data: str) -> None:
        self._open[-1].content.append(data)

    def handle_comment(self, data: str) -> None:
        raise AssertionError(f"a comment: {data}")


def parse(data: bytes) -> Node:
    """The document. AssertionError where an element is not closed, or is closed by another."""
    builder = _Builder()
    builder.feed(data.decode("utf-8"))
    builder.close()
    assert len(builder._open) == 1, f"<{builder._open[-1].tag}> is not closed"
    return builder.root
