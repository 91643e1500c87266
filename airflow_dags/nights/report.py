"""The report of a run: one line a night, as Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .results import Result

STEPS = ("wait", "merge", "validate", "publish", "truncate", "grace", "delete")
AFTER = ("expire", "snapshot")  # tasks of a table after its nights
DATES = "dates"  # the task that finds out which nights there are
BAD = ("failed", "upstream_failed")


@dataclass(frozen=True, slots=True)
class Night:
    """One table and date. ``states`` and ``results`` by step; a step that did not run has neither."""

    table: str
    date: str
    states: Mapping[str, str]
    results: Mapping[str, Result]

    @property
    def failed(self) -> str | None:
        """The first step that failed."""
        return next((step for step in (DATES, *STEPS, *AFTER) if self.states.get(step) == "failed"), None)

    @property
    def bad(self) -> bool:
        """Whether a step failed or could not run because of one."""
        return any(state in BAD for state in self.states.values())

    @property
    def outcome(self) -> str:
        """In a few words."""
        if self.bad:
            return f"FAILED at {self.failed}" if self.failed else "FAILED"
        merged = str(self.results.get("merge", {}).get("outcome", ""))
        if self.states.get("publish") == "success":
            return {"nothing": "merged before"}.get(merged, merged) or "done"
        return merged or next((f"{step}: {state}" for step, state in self.states.items()), "not run")


def nights(
    table: str,
    label: str,
    dates: Sequence[str],
    states: Mapping[str, str | None],
    results: Mapping[str, Sequence[object]],
) -> list[Night]:
    """The nights of one table. ``states`` by ``label.night.step_index``, as Airflow gives them; ``results`` by step."""
    if states.get(f"{label}.{DATES}") in BAD:
        return [Night(table, "-", {DATES: str(states[f"{label}.{DATES}"])}, {})]
    nights_ = []
    for index, date in enumerate(dates):
        step_states = {step: str(states.get(f"{label}.night.{step}_{index}") or "") for step in STEPS}
        step_results = {
            step: value
            for step, values in results.items()
            if index < len(values) and isinstance(value := values[index], Mapping)
        }
        nights_.append(Night(table, date, {step: state for step, state in step_states.items() if state}, step_results))
    after = {step: str(states[f"{label}.{step}"]) for step in AFTER if states.get(f"{label}.{step}") == "failed"}
    return [*nights_, Night(table, "-", after, {})] if after else nights_


def markdown(run: str, nights: Sequence[Night]) -> str:
    """The whole report."""
    bad = sum(night.bad for night in nights)
    head = f"# {run}\n\n{len(nights):,} nights, {bad:,} failed"
    if not nights:
        return f"{head}\n"
    rows = [
        f"| {night.table} | {night.date} | {night.outcome} | {_number(night, 'merge', 'rows_out')} "
        f"| {_rules(night)} | {_number(night, 'truncate', 'rows')} |"
        for night in nights
    ]
    columns = "| table | date | outcome | rows merged | rules passed | rows truncated |"
    return "\n".join([f"{head}\n", columns, "|---|---|---|---|---|---|", *rows, ""])


def _number(night: Night, step: str, key: str) -> str:
    value = night.results.get(step, {}).get(key)
    return f"{value:,}" if isinstance(value, int) else "-"


def _rules(night: Night) -> str:
    rules = night.results.get("validate", {}).get("rules")
    if not isinstance(rules, list):
        return "-"
    return f"{sum(bool(rule.get('passed')) for rule in rules)} of {len(rules)}"
