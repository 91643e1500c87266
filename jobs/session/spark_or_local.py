"""Whether a run of all available input is worth the start of Spark: by how much waits, unless the command says it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from sparkhaven.store.types.frozen import frozen

if TYPE_CHECKING:
    from sparkhaven.ingest.feeds.base import Waiting

Where = Literal["auto", "local", "spark"]

# What one process ingests in less time than Spark takes to start, also where files are packed or rows are wide
LOCAL_BYTES = 64 << 20
LOCAL_ROWS = 500_000
LIMIT = f"{LOCAL_BYTES >> 20} MiB or {LOCAL_ROWS:,} rows"


@frozen
class RunChoice:
    """``local``: in this process; ``why`` completes a sentence."""

    local: bool
    why: str


def is_submitted(environ: Mapping[str, str]) -> bool:
    """Whether spark-submit runs this process, so that the JVM runs already."""
    return "PYSPARK_GATEWAY_PORT" in environ


def choose(where: Where, submitted: bool) -> RunChoice | None:
    """The choice that does not depend on the input; None where that decides. ``submitted``: spark-submit runs us."""
    if where != "auto":
        return RunChoice(where == "local", f"as --{where} says")
    return RunChoice(False, "spark-submit has started it") if submitted else None


def choose_by_input(waiting: Sequence[Waiting]) -> RunChoice:
    """The choice for the streams of one command, by what waits in their feeds, together."""
    shares = [_share(each) for each in waiting]
    amounts = " and ".join(each.words for each in waiting) or "nothing"
    if None in shares:
        return RunChoice(False, "a feed does not tell how much waits")
    local = sum(share for share in shares if share is not None) <= 1
    return RunChoice(local, f"{amounts} to ingest{'. Spark starts above' if local else ', more than'} {LIMIT}")


def _share(waiting: Waiting) -> float | None:
    """Part of the limit; None if the feed does not tell."""
    parts = (waiting.bytes, LOCAL_BYTES), (waiting.rows, LOCAL_ROWS)
    return max((amount / limit for amount, limit in parts if amount is not None), default=None)
