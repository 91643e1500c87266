"""The text of a value in a JSON line, byte for byte as it stands there."""

from __future__ import annotations

import json

from sparkhaven.ingest.formats.json.field_paths import Path

_BLANKS = " \t\n\r"
_DECODER = json.JSONDecoder(parse_float=str, parse_int=str)


class SourceText:
    """One line that is a JSON object, as the exact parser has found; objects are gone through once."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._members: dict[Path, dict[str, tuple[int, int]]] = {}

    def of(self, path: Path) -> str:
        """The text of the value at a path; of two fields of one name it is the last. KeyError if there is none."""
        start, stop = self._members_of(path[:-1])[path[-1]]
        return self._text[start:stop]

    def _members_of(self, path: Path) -> dict[str, tuple[int, int]]:
        """Where the values of the fields of an object begin and end."""
        if path not in self._members:
            start = self._members_of(path[:-1])[path[-1]][0] if path else self._behind_blanks(0)
            self._members[path] = self._spans(start)
        return self._members[path]

    def _spans(self, start: int) -> dict[str, tuple[int, int]]:
        spans: dict[str, tuple[int, int]] = {}
        offset = self._behind_blanks(start + 1)
        while self._text[offset] != "}":
            name, offset = _DECODER.raw_decode(self._text, offset)
            begin = self._behind_blanks(self._behind_blanks(offset) + 1)
            end = _DECODER.raw_decode(self._text, begin)[1]
            spans[name] = begin, end
            offset = self._behind_blanks(end)
            if self._text[offset] == ",":
                offset = self._behind_blanks(offset + 1)
        return spans

    def _behind_blanks(self, offset: int) -> int:
        while self._text[offset] in _BLANKS:
            offset += 1
        return offset
