"""Standard error of a submitted driver; ``tests/e2e/test_submitted.py`` and the wheel's have a real spark-submit."""

from __future__ import annotations

import io
from types import SimpleNamespace

from py4j.protocol import Py4JNetworkError

from sparkhaven.jobs.submit import JvmErrors


def test_texts_go_to_the_jvm_until_it_ends() -> None:
    printed: list[str] = []
    joined = io.StringIO()
    errors = JvmErrors(SimpleNamespace(print=printed.append, flush=lambda: None), joined)
    print("epoch 1", file=errors)

    def ended(text: str) -> None:
        raise Py4JNetworkError(text)

    errors._jvm_errors.print = ended
    print("stopped", file=errors)
    assert "".join(printed) == "epoch 1\n"
    assert joined.getvalue() == "stopped\n"
