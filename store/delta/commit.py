"""Commits to a Delta table: one atomic version, durable, and never in place of another writer's version.

``deltalake`` syncs nothing that it writes: after a power cut its version, or checkpoint, can be there under its name
without its bytes, and every reader of the table meets it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa

from sparkhaven.store.delta.log import LAST_CHECKPOINT, LOG, Action, list_log, version_file
from sparkhaven.store.delta.snapshot import DeltaSnapshot
from sparkhaven.store.errors import SparkhavenError, UnsupportedVersionError
from sparkhaven.store.io.fs import Fs

DAY_MS = 86_400_000
WRITE_FEATURES = frozenset({"appendOnly", "invariants"})  # checked where the table has them
KEEP_LOG_MS = 30 * DAY_MS
KEEP_REMOVED_MS = 7 * DAY_MS
_LOG_RETENTION = ("delta.logRetentionDuration", "delta.enableExpiredLogCleanup")
_REMOVED_RETENTION = "delta.deletedFileRetentionDuration"
_TEXTS = pa.map_(pa.string(), pa.string())
_NAMES = pa.list_(pa.string())
_SCHEMA = pa.schema(
    {
        "txn": pa.struct({"appId": pa.string(), "version": pa.int64(), "lastUpdated": pa.int64()}),
        "add": pa.struct(
            {
                "path": pa.string(),
                "partitionValues": _TEXTS,
                "size": pa.int64(),
                "modificationTime": pa.int64(),
                "dataChange": pa.bool_(),
                "tags": _TEXTS,
                "stats": pa.string(),
            }
        ),
        "remove": pa.struct(
            {
                "path": pa.string(),
                "deletionTimestamp": pa.int64(),
                "dataChange": pa.bool_(),
                "extendedFileMetadata": pa.bool_(),
                "partitionValues": _TEXTS,
                "size": pa.int64(),
            }
        ),
        "metaData": pa.struct(
            {
                "id": pa.string(),
                "name": pa.string(),
                "description": pa.string(),
                "format": pa.struct({"provider": pa.string(), "options": _TEXTS}),
                "schemaString": pa.string(),
                "partitionColumns": _NAMES,
                "configuration": _TEXTS,
                "createdTime": pa.int64(),
            }
        ),
        "protocol": pa.struct(
            {
                "minReaderVersion": pa.int32(),
                "minWriterVersion": pa.int32(),
                "readerFeatures": _NAMES,
                "writerFeatures": _NAMES,
            }
        ),
        "domainMetadata": pa.struct({"domain": pa.string(), "configuration": pa.string(), "removed": pa.bool_()}),
    }
)


def unwritable(path: Path, what: object) -> SparkhavenError:
    return UnsupportedVersionError(
        "the Delta table has a feature that is not written without Spark",
        where=path,
        expected="a table of writer version 2 without partitions, constraints and column mapping",
        found=what,
        hint="ALTER TABLE ... DROP FEATURE, or move the table away. The next rejected row creates a new one",
    )


def require_writable(snapshot: DeltaSnapshot) -> None:
    """UnsupportedVersionError for a table whose writer rules are not supported."""
    protocol, table = snapshot.protocol, snapshot.table
    version, features = protocol["minWriterVersion"], frozenset(protocol.get("writerFeatures") or ())
    if version not in (1, 2, 7):
        raise unwritable(table, f"writer version {version}")
    if features - WRITE_FEATURES:
        raise unwritable(table, f"writer feature {', '.join(sorted(features - WRITE_FEATURES))}")
    if snapshot.configuration.get("delta.appendOnly") == "true":
        raise unwritable(table, "delta.appendOnly = true")
    if snapshot.metadata.get("partitionColumns"):
        raise unwritable(table, f"partitions by {', '.join(snapshot.metadata['partitionColumns'])}")
    if "delta.invariants" in snapshot.metadata["schemaString"]:
        raise unwritable(table, "a column with an invariant")


def clean_log(fs: Fs, table: Path) -> None:
    """Removes what killed commits left in the log. The caller holds the lock of the table."""
    for name in fs.names(table / LOG):
        if name.startswith(".") and ".tmp-" in name:
            fs.unlink(table / LOG / name)


def commit(fs: Fs, table: Path, version: int, actions: Iterable[Action]) -> bool:
    """Writes a version; durable when it returns. False: another writer has committed this version.

    The caller has synced the data files that it adds.
    """
    path = version_file(table, version)
    temporary = path.with_name(f".{path.name}.tmp-{os.getpid()}")
    lines = (json.dumps({kind: body}, separators=(",", ":")) for kind, body in actions)
    fs.write_new(temporary, "".join(f"{line}\n" for line in lines).encode())
    fs.sync([temporary])
    committed = fs.link(temporary, path)
    fs.unlink(temporary)
    fs.sync_dirs([path.parent])
    return committed


def is_checkpoint_due(snapshot: DeltaSnapshot, versions: int) -> bool:
    """Whether a checkpoint is written after a version: after every so many, if the table does not say."""
    interval = int(snapshot.configuration.get("delta.checkpointInterval", versions))
    return snapshot.version > 0 and snapshot.version % interval == 0


def checkpoint(fs: Fs, snapshot: DeltaSnapshot, now_ms: int) -> None:
    """Writes the checkpoint of a version durably, and removes versions that are too old to be asked for.

    Both periods are Delta's defaults. What a table sets itself is left to Spark.
    """
    kept = [
        body
        for body in snapshot.removed
        if _REMOVED_RETENTION in snapshot.configuration or now_ms - body["deletionTimestamp"] < KEEP_REMOVED_MS
    ]
    actions: list[Action] = [("protocol", snapshot.protocol), ("metaData", snapshot.metadata)]
    actions += [("txn", body) for body in snapshot.transactions.values()]
    actions += [("domainMetadata", body) for body in snapshot.domains.values() if not body.get("removed")]
    actions += [("add", {**body, "dataChange": False}) for body in snapshot.files.values()]
    actions += [("remove", {**body, "dataChange": False}) for body in kept]
    log = snapshot.table / LOG
    fs.replace(log / f"{snapshot.version:020d}.checkpoint.parquet", _encoded(actions))
    pointer = {"version": snapshot.version, "size": len(actions)}
    fs.replace(log / LAST_CHECKPOINT, json.dumps(pointer).encode())
    if not any(name in snapshot.configuration for name in _LOG_RETENTION):
        _remove_old(fs, snapshot.table, now_ms - KEEP_LOG_MS)


def _remove_old(fs: Fs, table: Path, before_ms: int) -> None:
    """Removes versions below the newest checkpoint that is older than ``before_ms``: it has what they say."""
    checkpoints = sorted(list_log(fs, table).checkpoints, reverse=True)
    old = (number for number in checkpoints if _is_older(fs, version_file(table, number), before_ms))
    base = next(old, None)
    for name in fs.names(table / LOG) if base is not None else ():
        number = name.partition(".")[0]
        if len(number) == 20 and number.isdigit() and base is not None and int(number) < base:
            fs.unlink(table / LOG / name)


def _is_older(fs: Fs, path: Path, before_ms: int) -> bool:
    stat = fs.stat(path)
    return stat is not None and stat.mtime_ns // 1_000_000 < before_ms


def _encoded(actions: Iterable[Action]) -> bytes:
    """A checkpoint of version 1: a row for each action, each kind in a column of its own."""
    import pyarrow.parquet as pq  # most changes write none

    rows = [{kind: body} for kind, body in actions]
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(rows, _SCHEMA), sink, compression="zstd", compression_level=1)
    data: bytes = sink.getvalue().to_pybytes()
    return data
