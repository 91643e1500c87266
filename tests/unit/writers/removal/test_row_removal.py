"""Truncate and delete: what they refuse, what they leave, and that they go on after a crash."""

from __future__ import annotations

import contextlib
import random
from pathlib import Path

import pytest

from sparkhaven.readers import open_table
from sparkhaven.store.epochs.files.removals import read_removals
from sparkhaven.store.epochs.reading.stream_state import load_stream
from sparkhaven.store.errors import (
    CorruptFileError,
    SettingsError,
    TableNotFoundError,
    TooEarlyError,
    UnsupportedVersionError,
    ValidationFailedError,
)
from sparkhaven.store.format.table import table_size
from sparkhaven.store.layout import LocationKey, TableName
from sparkhaven.store.merges.merge_records import newest
from sparkhaven.store.merges.validations import Validation, load_validation, validation_path
from sparkhaven.store.places import TablePlace
from sparkhaven.store.schema.deployed.deploy import deploy
from sparkhaven.store.schema.deployed.schema_changes import ACCEPTED
from sparkhaven.writers.partitions import add_partition
from sparkhaven.writers.removal.removal_proof import RemovalProof, States, prove
from sparkhaven.writers.removal.row_removal import truncate
from tests.support.disks.model_fs import Crash, KillingFs
from tests.support.tables.intraday_rows import IntradayRows
from tests.support.writers.merge_cases import DAY, SCHEMA, TABLE, as_table, random_row
from tests.support.writers.merge_runs import FS, make, merge
from tests.support.writers.removals import NOW, empty, unlink

A, B = LocationKey("a", DAY), LocationKey("b", DAY)


def state_of(db: IntradayRows) -> dict[LocationKey, tuple[int, bool]]:
    state = load_stream(db.place)
    return {key: (location.rows, location.truncated) for key, location in state.locations.items()}


def test_both_phases_with_their_evidence(tmp_path: Path) -> None:
    db, _ = make(tmp_path, 60)
    merge(db.layout)
    plan = empty(db, dry_run=True)
    assert (plan.rows, plan.dry_run) == (60, True)
    assert state_of(db) == {A: (20, False), B: (40, False)}
    done = empty(db)
    assert done.locations == (("rows", "a", 20), ("rows", "b", 40))
    assert state_of(db) == {A: (0, True), B: (0, True)}
    record = table_size.load(FS, db.layout.intraday_location(TABLE, A))
    assert record is not None
    assert (record.size, record.truncated) == (0, True)
    assert empty(db).rows == 0  # again: nothing left to do
    tombstone = read_removals(db.place).entries[0][1]
    assert (tombstone.rows, tombstone.phase, tombstone.proof["rows"], tombstone.proof["generation"]) == (
        20,
        "truncate",
        60,
        1,
    )
    assert set(tombstone.proof["digests"]) == {column.name for column in db.schema.stored}
    with pytest.raises(TooEarlyError, match="readers may still use"):
        unlink(db, now=NOW + 10)
    assert unlink(db).rows == 60
    assert state_of(db) == {}
    assert not db.layout.intraday_location(TABLE, A).parent.exists()
    tombstones = [r.phase for _, r in read_removals(db.place).entries]
    assert tombstones == ["truncate", "truncate", "delete", "delete"]
    assert unlink(db).locations == () and empty(db).locations == ()
    db.log.close()
    db.log = db.open()
    db.commit({("a", DAY): as_table([random_row(random.Random(1))])})  # new data may come
    assert state_of(db) == {A: (1, False)}
    assert merge(db.layout)[0].outcome == "supplement"


def test_one_source_alone(tmp_path: Path) -> None:
    db, _ = make(tmp_path, 60)
    merge(db.layout)
    assert empty(db, source="b").locations == (("rows", "b", 40),)
    assert state_of(db) == {A: (20, False), B: (0, True)}
    with pytest.raises(ValidationFailedError, match="the location is not truncated"):
        unlink(db)
    assert unlink(db, source="b").rows == 40
    assert state_of(db) == {A: (20, False)}
    assert empty(db, source="nowhere").locations == () and unlink(db, source="b").locations == ()


def test_nothing_goes_without_proof(tmp_path: Path) -> None:
    db, _ = make(tmp_path, 60)
    with pytest.raises(TableNotFoundError, match="there is no proof"):
        prove(db.place, DAY)
    merge(db.layout)
    record = newest(db.place, DAY)
    assert record is not None
    with pytest.raises(ValidationFailedError, match="was not made by"):
        RemovalProof(TABLE, record, Validation(str(TABLE), DAY, 1, 60, ()), seal=None)
    for wrong in (None, record, "yes"):
        with pytest.raises(ValidationFailedError, match="proof of a date"):
            truncate(States(db.place), proof=wrong, clock=lambda: NOW)  # type: ignore[arg-type]
    with pytest.raises(ValidationFailedError, match="proof of a date"):
        truncate(
            States(TablePlace(FS, db.layout, TableName(TABLE.namespace, "Other"))),
            proof=prove(db.place, DAY),
            clock=lambda: NOW,
        )
    assert state_of(db) == {A: (20, False), B: (40, False)}


def test_rows_that_came_after_the_merge_block_it(tmp_path: Path) -> None:
    db, _ = make(tmp_path, 60)
    merge(db.layout)
    proof = prove(db.place, DAY)
    db.commit({("a", DAY): as_table([random_row(random.Random(1))])})
    with pytest.raises(ValidationFailedError, match="rows that history does not have") as caught:
        empty(db, proof=proof)
    assert (caught.value.expected, caught.value.found) == ("20 merged rows", "21 rows")
    assert state_of(db) == {A: (21, False), B: (40, False)}
    merge(db.layout)
    assert empty(db).rows == 61


@pytest.mark.parametrize("damage", ["flip", "remove", "index", "shorter"])
def test_a_damaged_history_proves_nothing(tmp_path: Path, damage: str) -> None:
    db, _ = make(tmp_path, 60)
    merge(db.layout)
    path = db.layout.history_location(TABLE, LocationKey("1", DAY)) / "I.dat"
    data = path.read_bytes()
    if damage == "flip":
        path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    elif damage == "shorter":
        path.write_bytes(data[:-1])
    elif damage == "remove":
        path.unlink()
    else:
        db.layout.metadata_index(TABLE).unlink()
    with pytest.raises((CorruptFileError, ValidationFailedError)):
        prove(db.place, DAY)


@pytest.mark.slow
@pytest.mark.parametrize("phase", ["truncate", "delete"])
def test_killed_anywhere_it_goes_on(tmp_path: Path, phase: str) -> None:
    call = 0
    while True:
        call += 1
        db, _ = make(tmp_path / f"{phase}{call}", 30, partitions=1)
        merge(db.layout)
        if phase == "delete":
            empty(db)
        fs, killed = KillingFs(crash_after=call - 1), False
        try:
            empty(db, fs=fs) if phase == "truncate" else unlink(db, fs=fs)
        except Crash:
            killed = True
        if phase == "truncate":
            empty(db)
            assert state_of(db) == {A: (0, True), B: (0, True)}
        else:
            with contextlib.suppress(TableNotFoundError):  # it was complete
                unlink(db)
            assert state_of(db) == {}
            left = [p for p in db.layout.intraday(TABLE).rglob("*") if ".streams" not in p.parts]
            assert [p.name for p in left if p.name not in ("a", "b")] == []
        if not killed:
            break
    assert call > 3


# --- the validation that a removal needs ---------------------------------------------------------------------------


def ruled(root: Path, rule: str) -> IntradayRows:
    xml = SCHEMA.replace(b"</Table>", f"<Validator>{rule}</Validator></Table>".encode())
    db = IntradayRows(root, xml, fs=FS)
    db.commit({("a", DAY): as_table([random_row(random.Random(1)) for _ in range(20)])})
    merge(db.layout)
    return db


def test_a_date_that_was_never_validated_is_validated_first(tmp_path: Path) -> None:
    db = ruled(tmp_path, '<assertSize min="1" max="20"/>')
    record = newest(db.place, DAY)
    assert record is not None
    reported: list[str] = []
    prove(db.place, DAY, dry_run=True, on_progress=reported.append)
    assert reported == [f"{DAY}: merge 1 was never validated. Validating it"]
    assert load_validation(db.place, record) is None
    proof = prove(db.place, DAY, time_ms=17)
    stored = load_validation(db.place, record)
    assert stored == proof.validation
    assert stored is not None
    assert (stored.passed, stored.time_ms, stored.epochs) == (True, 17, {"rows": 1})
    assert prove(db.place, DAY, time_ms=18, on_progress=reported.append).validation.time_ms == 17
    assert len(reported) == 1
    assert proof.evidence()["validation"]["notEvaluated"] == []


def test_a_validation_that_failed_is_refused(tmp_path: Path) -> None:
    db = ruled(tmp_path, '<assertSize min="21" max="30"/>')
    for _ in range(2):  # found, then stored
        with pytest.raises(ValidationFailedError, match="1 of 16 rules failed") as refused:
            prove(db.place, DAY)
        assert "sparkhaven validate" in str(refused.value)
    assert state_of(db) == {A: (20, False)}


def test_rules_that_are_not_evaluated_are_refused_unless_allowed(tmp_path: Path) -> None:
    db = ruled(tmp_path, '<assertPercentile column="I" percentile="50" min="0" max="1"/>')
    with pytest.raises(ValidationFailedError, match="1 of 16 rules were not evaluated"):
        prove(db.place, DAY)
    proof = prove(db.place, DAY, tolerant=True)
    assert proof.evidence()["validation"]["notEvaluated"] == ["assertPercentile"]
    with pytest.raises(ValidationFailedError):
        prove(db.place, DAY)


def test_a_stale_validation_is_made_again(tmp_path: Path) -> None:
    db = ruled(tmp_path, '<assertSize min="1" max="20"/>')
    first = prove(db.place, DAY).validation
    db.commit({("a", DAY): as_table([random_row(random.Random(2))])})
    assert prove(db.place, DAY).validation == first  # truncate refuses the rows that came later
    with pytest.raises(ValidationFailedError, match="rows that history does not have"):
        empty(db)
    merge(db.layout)
    with pytest.raises(ValidationFailedError, match="1 of 16 rules failed"):  # 21 rows now
        prove(db.place, DAY)


def test_other_rules_make_a_validation_stale(tmp_path: Path) -> None:
    db = ruled(tmp_path, '<assertSize min="1" max="20"/>')
    prove(db.place, DAY)
    deploy(FS, db.layout, db.schema_xml.replace(b'max="20"', b'max="19"'), consent=ACCEPTED)
    reported: list[str] = []
    with pytest.raises(ValidationFailedError, match="1 of 16 rules failed"):
        prove(db.place, DAY, on_progress=reported.append)
    assert reported == [f"{DAY}: merge 1 was validated with other rules. Validating it"]


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["flipped", "cut", "foreign", "newer"])
def test_a_damaged_validation_is_never_a_passed_one(tmp_path: Path, damage: str) -> None:
    db = ruled(tmp_path, '<assertSize min="1" max="20"/>')
    prove(db.place, DAY)
    path = validation_path(db.place, DAY, 1)
    data = bytearray(path.read_bytes())
    if damage == "foreign":
        data = bytearray(path.read_bytes().replace(b"x", b"x"))
        data[8] = 2
    elif damage == "newer":
        data[6] = ord("2")
    elif damage == "flipped":
        data[60] ^= 1
    path.write_bytes(data[:-1] if damage == "cut" else data)
    with pytest.raises((CorruptFileError, UnsupportedVersionError)) as refused:
        prove(db.place, DAY)
    assert str(path) in str(refused.value)
    path.unlink()
    assert prove(db.place, DAY).validation.passed


def test_evidence_of_a_validation_stays_with_the_removal(tmp_path: Path) -> None:
    db = ruled(tmp_path, "")
    empty(db)
    removal = read_removals(db.place).entries[0][1]
    assert removal.proof["validation"]["rules"] == 15
    assert len(removal.proof["validation"]["binding"]) == 64


def test_an_epoch_before_the_merge_can_no_longer_be_read_although_one_source_came_after_it(tmp_path: Path) -> None:
    rng = random.Random(1)
    db = IntradayRows(tmp_path, SCHEMA, fs=FS)
    for source in ("a", "b"):  # an epoch each
        db.commit({(source, DAY): as_table([random_row(rng) for _ in range(10)])})
    add_partition(FS, db.layout, "Test", "0")
    merge(db.layout)
    assert open_table(tmp_path, str(TABLE), epoch={db.stream: 1}).to_arrow().num_rows == 10
    empty(db)
    with pytest.raises(SettingsError, match="can no longer be read"):
        open_table(tmp_path, str(TABLE), epoch={db.stream: 1}).to_arrow()
    assert open_table(tmp_path, str(TABLE)).to_arrow().num_rows == 20
