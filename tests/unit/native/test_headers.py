"""Each header declares what one source defines; a folder needs no other one but ``bytes/``, and no header itself."""

from __future__ import annotations

import re
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from native.build import SOURCES, source_files

HEADERS = source_files("*.h")
INCLUDED = re.compile(r'^#include "([\w/]+\.h)"', re.MULTILINE)
DECLARED = re.compile(
    r"^(?:SH_API )?(?!typedef|static|return)(?:const )?(?:struct )?\w+ \**(sh_\w+)\([^{;]*\);", re.MULTILINE
)
DEFINED = re.compile(r"^(?:(?:const )?(?:struct )?\w+ \**|DISPATCHED\()(sh_\w+)[(,](?:[^;{]*\{|(?<=,))", re.MULTILINE)


def name_of(path: Path) -> str:
    return path.relative_to(SOURCES).as_posix()


def is_interface(header: Path) -> bool:
    """Whether it declares what Python calls of a whole folder."""
    return header.stem == header.parent.name or header.parent == SOURCES


def unit(path: Path) -> str:
    """A source and its header are one; the interface of a folder is apart from what implements it."""
    return name_of(path if path.suffix == ".h" and is_interface(path) else path.with_suffix(""))


@pytest.mark.parametrize("header", HEADERS, ids=name_of)
def test_a_header_declares_what_one_source_defines(header: Path) -> None:
    sources = header.parent.glob("*.c") if is_interface(header) else [header.with_suffix(".c")]
    defined = {name for path in sources if path.exists() for name in DEFINED.findall(path.read_text(encoding="utf-8"))}
    assert set(DECLARED.findall(header.read_text(encoding="utf-8"))) <= defined


def test_every_function_of_the_core_is_seen() -> None:
    assert sum(len(DECLARED.findall(header.read_text(encoding="utf-8"))) for header in HEADERS) > 50


def test_no_circle_and_no_way_across() -> None:
    graph: dict[str, set[str]] = {}
    for path in source_files("*.[ch]"):
        included = [SOURCES / name for name in INCLUDED.findall(path.read_text(encoding="utf-8"))]
        graph.setdefault(unit(path), set()).update(unit(header) for header in included if unit(header) != unit(path))
        allowed = {SOURCES, SOURCES / "bytes", path.parent}
        assert {header.parent for header in included} <= allowed, f"{name_of(path)} includes a header of another folder"
    list(TopologicalSorter(graph).static_order())
