"""Streams that are asked to stop while Spark starts."""

from __future__ import annotations

import threading

import pytest

from sparkhaven.jobs.streams.process import start_session
from sparkhaven.store.errors import EXIT_RETRY, CommitError


def test_a_cluster_that_never_answers_holds_up_no_end() -> None:
    stop, answer = threading.Event(), threading.Event()
    stop.set()
    with pytest.raises(CommitError, match="asked to stop") as caught:
        start_session(answer.wait, stop, 0.3)  # type: ignore[arg-type]
    answer.set()
    assert caught.value.exit_code == EXIT_RETRY


def test_the_session_or_its_error_comes_from_the_thread_that_builds_it() -> None:
    assert start_session(lambda: threading.current_thread().name, threading.Event()) == "spark-start"  # type: ignore[arg-type,return-value]

    def broken() -> None:
        raise TimeoutError("the master does not answer")

    with pytest.raises(TimeoutError, match="the master"):
        start_session(broken, threading.Event())  # type: ignore[arg-type]
