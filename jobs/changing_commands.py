"""Which commands change a database. Imports nothing: every command asks.

A command that is not named here changes it. So a new one is refused in a root that is never written, and is a row of
the log tables, unless somebody puts it here.
"""

from __future__ import annotations

from collections.abc import Sequence

READ_ONLY = frozenset(
    {"read", "sql", "serve", "page", "tables", "stats", "symbols", "doctor", "verify", "scrub", "compare", "inspect"}
    | {"export", "snapshot", "mirror", "jars", "class-archive"}  # write elsewhere
    | {"epochs list", "epochs show", "streams list", "quarantine list", "partitions list"}
    | {"metadata list", "metadata validate"}
    | {"schema check", "schema show", "schema history", "schema diff"}
    | {"schema infer", "schema new", "schema from-tbl"}  # write a schema file, which is deployed later
)
DRY_IN_COPIES = frozenset({"validate", "recover"})  # look at a copy, and store nothing there
LOGGED_TOO = frozenset({"snapshot"})
OWN_ROWS = frozenset({"ingest"})  # its streams write the log tables themselves
CHANGE_NOTHING = frozenset({"-h", "--help", "--status"})
DRY_RUN = "--dry-run"  # is refused and logged like what it announces


def changes(command: str, words: Sequence[str]) -> bool:
    """Whether a command may change a database, called with these words."""
    return bool(command) and command not in READ_ONLY and not CHANGE_NOTHING & set(words)


def is_logged(command: str, words: Sequence[str]) -> bool:
    """Whether it is a row of the log tables. A log table's own commands are not."""
    logged = command in LOGGED_TOO or (changes(command, words) and command not in OWN_ROWS)
    return logged and not any(word.startswith("SparkhavenInternal.") for word in words)
