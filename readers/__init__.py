"""Reading of tables: Arrow, checks, and inspection of files. ``open_table`` is the entry point."""

from sparkhaven.readers.arrow.opening import open_table
from sparkhaven.readers.arrow.table import Table

__all__ = ["Table", "open_table"]
