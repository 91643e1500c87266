"""Schemas of all versions that were deployed, put together from the history, and the ``table.tbl`` of each."""

from __future__ import annotations

from collections.abc import Mapping

from store.format.table.tbl import encode_tbl
from store.io.fs import Fs
from store.layout import Layout, TableName
from store.schema.deployed.deploy import load_deployed, load_history
from store.schema.deployed.numbering import recorded_schema


def definitions(fs: Fs, layout: Layout, table: TableName) -> Mapping[int, bytes]:
    """The content of ``table.tbl`` by schema version; raises what ``load_deployed`` raises."""
    deployed = load_deployed(fs, layout, table)
    found = {v.version: encode_tbl(recorded_schema(table, v)) for v in load_history(fs, layout, table)}
    return found | {deployed.version: encode_tbl(deployed)}
