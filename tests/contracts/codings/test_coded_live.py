"""What an engine is given of types with a codec: fields, values, and what it is not given."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from sparkhaven.store.errors import UnsupportedVersionError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout
from sparkhaven.store.schema.deployed.deploy import deploy
from tests.contracts.codings.coded_readers import (
    CODED_NAME,
    JAVA,
    MAPS,
    SERVED,
    CodedReaderContract,
    CodedSnapshot,
    from_engine,
    make_coded_snapshot,
)
from tests.support.tables.live_tables import Engine

VARIABLE = CODED_NAME.replace(".", "_")


class TestLiveTables(CodedReaderContract):
    """What an engine is given, place by place. It has no column for maps."""

    lacks = frozenset({MAPS})

    @pytest.fixture(scope="class")
    @classmethod
    def coded_snapshot(cls, tmp_path_factory: pytest.TempPathFactory) -> CodedSnapshot:
        return make_coded_snapshot(tmp_path_factory.mktemp("live") / "db", maps=False)

    def read(self, root: Path, day: str | None = None) -> pa.Table:
        attached = Engine(root, CODED_NAME).attach(VARIABLE)
        assert not attached.errors
        fields = attached.backend.table(attached.key).schema.data
        places = [place for place, value in attached.values.items() if day in (None, value)]
        pages: dict[str, list[pa.ChunkedArray]] = {name: [] for name in fields.names}
        for place in places:
            rows = attached.sizes[place]
            for name in fields.names:
                for offset in range(0, rows, 5):
                    page = attached.backend.values(attached.key, place, name, offset, min(5, rows - offset), 5)
                    assert page.schema == pa.schema([fields.field(name)])
                    pages[name].append(page.column(0))
        dates = [attached.values[place] for place in places for _ in range(attached.sizes[place])]
        columns = {
            name: pa.chunked_array([chunk for part in parts for chunk in part.chunks]) for name, parts in pages.items()
        }
        return from_engine(pa.table({"Date": dates, **columns}))

    def read_date(self, root: Path, day: str) -> pa.Table:
        return self.read(root, day)

    def test_the_types_are_those_of_java(self, coded_snapshot: CodedSnapshot) -> None:
        attached = Engine(coded_snapshot.root, CODED_NAME).attach(VARIABLE)
        fields = attached.backend.table(attached.key).schema.data
        found = {field.name: (field.metadata or {}).get(b"deephaven:type", b"").decode() for field in fields}
        assert {name: kind for name, kind in found.items() if kind} == JAVA

    def test_a_map_is_refused_by_name(self, tmp_path: Path) -> None:
        make_coded_snapshot(tmp_path / "db")
        with pytest.raises(UnsupportedVersionError, match="column Weights has type Map, for which an engine has no"):
            Engine(tmp_path / "db", CODED_NAME)


def test_a_column_that_a_location_lacks_is_null_in_an_engine(tmp_path: Path) -> None:
    snapshot = make_coded_snapshot(tmp_path / "db", maps=False)
    place = Layout(snapshot.root)
    altered = SERVED.replace(b"</Table>", b'<Column name="More" dataType="double[]"/></Table>')
    deploy(Fs(), place, altered)
    assert Engine(snapshot.root, CODED_NAME).attach(VARIABLE).column("More") == [None] * len(snapshot.rows)
