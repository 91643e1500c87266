"""Commits to a Delta table: one atomic version, durable, and never in place of another writer's version."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path

from sparkhaven.store.delta.checkpoint import write_checkpoint
from sparkhaven.store.delta.log import LAST_CHECKPOINT, LOG, list_log, unwritable, version_file
from sparkhaven.store.delta.snapshot import Action, DeltaSnapshot
from sparkhaven.store.io.fs import Fs

DAY_MS = 86_400_000
WRITE_FEATURES = frozenset({"appendOnly", "invariants"})  # checked where the table has them
KEEP_LOG_MS = 30 * DAY_MS
KEEP_REMOVED_MS = 7 * DAY_MS
_LOG_RETENTION = ("delta.logRetentionDuration", "delta.enableExpiredLogCleanup")
_REMOVED_RETENTION = "delta.deletedFileRetentionDuration"


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
        for body in snapshot.removed.values()
        if _REMOVED_RETENTION in snapshot.configuration or now_ms - body["deletionTimestamp"] < KEEP_REMOVED_MS
    ]
    actions: list[Action] = [("protocol", snapshot.protocol), ("metaData", snapshot.metadata)]
    actions += [("txn", body) for body in snapshot.transactions.values()]
    actions += [("domainMetadata", body) for body in snapshot.domains.values() if not body.get("removed")]
    actions += [("add", {**body, "dataChange": False}) for body in snapshot.files.values()]
    actions += [("remove", {**body, "dataChange": False}) for body in kept]
    log = snapshot.table / LOG
    fs.replace(log / f"{snapshot.version:020d}.checkpoint.parquet", write_checkpoint(actions))
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
