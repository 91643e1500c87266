"""What a feed of a Delta table is: values only, which pickle."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from sparkhaven.ingest.spec.payload_formats import FILE_META, FILES, Limit, MissingColumns, Traits
from sparkhaven.store.epochs.state.log_values import OffsetRange


@dataclass(frozen=True, slots=True)
class DeltaOptions:
    """A Delta table at ``path``, an absolute directory, followed by version.

    ``start_version`` None: what the table holds first, then what later versions add; else what is added from that
    version on. ``ignore_changes``: of a version that removes or rewrites rows, take the files that it adds; rows that
    it copied from files taken before then come twice. ``missing_columns``: a stored column that neither a file nor
    the table declares is refused, or null. ``binary_as_text`` takes columns of bytes for texts.
    """

    traits: ClassVar[Traits] = Traits("delta", OffsetRange, FILES, FILE_META, ("file",))

    path: str
    start_version: int | None = None
    max_per_trigger: Limit = field(default_factory=Limit)
    ignore_changes: bool = False
    missing_columns: MissingColumns = "fail"
    binary_as_text: bool = False
