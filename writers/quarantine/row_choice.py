"""Which rows of a quarantine are meant: of one stream, by reason, source, epoch and state."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sparkhaven.writers.quarantine.quarantine_columns import OWNER

State = Literal["all", "pending", "requeued"]
Dead = Sequence[tuple[int, int | None]]
"""Ranges of epochs: after the first, up to and including the second; None: all later."""

Mask = npt.NDArray[np.bool_]
CHOOSING = (*OWNER, "SourcePartition", "Position", "Reason", "Epoch", "RequeuedEpoch")


@dataclass(frozen=True, slots=True)
class Chosen:
    """A filter of rows, its fields joined by AND. ``source`` may have ``*``."""

    reason: str | None = None
    source: str | None = None
    epoch: int | None = None
    state: State = "all"


def owned(rows: pa.Table, owner: tuple[str, str, str]) -> Mask:
    """Which rows are of a stream, given by namespace, table and stream."""
    mask = np.ones(len(rows), np.bool_)
    for name, value in zip(OWNER, owner, strict=True):
        mask &= _equal(rows[name], value)
    return mask


def fitting(rows: pa.Table, owner: tuple[str, str, str], chosen: Chosen, dead: Dead = ()) -> Mask:
    """Which rows, with the columns ``CHOOSING``, are chosen. Rows of dead epochs are not; their requeues are void."""
    mask = owned(rows, owner)
    epochs, requeued = epochs_of(rows, "Epoch"), epochs_of(rows, "RequeuedEpoch")
    mask &= ~among(epochs, dead)
    requeued = np.where(among(requeued, dead), -1, requeued)
    if chosen.reason is not None:
        mask &= _equal(rows["Reason"], chosen.reason)
    if chosen.source is not None:
        pattern = re.compile(".*".join(map(re.escape, chosen.source.split("*"))), re.DOTALL)
        mask &= np.array([bool(pattern.fullmatch(text)) for text in rows["SourcePartition"].to_pylist()], np.bool_)
    if chosen.epoch is not None:
        mask &= epochs == chosen.epoch
    if chosen.state != "all":
        mask &= (requeued < 0) if chosen.state == "pending" else (requeued >= 0)
    return mask


def epochs_of(rows: pa.Table, name: str) -> npt.NDArray[np.int64]:
    """A column of epochs; null is -1."""
    epochs: npt.NDArray[np.int64] = pc.fill_null(rows[name], -1).to_numpy()
    return epochs


def among(epochs: npt.NDArray[np.int64], dead: Dead) -> Mask:
    """Which epochs lie in one of the ranges."""
    mask = np.zeros(len(epochs), np.bool_)
    for after, upto in dead:
        mask |= (epochs > after) if upto is None else (epochs > after) & (epochs <= upto)
    return mask


def _equal(column: pa.ChunkedArray, value: Any) -> Mask:
    mask: Mask = pc.fill_null(pc.equal(column, value), False).to_numpy()
    return mask
