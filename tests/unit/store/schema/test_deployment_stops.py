"""A deployment that is killed between two steps leaves the old version or the new one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from sparkhaven.store.places import TablePlace
from sparkhaven.store.schema.deployed.deploy import deploy, load_deployed
from sparkhaven.store.schema.deployed.schema_changes import ACCEPTED, ADDITIONS, Consent
from tests.support.disks.model_fs import Crash, KillingFs
from tests.support.tables.deployed import COLUMNS, FS, TABLE, ids, schema, with_data


@pytest.mark.parametrize("at", [f"{s}:{w}" for s in ("schema-history", "schema-file") for w in ("before", "after")])
def test_a_stop_at_any_step_leaves_the_old_or_the_new_version(tmp_path: Path, at: str) -> None:
    layout = with_data(tmp_path)
    new = schema({**COLUMNS, "D": "long"})
    with pytest.raises(Crash):
        deploy(KillingFs(crash_at=at), layout, schema())
    deploy(FS, layout, schema())
    with pytest.raises(Crash):
        deploy(KillingFs(crash_at=at), layout, new)
    assert set(ids(layout)) == set(COLUMNS) | ({"D"} if at == "schema-file:after" else set())
    found = deploy(FS, layout, new)
    assert load_deployed(TablePlace(FS, layout, TABLE)) == found
    assert [c.id for c in found.columns[:4]] == [ids(layout)[name] for name in COLUMNS]
    assert len({c.id for c in found.columns}) == 5


CHANGES = {
    "add": ({**COLUMNS, "D": "long"}, Consent()),
    "drop": ({"Date": "String", "A": "int", "B": "String"}, Consent(drop=("C",))),
    "rename": ({"Date": "String", "A": "int", "N": "String", "C": "double"}, Consent(rename=(("B", "N"),))),
    "restore": (COLUMNS, Consent(restore=1)),
    "order": ({"Date": "String", "C": "double", "A": "int", "B": "String"}, Consent(changes=True)),
}


@pytest.mark.parametrize("at", [f"{s}:{w}" for s in ("schema-history", "schema-file") for w in ("before", "after")])
@pytest.mark.parametrize("change", CHANGES)
def test_a_change_that_is_killed_is_there_or_not_and_can_be_made_again(tmp_path: Path, change: str, at: str) -> None:
    layout = with_data(tmp_path)
    columns, consent = CHANGES[change]
    deploy(FS, layout, schema())
    if change == "restore":
        deploy(FS, layout, schema({"Date": "String", "A": "int", "B": "String"}), consent=ACCEPTED)
    before = load_deployed(TablePlace(FS, layout, TABLE))
    with pytest.raises(Crash):
        deploy(KillingFs(crash_at=at), layout, schema(columns), consent=consent)
    standing = load_deployed(TablePlace(FS, layout, TABLE))
    assert (standing == before) == (at != "schema-file:after")
    if standing == before:
        deploy(FS, layout, schema({c.name: c.type.name for c in before.columns} | {"Other": "long"}))  # another start
        assert ids(layout)["Other"] == 4
        with_other = {**columns, "Other": "long"}
        found = deploy(FS, layout, schema(with_other), consent=replace(consent, changes=True))
        assert found.version == before.version + 2
    else:
        found = deploy(FS, layout, schema(columns), consent=ADDITIONS)
        assert found == standing
    names = {"N": "B"} if change == "rename" else {}
    original = {"Date": 0, "A": 1, "B": 2, "C": 3}
    assert {c.name: c.id for c in found.columns if c.name not in ("D", "Other")} == {
        name: original[names.get(name, name)] for name in columns if name != "D"
    }
