"""Errors are found again in the texts of other processes, with class and parts."""

from __future__ import annotations

import pytest

from sparkhaven import errors
from sparkhaven.store.errors import (
    CommitUnknownError,
    MergeError,
    PositionGapError,
    SettingsError,
    SparkhavenError,
    parse_error,
)

KINDS = [kind for name, kind in vars(errors).items() if name.endswith(("Error", "Exceeded"))]
FRAMES = """Failed to plan Python data source read: Traceback (most recent call last):
  File "/x/jobs/dataframes/source.py", line 40, in schema
    options = self._options()
              ^^^^^^^^^^^^^^^
"""
JAVA = (
    "\n\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handle(PythonRunner.scala:5)\n  at x.y(Z.java)"
)
STREAM = " SQLSTATE: 38000\n=== Streaming Query ===\nIdentifier: [id = 7]\n\nLogical Plan:\n  where: no part of it\n"


def parts(error: SparkhavenError) -> tuple[object, ...]:
    return type(error), error.what, error.where, error.expected, error.found, error.hint, error.extra


@pytest.mark.parametrize("module", ["", "sparkhaven.store.errors.", "sparkhaven.store.errors."])
@pytest.mark.parametrize(
    ("before", "after"), [("", ""), (FRAMES, " SQLSTATE: 38000"), (FRAMES, STREAM), (FRAMES, JAVA)]
)
def test_an_error_is_found_with_all_its_parts(module: str, before: str, after: str) -> None:
    for kind in KINDS:
        for given in (
            {},
            {"where": "db/x: 7", "hint": "do: this"},
            {"where": "a", "expected": "b", "found": "c\nd\n  e", "hint": "f", "column": "Px"},
        ):
            error = kind("it is wrong: all of it", **given)
            found = parse_error(f"[PYTHON_ERROR] {before}{module}{kind.__name__}: {error}{after}")
            assert found is not None and parts(found) == parts(error)
            assert (found.exit_code, found.retryable) == (error.exit_code, error.retryable)


@pytest.mark.parametrize(
    "text", ["", "ValueError: 5", "no SettingsErrors: 5", "MySettingsError: 5", "SettingsError", FRAMES]
)
def test_a_text_without_one_has_none(text: str) -> None:
    assert parse_error(text) is None
    assert errors.from_spark(ValueError(text)) is None


def test_the_first_one_counts() -> None:
    text = f"jobs.WriteRefused: {PositionGapError('first', found=1)}"
    first = parse_error(f"x.PositionGapError: first\n  found: 1\nCaused by: y.MergeError: second\n{text}")
    assert first is not None and parts(first) == parts(PositionGapError("first", found=1))


def test_an_error_of_ours_is_returned_as_it_is_also_as_the_cause_of_another() -> None:
    error = SettingsError("wrong", where="here")
    assert errors.from_spark(error) is error
    outer = RuntimeError("Spark failed")
    outer.__cause__ = error
    assert errors.from_spark(outer) is error
    found = errors.from_spark(RuntimeError("Job aborted: store.errors.CommitUnknownError: maybe\n  to do: recover"))
    assert isinstance(found, CommitUnknownError) and (found.what, found.hint) == ("maybe", "recover")
    assert not isinstance(found, MergeError)
