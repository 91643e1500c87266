"""Operators that run commands of sparkhaven: as processes of a worker, or through spark-submit. With Airflow."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import BaseOperator, Context
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException

from . import commands
from .alerts import message
from .commands import Program
from .configuration import Configuration, Spark
from .readiness import removed
from .results import BAD_DATA, Ended, Next, Result, has_error, help_of, standing, what_next, words_of
from .running import STOP_SECONDS, Command, Kept, result_file

LOOKS = 4  # of verify, at most
NOTHING_THERE = "TableNotFoundError"  # no location that could be removed
Words = Callable[[str, Mapping[str, Any]], list[str]]  # of the mapped value and the parameters of the run


def conclude(ended: Ended, by_hand: str, *, by_spark: bool = False) -> Result:
    """The last result of a command that went well.

    AirflowFailException, which is not retried, for what a person has to look at; AirflowException for what is worth
    another try. Both carry the error's own words and the command that helps.
    """
    decided = what_next(ended, by_spark=by_spark)
    if decided is Next.DONE:
        return ended.results[-1] if ended.results else {}
    text = message(words_of(ended), help_of(ended), by_hand)
    if decided is Next.RETRY:
        raise AirflowException(f"exit code {ended.code}, worth another try\n{text}")
    raise AirflowFailException(f"exit code {ended.code}\n{text}")


def answer(program: Program, words: list[str]) -> Result:
    """The last result of a command that only looks; errors as by ``conclude``."""
    return conclude(Command(program.line(words)).run(lambda line: None), program.by_hand(words))


def forced(params: Mapping[str, Any], late: Any) -> Mapping[str, Any]:
    """The parameters of a run; of a date with late rows with ``force``, so that it is merged again as a whole."""
    return {**params, "force": True} if late else params


class CommandOperator(BaseOperator):
    """Runs one command of the console script as a process, and returns its last result."""

    template_fields: Sequence[str] = ("value", "late")
    ui_color = "#e8f0fe"

    def __init__(self, *, words: Words, program: Program, value: Any = "", late: Any = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.words, self.program, self.value, self.late = words, program, value, late
        self._command: Command | None = None

    def execute(self, context: Context) -> Result:
        """Runs it; each line goes to the log of the task."""
        words = self.words(self.value, forced(context["params"], self.late))
        self._command = Command(self.program.line(words))
        self.log.info("%s", " ".join(self.program.line(words)))
        ended = self._command.run(lambda line: self.log.info("%s", line))
        return self.conclude(ended, self.program.by_hand(words), context)

    def conclude(self, ended: Ended, by_hand: str, context: Context) -> Result:
        """What the task returns or raises."""
        return conclude(ended, by_hand)

    def on_kill(self) -> None:
        """A task that is stopped or times out ends its command."""
        if self._command is not None:
            self._command.stop()


class ValidateOperator(CommandOperator):
    """Validates what was merged; skipped, with all that follows, where ``merge`` has merged nothing that can be."""

    def __init__(self, *, merge: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.merge = merge

    def execute(self, context: Context) -> Result:
        """Looks at the result of the merge first."""
        ti = context["ti"]
        merged = ti.xcom_pull(task_ids=self.merge, map_indexes=ti.map_index)
        if merged["dry_run"] or merged["outcome"] == "empty":
            raise AirflowSkipException(f"{merged['outcome']}: nothing was merged that could be validated")
        return super().execute(context)


class VerifyOperator(CommandOperator):
    """Runs verify; fails for damage that two looks have found, since a removal that runs beside it is none."""

    def execute(self, context: Context) -> Result:
        """Looks again until nothing is wrong, or something that was wrong the time before."""
        words = self.words(self.value, context["params"])
        line = self.program.line(words)
        before: Ended | None = None
        for _ in range(LOOKS):
            self._command = Command(line)
            self.log.info("%s", " ".join(line))
            ended = self._command.run(lambda text: self.log.info("%s", text))
            if ended.code != BAD_DATA or standing(before, ended):
                break
            before = ended
        return self.conclude(ended, self.program.by_hand(words), context)


class RemovalOperator(CommandOperator):
    """Runs truncate or delete; done as well if an earlier try or night has removed everything."""

    def __init__(self, *, table: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.table = table

    def execute(self, context: Context) -> Result:
        """Also notes when it has ended, in seconds since the epoch."""
        done = super().execute(context)
        context["ti"].xcom_push(key="ended_s", value=time.time())
        return done

    def conclude(self, ended: Ended, by_hand: str, context: Context) -> Result:
        """As for any command, but nothing left to remove is no error where history has the date."""
        if has_error(ended, NOTHING_THERE) and removed(
            answer(self.program, commands.stats(self.table, ())), self.value
        ):
            self.log.info("nothing is left to remove. An earlier try or night has done it")
            return {"rows": 0, "locations": []}
        return conclude(ended, by_hand)


class KeepingHook(SparkSubmitHook):
    """Keeps the job's results, which have a file, and its last lines. Stops the job with SIGTERM first."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.kept = Kept()

    @property
    def code(self) -> int:
        """The exit code of spark-submit."""
        return 0 if self._submit_sp is None else int(self._submit_sp.returncode or 0)

    def _process_spark_submit_log(self, itr: Iterator[Any]) -> None:
        super()._process_spark_submit_log(self._taken(itr))

    def _taken(self, lines: Iterable[str]) -> Iterator[str]:
        for line in lines:
            self.kept.take(line)
            yield line

    def on_kill(self) -> None:
        """The job ends after its phase; the hook kills one that does not."""
        process = self._submit_sp
        if process is not None and process.poll() is None:
            process.terminate()
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self.log.warning("spark-submit has not ended after %s s and is killed", STOP_SECONDS)
        super().on_kill()


class JobOperator(SparkSubmitOperator):
    """Submits an entry of ``jobs/`` with the words of its command, and returns its last result."""

    template_fields: Sequence[str] = (*SparkSubmitOperator.template_fields, "value", "late")

    def __init__(
        self,
        *,
        words: Words,
        program: Program,
        entry: str,
        spark: Spark,
        value: Any = "",
        late: Any = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            application=str(spark.jobs / f"{entry}.py"),
            py_files=str(spark.zip),
            jars=spark.jars,
            conf=dict(spark.conf),
            conn_id=spark.connection,
            env_vars=dict(spark.env),
            spark_binary=spark.submit,
            name=f"sparkhaven {entry}",
            durable=False,  # a job that was lost is run again: it resumes by itself
            **kwargs,
        )
        self.words, self.program, self.value, self.late = words, program, value, late

    def execute(self, context: Context) -> Result:
        """Submits the job and waits for its end."""
        with result_file() as results:
            return self._submit(self.words(self.value, forced(context["params"], self.late)), results, context)

    def _submit(self, words: list[str], results: Path, context: Context) -> Result:
        self.application_args = [*self.program.submitted(words), "--result", str(results)]
        hook = self._hook = self._get_hook()
        hook.kept = Kept(results)
        failure: AirflowException | None = None
        try:
            super().execute(context)
        except AirflowException as error:
            failure = error
        except OSError as error:
            raise AirflowFailException(
                f"spark-submit cannot be started ({error})\nto do: check [spark] submit"
            ) from error
        result = conclude(hook.kept.ended(hook.code), self.program.by_hand(words), by_spark=True)
        if failure is not None:
            raise failure
        return result

    def _get_hook(self) -> KeepingHook:
        return KeepingHook(
            conf=self.conf,
            conn_id=self._conn_id,
            py_files=self.py_files,
            jars=self.jars,
            name=self.name,
            application_args=self.application_args,
            env_vars=self.env_vars,
            spark_binary=self._spark_binary,
        )


def job(configuration: Configuration, entry: str, words: Words, *, local: bool = False, **kwargs: Any) -> BaseOperator:
    """The operator of a job: through spark-submit where the configuration has it, else as a process."""
    if local or configuration.spark is None:
        return CommandOperator(words=words, program=configuration.program, **kwargs)
    return JobOperator(words=words, program=configuration.program, entry=entry, spark=configuration.spark, **kwargs)
