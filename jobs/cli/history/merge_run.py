"""What ``merge`` and ``import`` say of each date."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from sparkhaven.jobs.cli.context import CliContext, error_json
from sparkhaven.jobs.operations.merging import MergeJob, days_without_history
from sparkhaven.store.errors import EXIT_BAD_DATA, SparkhavenError, TableNotFoundError, counted, counted_with
from sparkhaven.store.io.system_errors import as_ours
from sparkhaven.writers.merge.date_result import DateResult, MergeOutcome
from sparkhaven.writers.merge.plan.merge_pins import after_sync

SHOWN = 20


def show_nothing(cli: CliContext, job: MergeJob, error: TableNotFoundError) -> None:
    """Says why no date was merged, where that is no error."""
    why = f"{error.what}: expected {error.expected}, found {error.found}"
    cli.note(f"0 dates merged ({why})")
    nothing = {
        "table": job.name,
        "outcome": MergeOutcome.NOTHING,
        "dates": 0,
        "message": why,
        "dry_run": job.run.dry_run,
    }
    cli.result(nothing, "nothing to merge")


def show_dates(
    cli: CliContext,
    job: MergeJob,
    results: Iterable[DateResult],
    more: Callable[[DateResult], Mapping[str, object]] = lambda _: {},
) -> None:
    """Prints one result a date as it comes, with ``more`` members; the exit code is that of the first error."""
    name, dry_run = job.name, job.run.dry_run
    rows, seconds, dates = 0, 0.0, 0
    begun = time.monotonic()
    for merged in results:
        rows += merged.rows_in if dry_run else merged.rows_out
        dates, seconds = dates + 1, time.monotonic() - begun
        record = {
            "table": name,
            "date": merged.value,
            "outcome": merged.outcome,
            "phase": merged.phase,
            "rows_in": merged.rows_in,
            "rows_out": merged.rows_out,
            "destinations": {internal: None if dry_run else n for internal, n in merged.destinations},
            "generation": merged.generation,
            "sort": list(merged.sort),
            "format": merged.format,
            "distribution": merged.distribution,
            "columns_dropped": dict(merged.drops),
            "columns_corrected": sorted({correction.name for correction in merged.corrections}),
            "rows_dropped": merged.left_out,
            "rows_identical": merged.identical,
            "rows_withdrawn": merged.withdrawn,
            "waiting_rows": merged.waiting,
            "intraday_rows": merged.intraday,
            "seconds": round(merged.seconds, 3),
            "phase_ms": dict(merged.phase_ms),
            "dry_run": dry_run,
            **more(merged),
        }
        if merged.error is not None:
            record["error"] = cli.failed(merged.value, merged.error)
        if merged.clean_error is not None:
            record["clean_error"] = error_json(as_ours(merged.clean_error))
        cli.result(record, f"{merged.value}: {_sentence(merged)}")
        if merged.clean_error is not None:
            cli.note(_left_behind(name, merged, as_ours(merged.clean_error)))
        if merged.waiting and merged.error is None:
            left_out = counted_with(merged.waiting, "row", "are not synced to disk yet and are left out")
            cli.note(f"{merged.value}: {left_out}. To do: {after_sync(job.place.table)}, then merge again")
        if merged.intraday and merged.error is None:
            there = f"intraday still has {counted(merged.intraday, 'row')} of this date, not merged"
            cli.note(f"{merged.value}: {there}. Reads show these too, and the next merge adds them")
    planned = " to merge (dry run)" if dry_run else ""
    cli.note(f"{counted(dates, 'date')}, {counted(rows, 'row')}{planned} in {seconds:.1f} s")


def _left_behind(name: str, merged: DateResult, error: SparkhavenError) -> str:
    state = "the merge failed, and files of it" if merged.error is not None else "is published, but files of a merge"
    return (
        f"{merged.value}: {state} could not be removed ({error}). No row is affected. End the cause, then"
        f" `sparkhaven merge {name} --dates {merged.value}` removes them"
    )


def _sentence(merged: DateResult) -> str:
    if merged.outcome in (MergeOutcome.NOTHING, MergeOutcome.UNCHANGED):
        return f"{'merged' if merged.outcome is MergeOutcome.NOTHING else 'imported'} before, nothing new"
    if merged.outcome in (MergeOutcome.EMPTY, MergeOutcome.FAILED):
        return merged.outcome
    partitions = _partitions(merged.destinations)
    if merged.outcome is MergeOutcome.FILLED:
        return f"filled: an empty location in {partitions}"
    rows = counted(merged.rows_in if merged.outcome is MergeOutcome.PLANNED else merged.rows_out, "row")
    return _VERBS[merged.outcome].format(rows) + (f" into {partitions}" if partitions else "") + _details(merged)


_VERBS = {
    MergeOutcome.PLANNED: "would merge {}",
    MergeOutcome.MERGED: "merged {}",
    MergeOutcome.SUPPLEMENT: "merged {} that came later",
    MergeOutcome.REWRITTEN: "merged {} again",
    MergeOutcome.IMPORTED: "imported {}",
    MergeOutcome.REPLACED: "imported {} in place of history",
    MergeOutcome.UPSERTED: "imported, {} together with history",
    MergeOutcome.RESUMED: "finished an interrupted merge of {}",
}


def _partitions(destinations: Sequence[tuple[str, int]]) -> str:
    """Where rows went; with their numbers if that is several partitions."""
    if len(destinations) == 1:
        return f"partition {destinations[0][0]}"
    return ", ".join(f"partition {name} ({rows:,})" if rows else f"partition {name}" for name, rows in destinations)


def _details(merged: DateResult) -> str:
    parts = [f"sorted by {', '.join(merged.sort)}"] if merged.sort else []
    if merged.format in ("parquet", "both"):
        parts.append("as Parquet" if merged.format == "parquet" else "as column files and Parquet")
    if merged.withdrawn:
        parts.append(f"without {counted(merged.withdrawn, 'withdrawn row')}")
    if duplicates := merged.left_out - merged.withdrawn:
        equal = f"{merged.identical:,} of them equal to a kept row"
        parts.append(f"without {counted(duplicates, 'duplicate')} ({equal})")
    if merged.corrections:
        names = ", ".join(sorted({correction.name for correction in merged.corrections}))
        parts.append(f"{names} as rewrite-column has changed {'it' if ',' not in names else 'them'}")
    if merged.drops:
        dropped = ", ".join(f"{name} ({counted(rows, 'row')} with values)" for name, rows in merged.drops)
        parts.append(f"without {dropped}")
    return "".join(f", {part}" for part in parts)


def report_missing(cli: CliContext, job: MergeJob, done: Collection[str]) -> None:
    """Says which of the named days have no history in the end, which is the exit code then.

    ``done``: dates without an error, which a dry run would have merged.
    """
    missing = days_without_history(job.place, job.days, done if job.run.dry_run else ())
    if not missing:
        return
    more = f" and {len(missing) - SHOWN:,} more" if len(missing) > SHOWN else ""
    text = f"{counted(len(missing), 'day')} without history: {', '.join(missing[:SHOWN])}{more}"
    record = {"table": job.name, "outcome": "missing", "dates": list(missing), "dry_run": job.run.dry_run}
    cli.result(record, text)
    cli.note("merge with --fill-missing writes an empty location for each of them")
    cli.code = EXIT_BAD_DATA
