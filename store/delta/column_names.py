"""Names of columns as a Delta table has them: what it stores of them may be written in other case."""

from __future__ import annotations

from collections.abc import Collection, Iterable


def own_names(written: Iterable[str], declared: Collection[str]) -> dict[str, str]:
    """By each name that a data file, or an entry of the log, has: the declared one that is equal but for case.

    A name that is declared is its own, and so is one that no column of the table has in any case.
    """
    by_case = {name.lower(): name for name in declared}
    return {name: name if name in declared else by_case.get(name.lower(), name) for name in written}
