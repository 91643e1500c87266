"""A data frame as the rows of an import: its files lie in the scratch directory of the table until they are merged.

The directory ``.scratch/<NS.T>/.merge`` belongs to whoever holds the table's lock: the next one removes what a killed
process left there, and so does ``clean``. Tasks write below a name of their own run, so that one that outlives its
process meets nobody.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path

import pyarrow as pa

from sparkhaven.store.digest.column_digest import add
from sparkhaven.store.errors import TableNotFoundError
from sparkhaven.store.framing.canonical import dump
from sparkhaven.store.places import TablePlace
from sparkhaven.store.scan.selection import Selection
from sparkhaven.store.types.model import TableSchema
from sparkhaven.writers.imports.foreign_values import STRICT, AllowedConversions
from sparkhaven.writers.imports.frames.frame_columns import fit_columns
from sparkhaven.writers.imports.frames.staged_rows import StagedFile, StagedShare, StagePlan
from sparkhaven.writers.imports.given_rows import ConvertedRows, Progress
from sparkhaven.writers.imports.tree_leaves import Part
from sparkhaven.writers.imports.tree_rows import parquet_rows
from sparkhaven.writers.merge.plan.merge_plan import DEFAULT_MEMORY
from sparkhaven.writers.merge.publish.staged_locations import taken_rows

SHARE = 4  # of the memory of a worker, what rows wait in


@dataclass(frozen=True, slots=True)
class FrameChoice:
    """What is taken of a frame. ``name`` and ``layout``: what errors and the merge record say of it.

    ``dates``: values and ranges that are taken (None: all), or the one date of rows that have none. ``memory``: bytes
    of a task. ``allow_missing``: no error where there are no rows, or none of a date that is named.
    """

    name: str
    layout: str = "frame"
    dates: tuple[str, ...] | None = None
    conversions: AllowedConversions = STRICT
    memory: int = DEFAULT_MEMORY
    allow_missing: bool = False


RunPlan = Callable[[StagePlan, Progress], Sequence[StagedShare]]


class FrameRows:
    """The rows of a frame, as ``GivenRows``. ``fields``: its columns; ``run`` gives rows to the tasks of a plan."""

    def __init__(
        self, place: TablePlace, schema: TableSchema, fields: pa.Schema, run: RunPlan, choice: FrameChoice
    ) -> None:
        self._place, self._schema, self._fields, self._run = place, schema, fields, run
        self._choice = choice
        self._directory: Path | None = None
        self._shares: list[StagedShare] = []

    @property
    def name(self) -> str:
        return self._choice.name

    @property
    def layout(self) -> str:
        return self._choice.layout

    def check(self) -> None:
        """Raises what ``fit_columns`` raises."""
        self._plan()

    def _plan(self) -> StagePlan:
        chosen = self._choice
        columns = fit_columns(self._fields, self._schema, chosen.dates, chosen.conversions, chosen.name)
        memory = max(chosen.memory // SHARE, 1 << 20)
        return StagePlan(self._schema, columns, chosen.dates, chosen.conversions, None, memory, chosen.name)

    def look(self, on_progress: Progress) -> list[Part]:
        return self._parts(self._plan(), on_progress)

    def take(self, on_progress: Progress) -> list[Part]:
        fs, base = self._place.fs, taken_rows(self._place)
        fs.remove_tree(base)
        self._directory = base / os.urandom(8).hex()
        fs.mkdirs(self._directory)
        with fs.during("frame-stage"):
            return self._parts(replace(self._plan(), directory=self._directory), on_progress)

    def _parts(self, plan: StagePlan, on_progress: Progress) -> list[Part]:
        self._shares = sorted(self._run(plan, on_progress), key=lambda share: share.task)
        totals: dict[str, tuple[int, int]] = {}
        for share in self._shares:
            for value, date in share.dates.items():
                rows, size = totals.get(value, (0, 0))
                totals[value] = rows + date.rows, size + date.bytes
        if not self._choice.allow_missing:
            self._require(totals)
        on_progress(f"{sum(rows for rows, _ in totals.values()):,} rows of {len(totals):,} dates read")
        return [Part(value, (), *totals[value]) for value in sorted(totals)]

    def _require(self, totals: dict[str, tuple[int, int]]) -> None:
        for date in self._choice.dates or ():
            if not any(Selection.of(date, None).takes_value(value) for value in totals):
                raise TableNotFoundError(
                    "there are no rows of this date",
                    where=self.name,
                    expected=", ".join(sorted(totals)[:5]) or "rows",
                    found=date,
                    hint="name dates that the rows have, or allow empty ones: --allow-empty on the command line",
                )
        if not totals:
            raise TableNotFoundError("there are no rows", where=self.name, expected="rows", found="none")

    def id_of(self, part: Part, *, ordered: bool) -> str:
        """Of the values of all rows, whatever tasks they came in; ``ordered``: also of their order."""
        shares = [share.dates[part.value] for share in self._shares if part.value in share.dates]
        content = [sum(share.content[word] for share in shares) % (1 << 64) for word in (0, 1)]
        columns = [[column.name, column.type.name] for column in self._schema.stored]
        said: dict[str, object] = {"rows": part.rows, "content": [f"{word:016x}" for word in content]}
        said |= {"columns": columns} | ({"sequence": [share.sequence for share in shares]} if ordered else {})
        return sha256(dump(said)).hexdigest()[:24]

    def convert(self, part: Part, directory: Path, on_progress: Progress) -> ConvertedRows:
        """The files that were written when the rows were taken."""
        del directory, on_progress
        fs, stored = self._place.fs, self._schema.stored
        files: list[StagedFile] = [f for share in self._shares for f in share.files if f.value == part.value]
        assert self._directory is not None  # noqa: S101  the rows were taken
        sources = [parquet_rows(fs, self._directory / f.directory, f.rows, f.state, stored) for f in files]
        digests = {c.name: add(*(file.digests.get(c.name, 0) for file in files)) for c in stored}
        return ConvertedRows(tuple(sources), digests)

    def release(self) -> None:
        if self._directory is not None:
            self._place.fs.remove_tree(taken_rows(self._place))
            self._directory = None
