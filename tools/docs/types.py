"""Column types that a schema may use and that are stored, from the table of types."""

from __future__ import annotations

from sparkhaven.store.types.datatypes import TYPES, DataType
from tools.docs.markdown import code, table


def type_table() -> str:
    """Spellings, bytes a row, null, and the Arrow type that readers hand out."""
    head = ("type", "other spellings", "bytes a row", "null", "Arrow")
    return table(head, (_row(kind) for kind in TYPES if kind.stored))


def _row(kind: DataType) -> tuple[str, str, str, str, str]:
    spellings = ", ".join(code(spelling) for spelling in kind.spellings if spelling != kind.name)
    width = str(kind.width) if kind.width else "4 (symbol), 8 (blob)"
    null = "" if kind.null is None else code(kind.null)
    return code(kind.name), spellings, width, null, code(kind.arrow)
