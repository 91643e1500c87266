"""Dates on their way from intraday to history: which step each waits for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from functools import partial

from jobs.doctor.finding import Found, Visit, each, headline, named
from store.errors import SparkhavenError
from store.layout import TableName
from store.merges import MergeRecord, all_values, newest
from store.schema.deploy import load_deployed
from store.validations import binding, load_validation


def dates(visit: Visit) -> Iterator[Found]:
    """Per table the closed dates that are not merged, not validated, or not truncated, and merges that have stopped."""
    for table in visit.tables:
        open_dates = _intraday(visit, table)
        records: dict[str, MergeRecord] = {}
        for value in all_values(visit.fs, visit.layout, table):
            try:
                done = newest(visit.fs, visit.layout, table, value)
                last = newest(visit.fs, visit.layout, table, value, complete=False)
            except (SparkhavenError, OSError) as error:
                yield "wrong", f"{table} {value}: {headline(error)}", visit.command("verify", table)
                continue
            if done is not None:
                records[value] = done
            if last is not None and not last.complete and (done is None or last.generation > done.generation):
                what = f"{table} {value}: a merge runs, or was interrupted after phase {last.phase}"
                yield "note", what, visit.command("merge", table, "--date", value)
        look = partial(_waiting, visit, table, open_dates, records)
        yield from each(table, visit.command("verify", table), look)


def _waiting(visit: Visit, table: TableName, intraday: set[str], records: Mapping[str, MergeRecord]) -> Iterator[Found]:
    today = datetime.fromtimestamp(visit.now_s, UTC).date().isoformat()
    unmerged = sorted(value for value in intraday - records.keys() if value[: len(today)] < today)
    steps: dict[str, list[str]] = {"failed": [], "unvalidated": [], "untruncated": []}
    if records:
        rules = load_deployed(visit.fs, visit.layout, table).rules
        for value, record in sorted(records.items()):
            validation = load_validation(visit.fs, visit.layout, table, record)
            if validation is None or validation.binding != binding(record, rules):
                if value in intraday:
                    steps["unvalidated"].append(value)
            elif not validation.passed:
                steps["failed"].append(value)
            elif value in intraday:
                steps["untruncated"].append(value)
    told = (
        ("note", unmerged, "closed and not merged", "merge"),
        ("wrong", steps["failed"], "merged, and their validation has failed", "validate"),
        ("note", steps["unvalidated"], "merged and not validated", "validate"),
        ("note", steps["untruncated"], "validated, and their intraday data not truncated", "truncate"),
    )
    for state, values, what, command in told:
        if values:
            text = f"{table}: {len(values):,} dates are {what}: {named(values)}"
            yield ("wrong" if state == "wrong" else "note"), text, visit.command(command, table, "--date", values[0])
    if not any(values for _, values, _, _ in told):
        yield "ok", f"{table}: {len(records):,} dates are merged, none waits", None


def _intraday(visit: Visit, table: TableName) -> set[str]:
    """Dates with rows that are not truncated."""
    return {
        key.value
        for name, _, state in visit.streams()
        if name == table and not isinstance(state, Exception)
        for key, location in state.locations.items()
        if not location.truncated and location.rows
    }
