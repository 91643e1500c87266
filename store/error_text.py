"""Errors of sparkhaven out of a text that holds one, as those of another process do: the inverse of ``str(error)``."""

from __future__ import annotations

import re
from collections.abc import Iterator

from sparkhaven.store.errors import CLASSES, SparkhavenError

_HEAD = re.compile(rf"(?:^|(?<=[\s.:]))({'|'.join(sorted(CLASSES, key=len, reverse=True))}): (.*)")
_PART = re.compile(r"  ([a-z]\w*|to do): (.*)")
_TAIL = re.compile(r"\s+SQLSTATE: \w+$")  # what Spark adds to the last line
_STOP = re.compile(r"\s*(SQLSTATE: \w+|at [\w.$/]+\(.*|Driver stacktrace:.*|Caused by: .*|=== .*)?$")


def parse_error(text: str) -> SparkhavenError | None:
    """The first error of ours in the text, with all its parts as texts; None if there is none."""
    lines = text.splitlines()
    for number, line in enumerate(lines):
        head = _HEAD.search(line)
        if head is not None:
            parts: dict[str, str] = {}
            for name, value in _parts(lines[number + 1 :]):
                parts.setdefault("hint" if name == "to do" else name, value)
            return CLASSES[head[1]](_TAIL.sub("", head[2]), **parts)
    return None


def _parts(lines: list[str]) -> Iterator[tuple[str, str]]:
    name, value = "", ""
    for line in lines:
        part = _PART.fullmatch(line)
        if part is None and (not name or _STOP.fullmatch(line)):
            break
        if part is not None:
            if name:
                yield name, _TAIL.sub("", value)
            name, value = part[1], part[2]
        else:
            value += f"\n{line}"
    if name:
        yield name, _TAIL.sub("", value)
