"""Reads a table over and over while others break its writer: ``python -m tests.crash.chaos.reader ROOT [REST]``.

Each snapshot must be whole epochs: in every location exactly the rows of the offsets that the commit log's epochs up to
the pinned one have taken, in order, none twice, and never fewer than before. One line of JSON for each look on standard
output: epoch, rows, and what was wrong. A line on standard input, or its end, asks it to stop.
"""

from __future__ import annotations

import json
import select
import sys
import time
import traceback
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparkhaven.readers import open_table
from sparkhaven.readers.arrow.snapshot import Snapshot
from sparkhaven.store.epochs.reading.stream_state import list_epochs, load_stream
from sparkhaven.store.epochs.state.log_values import OffsetRange
from sparkhaven.store.errors import TableNotFoundError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout
from sparkhaven.store.places import StreamPlace
from tests.crash.chaos.topic import DAYS, EVERY_NULL, PARTITIONS, STREAM, SYMBOLS, TABLE, TOPIC, offsets_of

LOST, DOUBLED, TORN = "lost", "doubled", "torn"
REST = 2.0  # pauses for so many times as long as a look took, so that two cores have room for what is looked at

Positions = dict[int, int]  # of each partition: the offset after the last that was taken
Location = tuple[int, str]  # partition and date
Finding = tuple[str, str]  # lost, doubled or torn; and what exactly

LOCATIONS: list[Location] = [(partition, day) for partition in range(PARTITIONS) for day in DAYS]


@dataclass(slots=True)
class Ledger:
    """What each epoch has taken, put together from the records of the log, apart from the states that it keeps."""

    ends: dict[int, Positions] = field(default_factory=lambda: {0: dict.fromkeys(range(PARTITIONS), 0)})

    def add(self, epoch: int, ranges: Sequence[OffsetRange], start: Positions | None = None) -> list[Finding]:
        """An epoch that follows the last one; with ``start`` those between are not known any more."""
        if start is not None:
            self.ends[epoch - 1] = start
        elif epoch != max(self.ends) + 1:
            return [(LOST, f"epoch {epoch} follows epoch {max(self.ends)} in the log")]
        now = dict(self.ends[epoch - 1])
        found = []
        for part in ranges:
            if part.start != now[part.partition]:
                kind = DOUBLED if part.start < now[part.partition] else LOST
                found.append((kind, f"epoch {epoch} takes {part} after offset {now[part.partition]}"))
            now[part.partition] = part.stop
        self.ends[epoch] = now
        return found


def location_findings(place: str, ids: np.ndarray, wanted: np.ndarray, before: np.ndarray) -> list[Finding]:
    """``ids`` of a location against those that its epochs took; ``before`` are those of all epochs but the last."""
    if len(ids) == len(wanted) and bool((ids == wanted).all()):
        return []
    if len(np.unique(ids)) < len(ids):
        return [(DOUBLED, f"{place}: {len(ids) - len(np.unique(ids))} ids are there twice")]
    missing = np.setdiff1d(before, ids)
    if len(missing):
        return [(LOST, f"{place}: {len(missing)} rows of older epochs are missing, first id {missing[0]}")]
    return [(TORN, f"{place}: {len(ids)} rows, or in another order, where the epochs have {len(wanted)}")]


def column_findings(place: str, rows: pa.Table) -> list[Finding]:
    """Columns of a row that do not belong together: part of another row, or of none."""
    ids = rows["Id"].to_numpy()
    if not len(ids):
        return []
    found = []
    if not (rows["At"].to_numpy() == ids // PARTITIONS).all():
        found.append("At")
    symbols = pc.utf8_slice_codeunits(rows["Sym"].cast(pa.string()), 1).cast(pa.int64()).to_numpy()
    if not (symbols == ids % SYMBOLS).all():
        found.append("Sym")
    texts = pc.utf8_slice_codeunits(rows["Text"].cast(pa.string()), 5).cast(pa.int64()).fill_null(-1).to_numpy()
    if not (texts == np.where(ids % EVERY_NULL == 0, -1, ids)).all():
        found.append("Text")
    return [(TORN, f"{place}: values of another row in {', '.join(found)}")] if found else []


def table_findings(
    table: Snapshot, ends: Positions, before: Positions, whole: Collection[Location]
) -> tuple[int, list[Finding]]:
    """The rows of a snapshot, and all that is wrong with them; of locations in ``whole`` every column is compared."""
    found: list[Finding] = []
    rows = 0
    days, sources = table.dates(), table.sources()
    for partition, day in LOCATIONS:
        place = f"{day} partition {partition}"
        if day not in days or str(partition) not in sources:
            nothing = offsets_of(day, ends[partition])
            found += location_findings(place, nothing[:0], nothing, offsets_of(day, before[partition]))
            continue
        columns = ["Id", "Sym", "Text", "At"] if (partition, day) in whole else ["Id"]
        part = table.to_arrow(columns, sources=str(partition), dates=day)
        rows += part.num_rows
        wanted, older = (offsets_of(day, at[partition]) * PARTITIONS + partition for at in (ends, before))
        wrong = location_findings(place, part["Id"].to_numpy(), wanted, older)
        if not wrong and len(columns) > 1:
            wrong = column_findings(place, part)
        found += wrong
    return rows, found


@dataclass(slots=True)
class Reader:
    """Looks at one table from time to time."""

    root: Path
    ledger: Ledger = field(default_factory=Ledger)
    epoch: int = 0
    rows: int = 0
    looks: int = 0

    def look(self, *, whole: bool = False) -> dict[str, object]:
        """One snapshot, opened, compared and reported. All columns of two locations in turns, or ``whole``."""
        self.looks += 1
        try:
            table = open_table(self.root, str(TABLE))
        except TableNotFoundError:
            if self.epoch:
                raise
            return {"epoch": 0, "rows": 0, "bad": []}
        epoch = table.epochs.get(STREAM, 0)
        found = self._listen(epoch)
        ends = self.ledger.ends[epoch]
        turn = [LOCATIONS[(self.looks + half) % len(LOCATIONS)] for half in (0, len(LOCATIONS) // 2)]
        rows, wrong = table_findings(table, ends, self.ledger.ends.get(epoch - 1, ends), LOCATIONS if whole else turn)
        found += wrong
        if epoch < self.epoch or rows < self.rows:
            found.append((LOST, f"epoch {epoch} with {rows} rows after epoch {self.epoch} with {self.rows}"))
        self.epoch, self.rows = epoch, rows
        return {"epoch": epoch, "rows": rows, "bad": found}

    def _listen(self, epoch: int) -> list[Finding]:
        """Takes the log's records up to an epoch into the ledger."""
        fs, layout, found = Fs(), Layout(self.root), []
        if epoch <= max(self.ledger.ends):
            return []
        entries = [
            entry
            for entry in list_epochs(StreamPlace(fs, layout, TABLE, STREAM))
            if entry.kind == "commit" and entry.live
        ]
        for entry in entries:
            if max(self.ledger.ends) < entry.epoch <= epoch:
                gone = entry is entries[0] and entry.epoch > max(self.ledger.ends) + 1  # compacted while we slept
                found += self.ledger.add(
                    entry.epoch, entry.ranges, committed(self.root, entry.epoch - 1) if gone else None
                )
        for old in sorted(self.ledger.ends)[:-200]:
            del self.ledger.ends[old]
        return found


def committed(root: Path, epoch: int | None = None) -> Positions:
    """The positions that the log keeps of an epoch."""
    known: Mapping[str, int] = load_stream(
        StreamPlace(Fs(), Layout(root), TABLE, STREAM), epoch=epoch
    ).offsets.positions()
    return {partition: known.get(f"{TOPIC}/{partition}", 0) for partition in range(PARTITIONS)}


def main(root: Path, rest: float = REST) -> None:
    """Looks until it is asked to stop."""
    reader = Reader(root)
    stopping = False
    while True:  # one look more after the word to stop: that of the end
        started = time.monotonic()
        try:
            said = reader.look(whole=stopping)
        except Exception as error:
            text = "".join(traceback.format_exception(error)[-4:])
            said = {"epoch": reader.epoch, "rows": reader.rows, "bad": [(TORN, text)]}
        print(json.dumps(said), flush=True)
        if stopping:
            return
        pause = max(0.05, rest * (time.monotonic() - started))
        stopping = bool(select.select([sys.stdin], [], [], pause)[0])


if __name__ == "__main__":
    main(Path(sys.argv[1]), *map(float, sys.argv[2:]))
