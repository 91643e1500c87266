"""The facts about a table as Arrow tables, by name: its metadata tables.

Each has the newest state of the files, and no row of the table itself. Times are instants in UTC.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping

import pyarrow as pa

from sparkhaven.jobs.monitor.dates import table_status
from sparkhaven.jobs.monitor.epochs import all_merges
from sparkhaven.jobs.monitor.rejected import find
from sparkhaven.jobs.monitor.schema_versions import schema_versions
from sparkhaven.jobs.monitor.storage import committed_bytes, pinned_locations, volume_of
from sparkhaven.jobs.monitor.streams import table_streams
from sparkhaven.store.epochs.files.stream_notes import StreamFailure
from sparkhaven.store.epochs.reading.stream_state import list_epochs, list_streams
from sparkhaven.store.merges.validations import load_validation
from sparkhaven.store.places import TablePlace
from sparkhaven.store.schema.deployed.deploy import load_deployed
from sparkhaven.writers.quarantine.row_choice import Chosen

Row = Mapping[str, object]
TEXT, COUNT, TRUTH, FLOAT, BYTES = pa.string(), pa.int64(), pa.bool_(), pa.float64(), pa.binary()
INSTANT, TEXTS, COUNTS = pa.timestamp("ms", "UTC"), pa.list_(pa.string()), pa.list_(pa.int64())


def metadata_table(place: TablePlace, name: str) -> pa.Table:
    """One metadata table.

    Args:
        place: the table that it is about.
        name: one of ``METADATA``.

    Returns:
        Its rows, with the columns that ``METADATA`` names.

    Raises:
        KeyError: there is no metadata table of that name.
        SparkhavenError: what reading the files raises; nothing is left out.
    """
    columns, rows = METADATA[name]
    schema = pa.schema(list(columns.items()))
    return pa.Table.from_pylist([dict(row) for row in rows(place)], schema)


def history_table(place: TablePlace) -> pa.Table:
    """What was done with a table: epochs of its streams and merges of its dates, the newest first.

    Args:
        place: the table that it is about.

    Returns:
        A row for each, with the columns of ``HISTORY``.

    Raises:
        SparkhavenError: what reading the files raises; nothing is left out.
    """
    done = [
        {**{name: row.get(name) for name in HISTORY}, "operation": row["kind"], "time": row["time"]}
        for row in _epochs(place)
    ]
    done += [
        {**{name: row.get(name) for name in HISTORY}, "operation": "merge", "time": row["published"] or row["began"]}
        for row in _merges(place)
    ]
    done.sort(key=lambda row: (row["time"] or 0, row["epoch"] or 0), reverse=True)
    return pa.Table.from_pylist(done, pa.schema(list(HISTORY.items())))


def _epochs(place: TablePlace) -> Iterator[Row]:
    for stream in list_streams(place):
        for entry in list_epochs(place.of_stream(stream)):
            yield {
                **{name: getattr(entry, name, None) for name in METADATA["epochs"][0]},
                "stream": stream,
                "time": entry.time_ms,
                "rejected": sum(entry.rejected.values()),
                "undoes": list(entry.undoes),
            }


def _streams(place: TablePlace) -> Iterator[Row]:
    for facts in table_streams(place):
        failure = facts.failure
        yield {
            **{name: getattr(facts, name, None) for name in METADATA["streams"][0]},
            "last_commit": facts.last_ms,
            "failed": failure.error if isinstance(failure, StreamFailure) else failure,
            "failed_at": failure.time_ms if isinstance(failure, StreamFailure) else None,
        }


def _locations(place: TablePlace) -> Iterator[Row]:
    for location in pinned_locations(place):
        yield {
            "tier": location.tier,
            "stream": location.stream,
            "source": location.key.internal,
            "date": location.key.value,
            "rows": location.count,
            "bytes": committed_bytes(location),
            "files": len(location.files),
            "volume": volume_of(location),
            "directory": location.path,
        }


def _files(place: TablePlace) -> Iterator[Row]:
    for location in pinned_locations(place):
        about = {"tier": location.tier, "source": location.key.internal, "date": location.key.value}
        for name, state in sorted(location.files.items()):
            yield {**about, "file": name, "bytes": state.size, "crc": state.crc, "directory": location.path}


def _columns(place: TablePlace) -> Iterator[Row]:
    sizes: dict[str, int] = {}
    for location in pinned_locations(place):
        for name, state in location.files.items():
            stem = name.partition(".")[0]
            sizes[stem] = sizes.get(stem, 0) + state.size
    for column in load_deployed(place).columns:
        yield {
            "column": column.name,
            "id": column.id,
            "type": column.type.name,
            "kind": column.kind.name,
            "storage": column.storage.value,
            "encoding": column.encoding,
            "codec": column.codec,
            "bytes": sizes.get(column.name),
        }


def _dates(place: TablePlace) -> Iterator[Row]:
    for status in table_status(place, time.time()):
        yield {
            **{name: getattr(status, name, None) for name in METADATA["dates"][0]},
            "date": status.value,
            "replaced": len(status.replaced),
            "sources": sorted(status.sources),
        }


def _merges(place: TablePlace) -> Iterator[Row]:
    for record in all_merges(place):
        yield {
            "date": record.value,
            "generation": record.generation,
            "phase": record.phase,
            "source": record.source,
            "began": record.time_ms,
            "published": record.published_ms or None,
            "rows_in": sum(part.rows for part in record.inputs),
            "rows": record.rows,
            "bytes": sum(state.size for output in record.outputs for state in output.files.values()),
            "partitions": [output.internal for output in record.outputs],
            "schema_version": record.schema_version,
        }


def _validations(place: TablePlace) -> Iterator[Row]:
    for record in all_merges(place):
        validation = load_validation(place, record) if record.complete else None
        for rule in validation.results if validation is not None else ():
            numbers = {name: getattr(rule, name) for name in ("measured", "lower", "upper")}
            yield {
                "date": record.value,
                "generation": record.generation,
                "time": validation.time_ms or None if validation is not None else None,
                "mode": rule.mode,
                "rule": rule.rule,
                "column": rule.column,
                "passed": rule.passed,
                **{name: None if number is None else str(number) for name, number in numbers.items()},
                "message": rule.message,
            }


def _rejected(place: TablePlace) -> Iterator[Row]:
    for stream in list_streams(place):
        rows = find(place.of_stream(stream))
        requeued = rows.requeued() if rows is not None else {}
        for row in rows.rows(Chosen()) if rows is not None else ():
            key = row["SourcePartition"], row["Position"]
            yield {
                "stream": stream,
                "source": key[0],
                "position": key[1],
                "epoch": row["Epoch"],
                "time": row["Time"],
                "reason": row["Reason"],
                "column": row["Column"],
                "expected": row["Expected"],
                "value": row["Value"],
                "detail": row["Detail"],
                "payload": row["Payload"],
                "requeued_epoch": row["RequeuedEpoch"] or requeued.get(key),
            }


def _schema_versions(place: TablePlace) -> Iterator[Row]:
    for version in schema_versions(place)[0]:
        change = version.change
        yield {
            "version": version.version,
            "sha256": version.sha256,
            "columns": list(version.ids),
            "added": list(change.added),
            "dropped": list(change.dropped),
            "renamed": [f"{old} to {new}" for old, new in change.renamed],
            "restored": list(change.restored),
            "changed": list(change.changed),
            "first_rows": version.first_ms,
            "last_rows": version.last_ms,
        }


HISTORY = {
    "time": INSTANT,
    "operation": TEXT,
    "stream": TEXT,
    "epoch": COUNT,
    "date": TEXT,
    "generation": COUNT,
    "rows": COUNT,
    "live": TRUTH,
}
"""Columns of the history of a table. ``live``: of an epoch, whether it was not rolled back."""

METADATA: dict[str, tuple[dict[str, pa.DataType], Callable[[TablePlace], Iterable[Row]]]] = {
    "epochs": (
        {"stream": TEXT, "epoch": COUNT, "kind": TEXT, "live": TRUTH, "time": INSTANT, "rows": COUNT, "rejected": COUNT}
        | {"files": COUNT, "messages": COUNT, "locations": COUNT, "seconds": FLOAT, "lag": FLOAT, "restores": COUNT}
        | {"withdrawn": COUNT, "undoes": COUNTS, "generation": COUNT, "query_id": TEXT, "batch_id": COUNT},
        _epochs,
    ),
    "streams": (
        {"stream": TEXT, "feed": TEXT, "epoch": COUNT, "epochs": COUNT, "floor": COUNT, "rows": COUNT}
        | {"locations": COUNT, "files": COUNT, "generation": COUNT, "durability": TEXT, "schema_version": COUNT}
        | {"last_commit": INSTANT, "running": COUNT, "left": TEXT, "failed": TEXT, "failed_at": INSTANT}
        | {"log_bytes": COUNT},
        _streams,
    ),
    "locations": (
        {"tier": TEXT, "stream": TEXT, "source": TEXT, "date": TEXT, "rows": COUNT, "bytes": COUNT, "files": COUNT}
        | {"volume": TEXT, "directory": TEXT},
        _locations,
    ),
    "dates": (
        {"date": TEXT, "merged": COUNT, "unmerged": COUNT, "untruncated": COUNT, "generation": COUNT}
        | {"validation": TEXT, "unfinished": TEXT, "replaced": COUNT, "sources": TEXTS},
        _dates,
    ),
    "files": (
        {"tier": TEXT, "source": TEXT, "date": TEXT, "file": TEXT, "bytes": COUNT, "crc": COUNT, "directory": TEXT},
        _files,
    ),
    "columns": (
        {"column": TEXT, "id": COUNT, "type": TEXT, "kind": TEXT, "storage": TEXT, "encoding": TEXT, "codec": TEXT}
        | {"bytes": COUNT},
        _columns,
    ),
    "merges": (
        {"date": TEXT, "generation": COUNT, "phase": TEXT, "source": TEXT, "began": INSTANT, "published": INSTANT}
        | {"rows_in": COUNT, "rows": COUNT, "bytes": COUNT, "partitions": TEXTS, "schema_version": COUNT},
        _merges,
    ),
    "validations": (
        {"date": TEXT, "generation": COUNT, "time": INSTANT, "mode": TEXT, "rule": TEXT, "column": TEXT}
        | {"passed": TRUTH, "measured": TEXT, "lower": TEXT, "upper": TEXT, "message": TEXT},
        _validations,
    ),
    "rejected": (
        {"stream": TEXT, "source": TEXT, "position": COUNT, "epoch": COUNT, "time": INSTANT, "reason": TEXT}
        | {"column": TEXT, "expected": TEXT, "value": TEXT, "detail": TEXT, "payload": BYTES, "requeued_epoch": COUNT},
        _rejected,
    ),
    "schema_versions": (
        {"version": COUNT, "sha256": TEXT, "columns": TEXTS, "added": TEXTS, "dropped": TEXTS, "renamed": TEXTS}
        | {"restored": TEXTS, "changed": TEXTS, "first_rows": INSTANT, "last_rows": INSTANT},
        _schema_versions,
    ),
}
"""By name: the columns, and what collects the rows."""
