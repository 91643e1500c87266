"""Where the rows of data frames go, and how: the options of ``jobs.frames``, checked as a stream file is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from ingest.spec import BadRowBudget, FeedSpec, StreamSpec
from jobs.stream_file import partition_of
from jobs.stream_model import BadRowsPart, PartitionPart
from store.epochs.state import Durability
from store.errors import SettingsError
from store.layout import Layout, TableName
from writers.frame_task import PositionColumns

NO_BAD_ROWS = BadRowBudget(max_rows=0, max_fraction=0.0)
Rule = str | Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class FrameOptions:
    """Where frames go and how their rows are routed."""

    root: Path
    table: TableName
    stream: str
    internal: Rule
    value: Rule
    schema: str | Path | bytes | None
    positions: Mapping[str, str] | None
    durability: Durability
    ignore: tuple[str, ...] = ()
    bounds: Mapping[str, Any] = field(default_factory=dict)
    bad_rows: Mapping[str, Any] | None = None
    keep_epochs: int = 100

    @property
    def spec(self) -> StreamSpec:
        """The settings as those of any other stream; SettingsError for what is wrong in them."""
        given = {name: {"column": rule} if isinstance(rule, str) else dict(rule) for name, rule in self._rules}
        with self._told():
            part = PartitionPart.model_validate({**given, **self.bounds})
        bad = self._bad_rows
        return StreamSpec(
            self.stream,
            str(self.table),
            FeedSpec("frame"),
            partition_of(part),
            ignore=self.ignore,
            bad_rows=BadRowBudget(bad.max_rows, bad.max_fraction) if bad is not None else NO_BAD_ROWS,
            allow_null_alias=bad is not None and bad.allow_null_alias,
        )

    @property
    def quarantine(self) -> Path | None:
        """Directory of the Delta table for rejected rows; None if there are none, and the first one stops its batch."""
        bad = self._bad_rows
        if bad is None or not (bad.max_rows and bad.max_fraction):
            return None
        return Layout(self.root).quarantine(self.stream) if bad.quarantine is None else Path(bad.quarantine).absolute()

    @property
    def _bad_rows(self) -> BadRowsPart | None:
        if self.bad_rows is None:
            return None
        given = {name: str(value) if isinstance(value, Path) else value for name, value in self.bad_rows.items()}
        with self._told():
            return BadRowsPart.model_validate(given)

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(name) for name in first["loc"])
            raise SettingsError(first["msg"], where=f"stream {self.stream}: {where}", found=first["input"]) from None

    @property
    def _rules(self) -> tuple[tuple[str, Rule], tuple[str, Rule]]:
        return ("internal", self.internal), ("value", self.value)

    @property
    def position_columns(self) -> PositionColumns | None:
        """The columns of the positions; SettingsError for other keys than theirs."""
        if self.positions is None:
            return None
        found = dict(self.positions)
        if not {"partition", "offset"} <= found.keys() <= {"partition", "offset", "topic"}:
            raise SettingsError(
                "positions need a column for the partition and one for the offset",
                where=f"stream {self.stream}",
                expected='{"partition": ..., "offset": ...}, and "topic" where there are several',
                found=found,
            )
        return PositionColumns(**found)
