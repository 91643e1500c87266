"""Folded removals: the first record of a shortened removals file, in place of single records.

JSON {"folded": {``count``, ``epoch`` and ``generation`` (the newest that they name), ``internals``, ``values``,
``proofs`` (each once)}}, a line feed, and for each removal 61 bytes, little-endian: u4 place of its internal partition,
u4 place of its value, i8 since, i8 rows, i8 made, i8 time, i8 epoch, i8 generation, u4 place of its proof, u1 phase (0
truncate, 1 delete). A truncate is dropped when its location was deleted; a delete stays, because when a lost log is
rebuilt only it distinguishes a recreated location from the merged one.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from typing import Any

from sparkhaven.store.epochs.state.packed_reports import Numbering
from sparkhaven.store.epochs.state.tombstone import PHASES, Named, Removal, RemovalPhase
from sparkhaven.store.errors import CorruptFileError
from sparkhaven.store.framing.canonical import BEHIND, BROKEN, dump, load, written
from sparkhaven.store.layout import LocationKey

OPENING = b'{"folded":{'
_ENTRY = struct.Struct("<IIqqqqqqIB")


def encode_folded(removals: Sequence[Removal]) -> bytes:
    """The payload of these removals, without those that a later one supersedes."""
    deleted = {(r.key, r.since, r.made_ms) for r in removals if r.phase == RemovalPhase.DELETE}
    kept = [r for r in removals if r.phase == RemovalPhase.DELETE or (r.key, r.since, r.made_ms) not in deleted]
    internals, values, proofs = Numbering(), Numbering(), Numbering()
    entries = [
        _ENTRY.pack(
            internals[removal.key.internal],
            values[removal.key.value],
            removal.since,
            removal.rows,
            removal.made_ms,
            removal.time_ms,
            removal.epoch,
            removal.generation,
            proofs[json.dumps(removal.proof, sort_keys=True)],
            PHASES.index(removal.phase),
        )
        for removal in kept
    ]
    named = Named.by(removals)
    first = {
        "count": len(kept),
        "epoch": named.epoch,
        "generation": named.generation,
        "internals": list(internals),
        "values": list(values),
        "proofs": [json.loads(proof) for proof in proofs],
    }
    return dump({"folded": first}) + BEHIND + b"".join(entries)


def decode_folded(payload: bytes, where: object) -> tuple[Removal, ...]:
    """The removals of a payload; CorruptFileError where parts are missing."""
    text = written(payload)
    first = _first(text, where)
    try:
        internals, values = list(map(str, first["internals"])), list(map(str, first["values"]))
        proofs = [dict(proof) for proof in first["proofs"]]
        entries = _ENTRY.iter_unpack(payload[len(text) + len(BEHIND) :])
        removals = tuple(
            Removal(
                LocationKey(internals[internal], values[value]),
                since,
                rows,
                PHASES[phase],
                epoch,
                proofs[proof],
                time_ms,
                made_ms,
                generation,
            )
            for internal, value, since, rows, made_ms, time_ms, epoch, generation, proof, phase in entries
        )
        if len(removals) != int(first["count"]):
            raise ValueError(f"{len(removals)} removals of {first['count']}")
    except BROKEN as error:
        raise _damaged(where, error) from error
    return removals


def named_in_folded(payload: bytes, where: object) -> Named:
    """The newest epoch and generation in the removals of a payload, without decoding them."""
    first = _first(written(payload), where)
    try:
        return Named(int(first["epoch"]), int(first["generation"]))
    except BROKEN as error:
        raise _damaged(where, error) from error


def _first(text: bytes, where: object) -> Mapping[str, Any]:
    try:
        folded = load(text, where)["folded"]
        return dict(folded)
    except BROKEN as error:
        raise _damaged(where, error) from error


def _damaged(where: object, error: Exception) -> CorruptFileError:
    return CorruptFileError(
        "folded removals are incomplete", where=where, expected="all of their keys and entries", found=repr(error)
    )
