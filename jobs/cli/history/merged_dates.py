"""What the command ``merge`` prints: a result a date, and what a person has to know of it."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator

from sparkhaven.jobs.cli.context import CliContext, error_json
from sparkhaven.store.errors import EXIT_DONE, SparkhavenError
from sparkhaven.store.io.system_errors import as_ours
from sparkhaven.store.layout import TableName
from sparkhaven.writers.merge.date_result import DateResult, MergeOutcome
from sparkhaven.writers.merge.plan.merge_pins import after_sync


def show_dates(cli: CliContext, name: str, results: Iterable[DateResult], dry_run: bool) -> int:
    """Prints one result a date as it comes; the exit code is that of the first error."""
    code, rows, seconds, dates = EXIT_DONE, 0, 0.0, 0
    begun = time.monotonic()
    for merged in results:
        rows += merged.rows_in if dry_run else merged.rows_out
        dates, seconds = dates + 1, time.monotonic() - begun
        parts = ", ".join(f"{internal} {n:,}" if n else internal for internal, n in merged.destinations)
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
        }
        if merged.error is not None:
            failed = as_ours(merged.error)
            code = code or failed.exit_code
            cli.note(f"{merged.value}: {failed}")
            record["error"] = error_json(failed)
        if merged.clean_error is not None:
            record["clean_error"] = error_json(as_ours(merged.clean_error))
        cli.result(record, f"{merged.value}: {_sentence(merged, parts)}")
        if merged.clean_error is not None:
            cli.note(_left_behind(name, merged, as_ours(merged.clean_error)))
        if merged.waiting and merged.error is None:
            left_out = f"{merged.waiting:,} rows are not synced to disk yet and are left out"
            cli.note(f"{merged.value}: {left_out}. To do: {after_sync(TableName.parse(name))}, then merge again")
        if merged.intraday and merged.error is None:
            stay = "stay there: reads show them too, and the next merge adds them"
            cli.note(f"{merged.value}: {merged.intraday:,} rows of this date are intraday, not merged, and {stay}")
    cli.note(f"{dates:,} dates, {rows:,} rows{' to merge (dry run)' if dry_run else ''} in {seconds:.1f} s")
    return code


def noted(results: Iterable[DateResult], done: set[str], stop_on_error: bool = False) -> Iterator[DateResult]:
    """The results, up to the first error with ``stop_on_error``; dates without one are added to ``done``."""
    for result in results:
        if result.error is None:
            done.add(result.value)
        yield result
        if stop_on_error and result.error is not None:
            return


def _left_behind(name: str, merged: DateResult, error: SparkhavenError) -> str:
    state = "the merge failed, and files of it" if merged.error is not None else "is published, but files of a merge"
    return (
        f"{merged.value}: {state} could not be removed ({error}). No row is affected. End the cause, then"
        f" `sparkhaven merge {name} --dates {merged.value}` removes them"
    )


def _sentence(merged: DateResult, parts: str) -> str:
    if merged.outcome is MergeOutcome.NOTHING:
        return "merged before, nothing new"
    order = f", sorted by {', '.join(merged.sort)}" if merged.sort else ""
    if merged.format in ("parquet", "both"):
        order += ", as Parquet" if merged.format == "parquet" else ", as column files and Parquet"
    if merged.withdrawn:
        order += f", without {merged.withdrawn:,} withdrawn rows"
    if duplicates := merged.left_out - merged.withdrawn:
        order += f", without {duplicates:,} duplicates ({merged.identical:,} of them equal to a kept row)"
    if merged.corrections:
        names = ", ".join(sorted({correction.name for correction in merged.corrections}))
        order += f", {names} as rewrite-column has changed {'it' if ',' not in names else 'them'}"
    if merged.drops:
        order += f", without {', '.join(f'{name} ({rows:,} rows with values)' for name, rows in merged.drops)}"
    if merged.outcome is MergeOutcome.PLANNED:
        return f"would merge {merged.rows_in:,} rows" + (f" to {parts}" if parts else "") + order
    if merged.outcome is MergeOutcome.FILLED:
        return f"filled: an empty location in {parts}"
    if merged.outcome in (MergeOutcome.EMPTY, MergeOutcome.FAILED):
        return merged.outcome
    return f"{merged.outcome}, {merged.rows_out:,} rows to {parts or 'nowhere'}{order}"
