"""The quarantine of a stream that runs in Spark: workers read the rejected rows, and Delta's writer adds them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sparkhaven.store.delta.log import LAST_CHECKPOINT, LOG
from sparkhaven.store.errors import CommitError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.rejected import REJECTED
from sparkhaven.writers.quarantine.schema import COLUMNS, KEY, OWNER
from sparkhaven.writers.quarantine.table import Quarantine
from sparkhaven.writers.spark.paths import local_pattern, local_uri
from sparkhaven.writers.spark.tasks import error_summary
from sparkhaven.writers.target import RejectedFile

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_TYPES = {"string": "string", "int64": "bigint", "binary": "binary", "timestamp[us, tz=UTC]": "timestamp"}
REJECTED_DDL = ", ".join(f"`{field.name}` {_TYPES[str(field.type)]}" for field in REJECTED)


class SparkQuarantine(Quarantine):
    """``open_session`` returns the session with Delta; it is asked when rows are added, not before."""

    def __init__(self, open_session: Callable[[], SparkSession], *owner: Any, **settings: Any) -> None:
        super().__init__(*owner, **settings)
        self._open_session = open_session

    def add(self, files: Sequence[RejectedFile], epoch: int) -> None:
        """Adds the rejected rows of a batch whose epoch is committed next; durable when it returns."""
        from pyspark.sql import functions as f

        spark = self._open_session()
        rejected = spark.read.schema(REJECTED_DDL).parquet(*(local_pattern(file.path) for file in files))
        values = {name: f.lit(value) for name, value in zip(OWNER, self._owner, strict=True)}
        values |= {field.name: f.col(field.name) for field in REJECTED}
        values |= {"Epoch": f.lit(epoch), "Time": f.timestamp_micros(f.lit(round(self._clock() * 1e6)))}
        rows = rejected.select(
            *(values.get(field.name, f.lit(None)).cast(_TYPES[str(field.type)]).alias(field.name) for field in COLUMNS)
        )
        with self._writing(spark) as table:
            if self.announce(epoch):
                rows.write.format("delta").mode("append").save(local_uri(self.place))
            else:
                self._sync_all()
                merge = table.alias("t").merge(rows.alias("s"), self._match())
                merge.whenNotMatchedInsertAll().execute()

    def _match(self) -> str:
        owner = (f"t.{name} = '{value}'" for name, value in zip(OWNER, self._owner, strict=True))
        return " AND ".join((*owner, *(f"t.{name} <=> s.{name}" for name in KEY)))

    @contextmanager
    def _writing(self, spark: SparkSession) -> Iterator[Any]:
        """The Delta table, locked against other writers; syncs what Spark wrote at the end, which Spark does not."""
        from delta.tables import DeltaTable
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        with self._locked():
            self._create()
            before = frozenset(self._fs.names(self.place / LOG))
            try:
                yield DeltaTable.forPath(spark, local_uri(self.place))
            except (PySparkException, Py4JError) as error:
                raise CommitError(
                    "the quarantine cannot be written",
                    where=self.place,
                    found=error_summary(error),
                    hint="free space or repair the table, then restart; nothing of a running batch was committed",
                ) from error
            with self._fs.during("quarantine-sync"):
                sync_delta(self._fs, self.place, before)


def sync_delta(fs: Fs, place: Path, before: frozenset[str]) -> None:
    """Syncs what was added to a local Delta table since its log had the names ``before``."""
    log = place / LOG
    fresh = [name for name in fs.names(log) if name not in before]
    paths = [log / name for name in (*fresh, LAST_CHECKPOINT)]
    for name in fresh:
        if name.endswith(".json"):
            actions = (json.loads(line) for line in fs.read(log / name).splitlines() if line.strip())
            paths.extend(place / action["add"]["path"] for action in actions if "add" in action)
    stats = {path: fs.stat(path) for path in paths}
    fs.sync([path for path, stat in stats.items() if stat is not None and not stat.is_dir])
    fs.sync_dirs([place, log])
