"""What tests of merges into Parquet look at: the record, its places, rows as another reader gives them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from sparkhaven.store.layout import LocationKey
from sparkhaven.store.merges.merge_records import MergeRecord, newest
from tests.support.tables.intraday_rows import IntradayRows
from tests.support.writers.merge_cases import DAY, TABLE

SIDECAR = ".dh_metadata/indexes/Sym/index_Sym_table.parquet"


def merged(db: IntradayRows) -> MergeRecord:
    """The newest complete record of the day."""
    record = newest(db.place, DAY)
    assert record is not None
    return record


def places(db: IntradayRows) -> list[Path]:
    """Its locations in history."""
    return [db.layout.history_location(TABLE, LocationKey(o.internal, DAY)) for o in merged(db).outputs]


def plain(table: pa.Table) -> list[dict[str, Any]]:
    """Rows of another reader: Instants as nanoseconds."""
    kinds = [pa.int64() if pa.types.is_timestamp(f.type) else f.type for f in table.schema]
    kinds = [kind.value_type if pa.types.is_dictionary(kind) else kind for kind in kinds]
    return table.cast(pa.schema(list(zip(table.schema.names, kinds, strict=True)))).to_pylist()  # type: ignore[no-any-return]
