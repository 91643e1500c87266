"""What a feed of a Delta table is: values only, which pickle."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from ingest.options.formats import CsvOptions, Limit, MissingColumns


@dataclass(frozen=True, slots=True)
class DeltaFeed:
    """A Delta table at ``path``, an absolute directory, followed by version.

    ``start_version`` None: what the table holds first, then what later versions add; else what is added from that
    version on. ``ignore_changes``: of a version that removes or rewrites rows, take the files that it adds; rows that
    it copied from files taken before then come twice. ``missing_columns``: a stored column that neither a file nor
    the table declares is refused, or null.
    """

    path: str
    start_version: int | None = None
    max_per_trigger: Limit = field(default_factory=Limit)
    ignore_changes: bool = False
    missing_columns: MissingColumns = "fail"

    @property
    def format(self) -> Literal["parquet"]:
        """Of the data files; Delta has no other."""
        return "parquet"

    @property
    def csv(self) -> CsvOptions:
        """Of no meaning here."""
        return CsvOptions()
