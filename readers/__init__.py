"""Reading of tables: Arrow, checks, and looks into files. ``open_table`` is the door."""

from readers.arrow.table import Table, open_table

__all__ = ["Table", "open_table"]
