"""Names of fields as names of columns: ASCII identifiers, each once, also for tools that ignore case."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

from sparkhaven.store.layout import MAX_NAME

_RESERVED = re.compile(
    "i|ii|k|in|not|null|true|false|ignore|abstract|assert|boolean|break|byte|case|catch|char|class|const|continue|default"
    "|do|double|else|enum|extends|final|finally|float|for|goto|if|implements|import|instanceof|int|interface|long|native"
    "|new|package|private|protected|public|return|short|static|strictfp|super|switch|synchronized|this|throw|throws"
    "|transient|try|void|volatile|while"
)
"""Names that queries of Deephaven (Java) or a stream file have taken."""

_DOT = re.compile(r"(?<!\\)\.")


def column_names(sources: Iterable[str], taken: Iterable[str]) -> dict[str, str]:
    """A column name for each field. Levels of objects are joined by ``__``; ``taken`` are names of other columns."""
    used = {name.lower() for name in taken}
    names: dict[str, str] = {}
    for source in sources:
        wanted = name = _legal(source)
        number = 2
        while name.lower() in used:
            name = f"{wanted}_{number}"
            number += 1
        used.add(name.lower())
        names[source] = name
    return names


def identifier(text: str) -> str:
    """A text as a name for a table or a column."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode("ascii")
    name = re.sub(r"[^A-Za-z0-9_]+", "_", plain if plain.strip() else "_")[: MAX_NAME - 20]
    return f"_{name}" if name[:1].isdigit() else name


def _legal(source: str) -> str:
    parts = [part.replace("\\.", ".") for part in _DOT.split(source)]
    name = "__".join(identifier(part) for part in parts)[: MAX_NAME - 10]
    if not name.strip("_"):
        name = "field"
    return f"{name}_" if _RESERVED.fullmatch(name) else name
