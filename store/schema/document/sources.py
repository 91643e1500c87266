"""``ImportSource`` blocks: how a source's fields come to the columns of a table."""

from __future__ import annotations

from dataclasses import dataclass, field

from store.errors import UnsupportedVersionError


@dataclass(frozen=True, slots=True)
class ImportColumn:
    """Mapping of one column; ``refused`` names attributes that are kept but not offered (formula, class, ...)."""

    name: str
    source_name: str | None = None
    source_type: str | None = None
    default: str | None = None
    refused: tuple[str, ...] = ()

    def check_usable(self, where: object) -> None:
        """Raises UnsupportedVersionError if the mapping needs what this release does not do."""
        if self.refused:
            raise UnsupportedVersionError(
                f"ImportColumn {self.name} uses what this release does not do",
                where=where,
                expected="name, sourceName, sourceType, default",
                found=", ".join(self.refused),
                hint="compute the value before it reaches the feed, or remove the attribute",
            )


@dataclass(frozen=True, slots=True)
class ImportSource:
    """One block: type of the source, optional name, mappings by column."""

    type: str
    name: str | None
    columns: dict[str, ImportColumn] = field(default_factory=dict)
    array_delimiter: str | None = None
    max_error: str | None = None

    @property
    def sources(self) -> dict[str, str]:
        """Column -> source name, where they differ by a mapping."""
        return {name: c.source_name for name, c in self.columns.items() if c.source_name is not None}
