"""The engine's web page, which ``--ui`` turns on, and what it permits."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from tests.support.served import ClientError, serving
from tests.support.tables.intraday_rows import IntradayRows
from tests.support.writers.merge_runs import FS

SCHEMA = b"""<Table namespace="NS" name="T" storageType="NestedPartitionedOnDisk">
  <Partitions keyFormula="${autobalance_single}"/>
  <Column name="Date" dataType="String" columnType="Partitioning"/><Column name="N" dataType="long"/></Table>"""

pytestmark = pytest.mark.deephaven


def test_with_ui_there_is_a_page_and_the_key_is_worth_any_code(tmp_path: Path) -> None:
    root = tmp_path / "db"
    IntradayRows(root, SCHEMA, fs=FS).commit({("a", "2024-03-05"): pa.table({"N": [1, 2]})})
    with serving(root, tmp_path, "--ui") as served:
        key = served.started["key"]
        assert served.started["page"] == served.started["url"] + "/ide/"
        for path in ("/ide/", "/iframe/table/?name=NS_T"):
            status, text = served.get(path)
            assert status == 200, path
            assert "<script" in text
            assert key not in text
        refused = "UNAUTHENTICATED"
        assert [served.ask("call", key=given) for given in (None, "wrong", key)] == [refused, refused, "OK"]
        with pytest.raises(ClientError):
            served.ask("login", key=key[::-1])
        assert served.ask("script")
        served.attach("t", "NS_T")
        assert served.wait("t", 2)["N"].to_pylist() == [1, 2]
        assert "whoever has the key can run any code" in served.notes
