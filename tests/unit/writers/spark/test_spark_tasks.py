"""What becomes of errors of Spark and of the gateway to its JVM."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JError, Py4JNetworkError

from sparkhaven.store.errors import EXIT_RETRY, SettingsError
from sparkhaven.writers.spark.spark_tasks import error_summary, jvm_gone, local_uri
from sparkhaven.writers.spark.stream_query import refuse_speculation

CALL = "An error occurred while calling o158.awaitTermination"


@pytest.mark.parametrize(
    ("error", "gone"),
    [
        (ConnectionRefusedError(111, "Connection refused"), True),
        (Py4JNetworkError("Answer from Java side is empty"), True),
        (Py4JError(CALL), True),  # the answer never came
        (Py4JError(f"{CALL}. Trace:\npy4j.Py4JException: Method awaitTermination([]) does not exist"), False),
        (FileNotFoundError(2, "No such file"), False),
        (ZeroDivisionError(), False),
    ],
)
def test_a_jvm_that_is_gone_is_reported_as_such_and_worth_another_try(error: Exception, gone: bool) -> None:
    reported = jvm_gone(error)
    assert (reported is not None) == gone
    if reported is not None:
        assert reported.exit_code == EXIT_RETRY and str(error_summary(error)) in str(reported)


def test_the_summary_of_a_foreign_error_is_its_last_word() -> None:
    text = "Job aborted.\nTraceback (most recent call last):\n  File x\n    y()\nValueError: no\n\tat java.Lang"
    assert error_summary(RuntimeError(text)) == "ValueError: no"
    assert error_summary(RuntimeError("\n: org.apache.spark.SparkException: it broke\n\tat java")).endswith("it broke")
    assert error_summary(RuntimeError()) == "RuntimeError"


def test_local_paths_in_the_form_that_spark_needs() -> None:
    assert local_uri(Path("/a b/100%[1]")) == "file:/a b/100%[1]"
    assert local_uri(Path("db")) == f"file:{Path.cwd()}/db"


@pytest.mark.parametrize("setting", ["true", "True", " TRUE "])
def test_speculation_is_refused_however_it_is_spelled(setting: str) -> None:
    def spark(**conf: str) -> Any:
        return SimpleNamespace(sparkContext=SimpleNamespace(getConf=lambda: conf))

    with pytest.raises(SettingsError, match="speculative execution"):
        refuse_speculation(spark(**{"spark.speculation": setting}))
    refuse_speculation(spark(**{"spark.speculation": "false"}))
    refuse_speculation(spark())
