"""What a command said and how it ended: its JSON lines, its exit code, and what a scheduler does about it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

DONE, BAD_DATA, USAGE, RETRY = 0, 1, 2, 3  # the exit codes of sparkhaven
NOT_STARTED = (126, 127)  # of a shell: no such program, or not allowed
ENDED_BY_SIGNAL = range(129, 160)
LINES_SHOWN = 15

Result = Mapping[str, Any]


class Next(Enum):
    """What follows: nothing, a person, or another try."""

    DONE = "done"
    FAIL = "fail"
    RETRY = "retry"


@dataclass(frozen=True, slots=True)
class Ended:
    """A command that has ended. ``lines`` are the last ones of everything that it printed."""

    code: int
    results: tuple[Result, ...]
    lines: tuple[str, ...]

    @property
    def spoke(self) -> bool:
        """Whether the command itself has run: it reports everything as a result."""
        return bool(self.results)


def results_in(lines: Iterable[str]) -> list[Result]:
    """The JSON objects that end lines, in the file of ``--result`` or, without one, among all that was printed."""
    results = []
    for line in lines:
        text = line.strip()
        start = text.find('{"')
        if start >= 0 and text.endswith("}"):
            try:
                results.append(json.loads(text[start:]))
            except ValueError:
                continue
    return results


def what_next(ended: Ended, *, by_spark: bool = False) -> Next:
    """0 is done; 1 and 2 need a person; 3, a signal, and a Spark that ended before the job spoke are worth a retry.

    So is a job that went well and whose result got lost among Spark's lines: run again, it finds its work done and says
    so.
    """
    if ended.code == DONE:
        return Next.RETRY if by_spark and not ended.spoke else Next.DONE
    if ended.code < 0 or ended.code in ENDED_BY_SIGNAL or ended.code == RETRY:
        return Next.RETRY
    if by_spark and not ended.spoke and ended.code not in NOT_STARTED:
        return Next.RETRY
    return Next.FAIL


def words_of(ended: Ended) -> str:
    """What went wrong, in the command's own words; its last lines if it gave no error."""
    words = [text for result in ended.results for text in (*_error(result), *_failed_rules(result), *_findings(result))]
    return "\n".join(words or ended.lines[-LINES_SHOWN:]) or f"exit code {ended.code}, without output"


def has_error(ended: Ended, kind: str) -> bool:
    """Whether a result carries an error of that type."""
    return any(error.get("type") == kind for error in _errors(ended.results))


def help_of(ended: Ended) -> list[str]:
    """What to do, as the errors and findings of the command say."""
    hints = [error.get("hint") for error in _errors(ended.results)]
    hints += [finding.get("next") or finding.get("hint") for finding in _wrong(ended.results)]
    return list(dict.fromkeys(hint for hint in hints if hint))


def standing(before: Ended | None, now: Ended) -> bool:
    """Whether a look at a table found what the look ``before`` found too, or has failed otherwise.

    Damage does not go away; a truncate or delete beside one look may be a finding of that look only.
    """
    if _errors(now.results) or not _wrong(now.results):
        return True
    before_damages = [_damage(finding) for finding in _wrong(before.results)] if before else []
    return any(_damage(finding) in before_damages for finding in _wrong(now.results))


def _damage(finding: Result) -> tuple[Any, ...]:
    return tuple(finding.get(key) for key in ("path", "what", "expected", "found"))


def _errors(results: Sequence[Result]) -> list[Result]:
    return [result["error"] for result in results if isinstance(result.get("error"), dict)]


def _error(result: Result) -> list[str]:
    error = result.get("error")
    if not isinstance(error, dict):
        return []
    about = [str(result[key]) for key in ("table", "stream", "date") if result.get(key)]
    text = f"{' '.join(about)}: {error.get('what')}" if about else str(error.get("what"))
    return [text, *(f"  {key}: {error[key]}" for key in ("where", "expected", "found") if error.get(key) is not None)]


def _failed_rules(result: Result) -> list[str]:
    if result.get("passed") is not False or not isinstance(result.get("rules"), list):
        return []
    about = f"{result.get('table')} {result.get('date')}"
    return [
        f"{about}: rule {rule.get('rule')} {rule.get('column') or ''}".rstrip()
        + f": measured {rule.get('measured')}, lower {rule.get('lower')}, upper {rule.get('upper')}"
        + (f" ({rule['message']})" if rule.get("message") else "")
        for rule in result["rules"]
        if not rule.get("passed")
    ]


def _findings(result: Result) -> list[str]:
    findings = [(finding.get("path"), finding.get("what")) for finding in _wrong([result])]
    return [f"{path}: {message}" if path else str(message) for path, message in findings]


def _wrong(results: Sequence[Result]) -> list[Result]:
    """Findings of ``doctor`` and ``verify`` that are errors."""
    findings = [finding for result in results for finding in result.get("findings") or () if isinstance(finding, dict)]
    return [finding for finding in findings if finding.get("state") == "wrong" or finding.get("severity") == "error"]
