"""Operators of a table after its nights: retention and snapshots. With Airflow."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowSkipException

from . import commands
from .operators import CommandOperator
from .results import Result
from .snapshots import MANIFEST, finished, name_of, remove_old


def of_this_run(table: str, context: Context) -> None:
    """AirflowSkipException: the run is for other tables, or changes nothing."""
    params = context["params"]
    if params["dry_run"] or (params["tables"] is not None and table not in params["tables"]):
        raise AirflowSkipException(f"this run changes nothing of {table}")


class ExpireOperator(CommandOperator):
    """Drops dates that are older than the retention of the table."""

    def __init__(self, *, table: str, **kwargs: object) -> None:
        super().__init__(**kwargs)  # type: ignore[arg-type]
        self.table = table

    def execute(self, context: Context) -> Result:
        """Runs the command, in runs that are for the table."""
        of_this_run(self.table, context)
        return super().execute(context)


class SnapshotOperator(CommandOperator):
    """Takes a snapshot of the table beside the earlier ones, then removes those that are too old."""

    def __init__(self, *, table: str, directory: Path, keep: int, **kwargs: object) -> None:
        super().__init__(words=lambda out, params: self.snapshot_words(out), **kwargs)  # type: ignore[arg-type]
        self.table, self.directory, self.keep = table, directory / table, keep

    def snapshot_words(self, out: str) -> list[str]:
        """Shares files with the newest of the others."""
        others = [path for path in finished(self.directory) if path != Path(out)]
        return commands.snapshot(self.table, Path(out), others[-1] if others else None)

    def execute(self, context: Context) -> Result:
        """The snapshot of a run is taken once, however often its task is tried."""
        of_this_run(self.table, context)
        run = context["dag_run"]
        moment: datetime = run.start_date or run.run_after  # the same for each try
        out = self.directory / name_of(moment)
        self.directory.mkdir(parents=True, exist_ok=True)
        self.value = str(out)
        done: Result = {}
        if (out / MANIFEST).is_file():
            self.log.info("an earlier try has taken %s", out)
        else:
            done = super().execute(context)
        removed = remove_old(self.directory, self.keep)
        for path in removed:
            self.log.info("removed %s, of which no more than %s are kept", path, self.keep)
        return {**done, "snapshot": str(out), "removed": [path.name for path in removed]}
