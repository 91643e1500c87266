"""A real Deephaven engine shows one snapshot as all other readers do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from tests.contracts.readers.snapshot_readers import NAME, Snapshot, SnapshotReaderContract
from tests.support.served import Served, serving

pytestmark = pytest.mark.deephaven


@pytest.fixture(scope="module")
def served(snapshot: Snapshot) -> Iterator[Served]:
    with serving(snapshot.root, snapshot.root.parent) as served:
        served.attach("every", NAME.replace(".", "_"))
        served.wait_count("every", len(snapshot.rows))
        yield served


class TestEngine(SnapshotReaderContract):
    @pytest.fixture(autouse=True)
    def _attached(self, served: Served) -> None:
        self.served = served

    def read(self, root: Path) -> pa.Table:
        return self.served.rows("every")

    def read_date(self, root: Path, date: str) -> pa.Table:
        return self.served.rows("every", where=[f"Date = `{date}`"])

    def count(self, root: Path) -> int:
        return int(self.served.ask("count", name="every"))
