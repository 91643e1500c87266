"""A reader made of numpy and nothing of ours: it decodes column files as the format reference states them."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np

PREFIX = 4096
ENTRIES: dict[str, tuple[str, Any]] = {
    "Boolean": ("<i1", -1),
    "byte": ("<i1", -(2**7)),
    "char": ("<u2", 0xFFFF),
    "short": ("<i2", -(2**15)),
    "int": ("<i4", -(2**31)),
    "long": ("<i8", -(2**63)),
    "Instant": ("<i8", -(2**63)),
    "float": ("<f4", np.finfo(np.float32).min),
    "double": ("<f8", np.finfo(np.float64).min),
}
KINDS = {
    "Flag": "Boolean",
    "B": "byte",
    "C": "char",
    "S": "short",
    "I": "int",
    "L": "long",
    "F": "float",
    "D": "double",
    "At": "Instant",
    "Sym": "symbol",
    "Note": "blob",
}
"""A column of each kind, as tests name them."""


def _texts(data: bytes, ends: np.ndarray, charset: str) -> list[str | None]:
    found: list[str | None] = []
    start = 0
    for end in ends.tolist():
        piece = data[start:end]
        found.append(None if not piece else "" if piece == b"\0" else piece.decode(charset))
        start = end
    return found


def read(directory: Path, name: str, kind: str, rows: int, charset: str = "utf-8") -> list[Any]:
    """One column as Python values: None for null, an Instant as nanoseconds; ``kind`` is a type, symbol or blob."""
    data = (directory / f"{name}.dat").read_bytes()[PREFIX:]
    if kind == "symbol":
        numbers = np.frombuffer(data, "<i4", rows)
        ends = np.frombuffer((directory / f"{name}.sym").read_bytes(), "<i8")
        texts = _texts((directory / f"{name}.sym.bytes").read_bytes(), ends, charset)
        return [None if number == -(2**31) else texts[number] for number in numbers.tolist()]
    if kind == "blob":
        ends = np.frombuffer(data, "<i8", rows)
        return _texts((directory / f"{name}.bytes").read_bytes(), ends, charset)
    dtype, null = ENTRIES[kind]
    values = np.frombuffer(data, dtype, rows)
    plain = [None if value == null else value for value in values.tolist()]
    return [value if value is None else bool(value) for value in plain] if kind == "Boolean" else plain


def key(value: Any) -> Any:
    """A value in a form in which NaN equals itself and -0.0 is not 0.0."""
    return struct.pack(">d", value) if isinstance(value, float) else value
