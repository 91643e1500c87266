"""What a data frame is as a feed: values only, which pickle."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sparkhaven.ingest.spec.payload_formats import FILE_META, Traits


@dataclass(frozen=True, slots=True, eq=False)
class FrameBatch:
    """A batch of rows of a task: the split of a frame carries its rows.

    ``origin`` and ``numbers`` (in ``unit``) say where they come from; numbers may repeat.
    """

    rows: pa.RecordBatch
    origin: str
    numbers: npt.NDArray[np.int64]
    unit: Literal["row", "offset"]

    @property
    def path(self) -> str:
        return self.origin


@dataclass(frozen=True, slots=True)
class FramesOptions:
    """Rows that a query of the user's hands over. ``allow_gap``: offsets between batches may be missing.

    ``lossy``: columns of the table that take the nearest value of a number; True: every float and double.
    """

    traits: ClassVar[Traits] = Traits("frames", FrameBatch, "rows", FILE_META, ("file",))

    allow_gap: bool = False
    lossy: tuple[str, ...] | bool = ()

    @property
    def path(self) -> str:
        return "a data frame"
