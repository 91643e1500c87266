"""Opening the log of a stream in tests; default: by a process and at a time that stand still."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from sparkhaven.store.epochs.generation import Opening
from sparkhaven.store.epochs.log import StreamLog
from sparkhaven.store.epochs.state.commit_policy import CommitPolicy, Retention
from sparkhaven.store.epochs.state.resume_rules import PartitionRule
from sparkhaven.store.places import StreamPlace
from sparkhaven.store.types.model import TableSchema

KEPT = {field.name for field in fields(Retention)}


def open_stream_log(place: StreamPlace, schema: TableSchema | None, **settings: Any) -> StreamLog:
    """The log; ``settings`` are arguments of ``StreamLog.open``, fields of ``Retention``, or a ``durability``."""
    if (durability := settings.pop("durability", None)) is not None:
        settings["policy"] = CommitPolicy(durability)
    retention = Retention(**{name: settings.pop(name) for name in KEPT & settings.keys()})
    if (zone := settings.pop("zone", None)) is not None:
        settings |= {"rule": PartitionRule({"value.zone": zone}), "accept_rule": True}
    values: dict[str, Any] = {"query_id": "query", "clock": lambda: 1_000_000.0, "pid": 41, "host": "here"} | settings
    return StreamLog.open(place, Opening(schema=schema, retention=retention, **values))
