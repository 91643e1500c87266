"""What a page shows, as frozen values. Times are milliseconds since the epoch, lengths of time seconds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from sparkhaven.jobs.doctor.finding import DoctorFinding
from sparkhaven.store.types.frozen import frozen

TIERS = ("intraday", "merged", "validated", "truncated")
"""How far a date has come, from the first step to the last."""


@frozen
class EpochFacts:
    """One epoch. ``seconds``: since the live epoch before; ``lag``: age of its oldest file when it was committed.

    Both are None where they are not known. ``rejected``: rows by reason code.
    """

    epoch: int
    kind: str
    live: bool
    time_ms: int
    rows: int
    seconds: float | None = None
    lag: float | None = None
    rejected: Mapping[str, int] = field(default_factory=dict)


@frozen
class StreamFacts:
    """One stream, with the epochs that its log keeps, oldest first. ``waiting``: input at its source, in words.

    ``remarks``: what of that input a person should look at, as files that are too old to be ingested.
    """

    name: str
    epoch: int
    floor: int
    durability: str
    epochs: tuple[EpochFacts, ...] = ()
    waiting: str | None = None
    remarks: tuple[str, ...] = ()


@frozen
class Cell:
    """Rows of one source, which is an internal partition, on one date; ``tier`` is one of ``TIERS``."""

    date: str
    source: str
    rows: int
    tier: str


@frozen
class SymbolFacts:
    """The symbol tables of a column: entries and rows by date, summed over locations."""

    column: str
    dates: tuple[tuple[str, int, int], ...]

    @property
    def ids(self) -> int:
        return sum(ids for _, ids, _ in self.dates)

    @property
    def rows(self) -> int:
        return sum(rows for _, _, rows in self.dates)


@frozen
class VolumeFacts:
    """Bytes of all files on a volume, and of those that no read needs."""

    name: str
    used: int
    waste: int


@frozen
class QuarantineFacts:
    """Pending rows of a stream by reason. ``unread``: why they were not counted."""

    stream: str
    pending: Mapping[str, int] = field(default_factory=dict)
    unread: str | None = None


@frozen
class ErrorFacts:
    """Something that went wrong; ``time_ms`` is None where it is not known. Never has values or payloads of rows."""

    time_ms: int | None
    where: str
    what: str


@frozen
class TableFacts:
    """One table. ``unlisted``: directories and leaves whose waste was not measured."""

    name: str
    streams: tuple[StreamFacts, ...] = ()
    cells: tuple[Cell, ...] = ()
    symbols: tuple[SymbolFacts, ...] = ()
    volumes: tuple[VolumeFacts, ...] = ()
    unlisted: int = 0
    quarantine: tuple[QuarantineFacts, ...] = ()
    errors: tuple[ErrorFacts, ...] = ()

    @property
    def newest_ms(self) -> int:
        """The time of the newest epoch that is kept; 0 without one."""
        return max((epoch.time_ms for stream in self.streams for epoch in stream.epochs), default=0)


@frozen
class PageFacts:
    """All of a page. ``commands`` start with ``command``, the program with its root.

    ``others``: tables that were left out because the page has so many already.
    """

    root: str
    command: str
    now_ms: int
    hours: float
    tables: tuple[TableFacts, ...] = ()
    others: tuple[str, ...] = ()
    findings: tuple[DoctorFinding, ...] = ()
