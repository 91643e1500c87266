"""What a page shows, as frozen values. Times are milliseconds since the epoch, lengths of time seconds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sparkhaven.jobs.monitor.dates import Cell
from sparkhaven.jobs.monitor.doctor.finding import DoctorFinding
from sparkhaven.jobs.monitor.rejected import PendingRows
from sparkhaven.jobs.monitor.storage import VolumeUse
from sparkhaven.jobs.monitor.streams import StreamFacts
from sparkhaven.jobs.monitor.symbols import SymbolSizes


@dataclass(frozen=True, slots=True)
class PageWaiting:
    """Input at the source of a stream in words, and what of it a person should look at."""

    words: str
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ErrorFacts:
    """Something that went wrong; ``time_ms`` is None where it is not known. Never has values or payloads of rows."""

    time_ms: int | None
    where: str
    what: str


@dataclass(frozen=True, slots=True)
class PageTable:
    """One table. ``waiting``: by stream, of those whose stream file was named. ``unlisted``: directories and leaves
    whose waste was not measured. ``rejected``: pending rows by stream.
    """

    name: str
    streams: tuple[StreamFacts, ...] = ()
    waiting: Mapping[str, PageWaiting] = field(default_factory=dict)
    cells: tuple[Cell, ...] = ()
    symbols: tuple[SymbolSizes, ...] = ()
    volumes: Mapping[str, VolumeUse] = field(default_factory=dict)
    unlisted: int = 0
    rejected: Mapping[str, PendingRows] = field(default_factory=dict)
    errors: tuple[ErrorFacts, ...] = ()


@dataclass(frozen=True, slots=True)
class PageFacts:
    """All of a page. ``commands`` start with ``command``, the program with its root.

    ``others``: tables that were left out because the page has so many already.
    """

    root: str
    command: str
    now_ms: int
    hours: float
    tables: tuple[PageTable, ...] = ()
    others: tuple[str, ...] = ()
    findings: tuple[DoctorFinding, ...] = ()
