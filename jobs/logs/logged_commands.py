"""Which calls of the command line are logged. Imports nothing: every command asks."""

from __future__ import annotations

from collections.abc import Sequence

LOGGED = frozenset(
    {("merge",), ("validate",), ("truncate",), ("delete",), ("delete-rows",), ("clean",), ("import",), ("recover",)}
    | {("epochs", "rollback"), ("epochs", "undo"), ("streams", "remove")}
    | {("quarantine", "requeue"), ("quarantine", "drop")}
    | {("checkpoint", "repair"), ("partitions", "add"), ("schema", "deploy"), ("metadata", "update")}
    | {("dates", "drop"), ("dates", "expire"), ("dates", "move"), ("snapshot",), ("restore",)}
    | {("rewrite-column",), ("partitions", "roll")}
)
CHANGE_NOTHING = frozenset({"-h", "--help", "--status"})
DRY_RUN = "--dry-run"  # is logged as such


def logged_command(words: Sequence[str]) -> str | None:
    """The name of a command that is logged; None for one that is not. A log table's own commands are not."""
    path = next((tuple(words[:count]) for count in (2, 1) if tuple(words[:count]) in LOGGED), None)
    if path is None or CHANGE_NOTHING & set(words) or any(word.startswith("SparkhavenInternal.") for word in words):
        return None
    return " ".join(path)
