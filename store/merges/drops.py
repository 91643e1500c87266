"""Columns that a merge left out because a command had dropped them."""

from __future__ import annotations

from store.types.frozen import frozen


@frozen
class ColumnDrop:
    """A column of the sources that the outputs lack: in how many rows it had a value.

    ``digest`` is that of the column in the sources, as 32 hex digits.
    """

    id: int
    name: str
    rows: int
    digest: str
