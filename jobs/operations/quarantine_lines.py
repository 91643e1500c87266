"""Rows of the quarantine as JSON lines, as ``list --json`` prints and ``requeue --from`` takes them."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC
from pathlib import Path
from typing import Any

from sparkhaven.store.errors import SettingsError
from sparkhaven.store.places import StreamPlace
from sparkhaven.store.quarantine.rejected_rows import RejectedRow
from sparkhaven.writers.quarantine.quarantine_columns import QuarantinedRow

TOLD = frozenset({"stream", "table", "reason", "detail", "column", "expected", "value", "header", "source_time_ns"})


@dataclass(frozen=True, slots=True)
class PayloadRepair:
    """The payload that replaces that of a row; the ``key`` of a message only with ``replaces_key``.

    ``line``: what else the line says of the row, and ``where`` it stands.
    """

    payload: bytes | None
    key: bytes | None = None
    replaces_key: bool = False
    line: Mapping[str, object] = field(default_factory=dict)
    where: str = ""

    def replaces(self, row: QuarantinedRow) -> bool:
        """Whether another record comes of it than the row was rejected with."""
        return self.payload not in (None, row["Payload"]) or (self.replaces_key and self.key != row["Key"])

    def of(self, row: RejectedRow) -> RejectedRow:
        if self.payload is not None:
            row = {**row, "Payload": self.payload, "PayloadBytes": len(self.payload)}
        return {**row, "Key": self.key} if self.replaces_key else row


def read_repairs(path: Path, place: StreamPlace) -> dict[tuple[str, int], PayloadRepair]:
    """Repairs by source and position; a line may also have ``payload`` and ``key``, both as text, or with the suffix
    ``_base64``. ``"key": null`` removes the key.

    SettingsError with the number of the first line that has another form, or names a row a second time.
    """
    if place.fs.stat(path) is None:
        hint = f"`sparkhaven quarantine list {place.table} {place.stream} --json` writes one"
        raise SettingsError("no such file of rows", where=path, hint=hint)
    repairs: dict[tuple[str, int], PayloadRepair] = {}
    for number, line in enumerate(place.fs.read(path).splitlines(), 1):
        if not line.strip():
            continue
        try:
            key, repair = _repair(json.loads(line), f"{path} line {number}")
        except (ValueError, KeyError, TypeError, binascii.Error) as error:
            raise SettingsError(
                "a line names no row of the quarantine",
                where=f"{path} line {number}",
                expected='{"source": "...", "position": 17, "payload": "..."}',
                found=repr(error),
            ) from error
        if key in repairs:
            raise SettingsError("a row is named twice", where=f"{path} line {number}", found=f"{key[0]} {key[1]}")
        repairs[key] = repair
    return repairs


def refuse_other_edits(repairs: Mapping[tuple[str, int], PayloadRepair], rows: Iterable[QuarantinedRow]) -> None:
    """SettingsError: a line has the payload of the quarantine, and another value, which no requeue takes."""
    for row in rows:
        repair = repairs.get((row["SourcePartition"], row["Position"]))
        if repair is None or repair.replaces(row):
            continue
        shown = row_value(row, {})
        for name, value in repair.line.items():
            if name in TOLD and value != shown[name]:
                raise SettingsError(
                    f"an edit of {name} is not taken",
                    where=repair.where,
                    expected=json.dumps(shown[name]),
                    found=json.dumps(value),
                    hint="edit payload: it has the whole record, and is decoded again. All else says what was rejected",
                )


def _repair(value: Any, where: str) -> tuple[tuple[str, int], PayloadRepair]:
    source, position = value["source"], value["position"]
    if not isinstance(source, str) or not isinstance(position, int):
        raise TypeError("source is a text and position a whole number")
    payload, key = _bytes(value, "payload"), _bytes(value, "key")
    replaces_key = not {"key", "key_base64"}.isdisjoint(value)
    return (source, position), PayloadRepair(payload, key, replaces_key, value, where)


def _bytes(value: dict[str, Any], name: str) -> bytes | None:
    coded, text = value.get(f"{name}_base64"), value.get(name)
    if coded is not None:
        return base64.b64decode(coded, validate=True)
    if text is not None and not isinstance(text, str):
        raise TypeError(f"{name} is a text, which may hold JSON")  # parsed here, its numbers might be rounded
    return None if text is None else text.encode("utf-8")


def row_value(row: QuarantinedRow, requeued: dict[tuple[str, int], int]) -> dict[str, Any]:
    """A row as JSON: payload and key as text, or as base64 where they are not UTF-8."""
    key = (row["SourcePartition"], row["Position"])
    return {
        "stream": row["Stream"],
        "table": f"{row['Namespace']}.{row['TableName']}",
        "source": row["SourcePartition"],
        "position": row["Position"],
        "reason": row["Reason"],
        "detail": row["Detail"],
        "column": row["Column"],
        "expected": row["Expected"],
        "value": row["Value"],
        **_text("payload", row["Payload"]),
        "payload_bytes": row["PayloadBytes"],
        "header": row["Header"],
        **_text("key", row["Key"]),
        "source_time_ns": row["SourceTime"],
        "epoch": row["Epoch"],
        "time": row["Time"].astimezone(UTC),
        "requeued_epoch": row["RequeuedEpoch"] or requeued.get(key),
    }


def _text(name: str, data: bytes | bytearray | None) -> dict[str, str | None]:
    if data is None:
        return {name: None}
    try:
        return {name: bytes(data).decode("utf-8")}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(data).decode("ascii")}
