"""Reading of tables: Arrow, checks, and inspection of files. ``open_table`` is the entry point."""

from sparkhaven.readers.arrow.opening import open_table
from sparkhaven.readers.arrow.snapshot import Snapshot

__all__ = ["Snapshot", "open_table"]
