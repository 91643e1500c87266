"""Reading of tables: Arrow, checks, and looks into files. ``open_table`` is the door."""

from readers.arrow.opening import open_table
from readers.arrow.table import Table

__all__ = ["Table", "open_table"]
