"""The command ``serve`` where there is no engine: what it refuses before it needs one."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout
from sparkhaven.store.schema.deployed.deploy import deploy
from tests.support.commands import run, run_json

SCHEMA = b"""<Table namespace="NS" name="T" storageType="NestedPartitionedOnDisk">
  <Partitions keyFormula="${autobalance_single}"/>
  <Column name="Date" dataType="String" columnType="Partitioning"/><Column name="N" dataType="long"/></Table>"""


@pytest.fixture(autouse=True)
def no_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARKHAVEN_DEEPHAVEN", "/no/such/python")


def test_without_an_engine_it_says_how_to_get_one(tmp_path: Path) -> None:
    deploy(Fs(), Layout(tmp_path), SCHEMA)
    code, value = run_json(tmp_path, "serve", "NS.T")
    assert code == 2
    assert value["error"]["what"] == "no Deephaven engine is installed"
    assert "make setup-deephaven" in value["error"]["hint"]


def test_tables_that_cannot_be_served_are_refused_before_anything_starts(tmp_path: Path) -> None:
    deploy(Fs(), Layout(tmp_path), SCHEMA.replace(b'dataType="long"', b'dataType="java.util.Map"'))
    code, value = run_json(tmp_path, "serve", "NS.T")
    assert (code, value["error"]["type"]) == (1, "UnsupportedVersionError")
    assert "column N has type Map" in value["error"]["what"]
    code, value = run_json(tmp_path, "serve", "NS.Other")
    assert (code, value["error"]["type"]) == (2, "TableNotFoundError")


def test_help_says_what_ui_permits(tmp_path: Path) -> None:
    found = " ".join(run(tmp_path, "serve", "--help").stdout.split())
    assert "whoever has the key can run any code here" in found
