"""Schemas of all versions that were deployed, put together from the history, and the ``table.tbl`` of each."""

from __future__ import annotations

from collections.abc import Mapping

from sparkhaven.store.format.table.tbl import encode_tbl
from sparkhaven.store.places import TablePlace
from sparkhaven.store.schema.deployed.deploy import load_deployed, load_history
from sparkhaven.store.schema.deployed.numbering import recorded_schema


def definitions(place: TablePlace) -> Mapping[int, bytes]:
    """The content of ``table.tbl`` by schema version; raises what ``load_deployed`` raises."""
    deployed = load_deployed(place)
    contents = {v.version: encode_tbl(recorded_schema(place.table, v)) for v in load_history(place)}
    return contents | {deployed.version: encode_tbl(deployed)}
