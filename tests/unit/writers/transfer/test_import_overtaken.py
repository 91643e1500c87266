"""An import into a table without rows, whose column changes its type before or while the import runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkhaven.readers.checks.verify import verify
from sparkhaven.store.errors import SchemaChangeError, SchemaParseError
from sparkhaven.store.io.fs import Fs, Lock
from sparkhaven.store.layout import TableName
from sparkhaven.store.merges.merge_records import lock_table
from sparkhaven.store.places import TablePlace
from sparkhaven.store.schema.deployed.deploy import deploy, load_deployed
from sparkhaven.store.schema.deployed.schema_changes import ACCEPTED
from sparkhaven.writers.partitions import add_partition
from sparkhaven.writers.transfer import date_import
from tests.support.writers.import_cases import SMALL, bring, small, values, write
from tests.support.writers.merge_runs import FS

TABLE = TableName("NS", "T")


@pytest.mark.parametrize("taken", [False, True])
def test_a_retype_ends_the_import_or_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, taken: bool) -> None:
    layout = small(tmp_path / "db")
    add_partition(FS, layout, "NS", "0")
    write(tmp_path / "tree" / "Date=2026-11-20" / "1.parquet", [1, 2, 3])

    def overtaken(*where: object) -> Lock:
        if not taken:  # after the import has read the schema
            deploy(FS, layout, SMALL % b"String", consent=ACCEPTED)
            return lock_table(TablePlace(FS, layout, TABLE))
        lock = lock_table(TablePlace(FS, layout, TABLE))
        with pytest.raises(SchemaParseError, match="E161"):
            deploy(FS, layout, SMALL % b"String", consent=ACCEPTED)
        return lock

    monkeypatch.setattr(date_import, "lock_table", overtaken)
    if taken:
        bring(layout, tmp_path / "tree")
        assert values(layout) == [1, 2, 3]
    else:
        with pytest.raises(SchemaChangeError, match="deployed meanwhile") as caught:
            bring(layout, tmp_path / "tree")
        assert (caught.value.found, caught.value.hint) == ("X", "start again, with that schema")
        assert load_deployed(TablePlace(FS, layout, TABLE)).version == 2
    assert [found for found in verify(Fs(), layout, TABLE, deep=True).findings if found.severity == "error"] == []
