"""Dates that are detached and come back: the same bytes, proved, whatever was merged, killed or damaged between."""

from __future__ import annotations

import random
import shutil
from base64 import b64decode, b64encode
from dataclasses import replace
from pathlib import Path

import pytest

from sparkhaven.readers.arrow.opening import open_table
from sparkhaven.readers.inspect.any_file import inspect_file
from sparkhaven.store.errors import (
    CorruptFileError,
    MergeError,
    RetryableStorageError,
    SchemaMismatchError,
    SparkhavenError,
    TableNotFoundError,
    UnsupportedVersionError,
)
from sparkhaven.store.format.manifest import DETACHED, Manifest, encode, load
from sparkhaven.store.merges.merge_records import decode_record, encode_record, generations
from sparkhaven.store.merges.validations import load_validation
from sparkhaven.store.places import TablePlace
from sparkhaven.writers.merge.publish.publish_phase import clean
from sparkhaven.writers.transfer.detached_dates import LOCATIONS
from sparkhaven.writers.validation.date_validation import validate_date
from tests.support.disks.contents import contents, flip, hidden
from tests.support.disks.model_fs import Crash, KillingFs, QuickFs
from tests.support.examples import some_of
from tests.support.writers.merge_cases import DAY, TABLE, as_table, comparable, random_row
from tests.support.writers.merge_runs import FS, merge
from tests.support.writers.relocated_dates import (
    NOW,
    attach,
    detach,
    files_of,
    gone,
    merged,
    move,
    over,
    record_of,
    require_sound,
    rows_of,
)
from tests.support.writers.removals import empty, unlink


def shown(rows: list[dict[str, object]]) -> list[str]:
    """Rows in no order."""
    return sorted(repr([comparable(value) for value in row.values()]) for row in rows)


class Copying(QuickFs):
    """Without hard links, as between volumes."""

    def hard_link(self, source: Path, target: Path) -> bool:
        return False


@pytest.mark.parametrize(("format_", "fs"), [("both", FS), ("deephaven", Copying())])
def test_a_detached_date_comes_back_as_it_was(tmp_path: Path, format_: str, fs: QuickFs) -> None:
    db = over(tmp_path, format=format_)
    place, out = TablePlace(FS, db.layout, TABLE), tmp_path / "out"
    before = record_of(db.layout)
    files = files_of(db.layout, [output.internal for output in before.outputs])
    rows, reading = shown(rows_of(db.layout)), iter(open_table(db.layout.root, str(TABLE)).to_batches())
    begun = [next(reading)]
    planned = detach(db.layout, out, dry_run=True)
    assert not out.exists()
    detached = detach(db.layout, out, fs=fs)
    assert planned == detached and detached.path == out / "Test.Every" / f"{DAY}.g1"
    assert (detached.rows, detached.size) == (40, sum(len(data) for one in files for data in one.values()))
    assert rows_of(db.layout) == [] and record_of(db.layout).emptied
    assert shown([row for batch in (*begun, *reading) for row in batch.to_pylist()]) == rows  # a query goes on
    assert detach(db.layout, out).generation == 0
    shown_file = inspect_file(FS, detached.path / DETACHED.name)
    assert shown_file.sound and (shown_file.kind, shown_file.facts["rows"]) == ("manifest of a detached date", 40)
    clean(place, lambda: NOW + 3601)
    require_sound(db, tmp_path)
    kept = contents(detached.path)
    assert attach(db.layout, out, dry_run=True).rows == 40
    assert rows_of(db.layout) == []
    attached = attach(db.layout, out, fs=fs)
    assert (attached.rows, attached.size, attached.generation) == (40, detached.size, 3)
    record = record_of(db.layout)
    assert [output.internal for output in record.outputs] == ["0.g3", "1.g3"]
    assert files_of(db.layout, [output.internal for output in record.outputs]) == files
    assert record.proof == before.proof and record.run.detached == ()
    assert shown(rows_of(db.layout)) == rows and contents(detached.path) == kept
    assert attach(db.layout, detached.path).generation == 0
    validation = load_validation(place, record)
    assert validation is not None and validation.passed and validate_date(place, DAY).passed
    require_sound(db, tmp_path)
    again = detach(db.layout, out)
    assert again.path.name == f"{DAY}.g3" and rows_of(db.layout) == []


def test_rows_that_came_meanwhile_stay_beside_those_that_come_back(tmp_path: Path) -> None:
    db = over(tmp_path)
    first = detach(db.layout, tmp_path / "out").path
    rng = random.Random(4)
    for number in range(2):
        db.commit({(f"late{number}", DAY): as_table([random_row(rng)])})
        merge(db.layout)
        empty(db)
        unlink(db)
        assert len(rows_of(db.layout)) == 1
        if not number:
            second = detach(db.layout, tmp_path / "out").path
    assert [part.rows for part in record_of(db.layout).run.detached] == [40, 1]
    attach(db.layout, first)
    assert len(rows_of(db.layout)) == 41
    record = record_of(db.layout)
    assert record.proof is not None and record.proof.holds and record.proof.dropped == 1
    merge(db.layout, rewrite=True)
    assert [part.rows for part in record_of(db.layout).run.detached] == [1]
    attach(db.layout, second)
    record = record_of(db.layout)
    assert record.proof is not None and record.proof.holds and record.proof.dropped == 0
    assert len(rows_of(db.layout)) == 42 and validate_date(TablePlace(FS, db.layout, TABLE), DAY).passed
    require_sound(db, tmp_path)


def test_a_date_that_intraday_has_is_not_detached(tmp_path: Path) -> None:
    db = merged(tmp_path)
    with pytest.raises(MergeError, match="intraday still has the date"):
        detach(db.layout, tmp_path / "out")
    with pytest.raises(TableNotFoundError, match="no history to drop"):
        detach(db.layout, tmp_path / "out", "2031-01-01")
    assert not (tmp_path / "out").exists()
    gone(db)

    class Full(Copying):
        def free_bytes(self, path: Path) -> int:
            return 10

    class Elsewhere(Full):
        def stat(self, path: Path, *, follow: bool = True) -> object:  # type: ignore[override]
            stat = super().stat(path, follow=follow)
            return stat if stat is None or ".stage-" not in str(path) else replace(stat, device=stat.device + 1)

    with pytest.raises(RetryableStorageError, match="not enough space"):
        detach(db.layout, tmp_path / "out", fs=Elsewhere())
    assert list((tmp_path / "out" / str(TABLE)).iterdir()) == []
    assert len(rows_of(db.layout)) == 60


def test_what_is_not_the_date_that_was_detached_is_refused(tmp_path: Path) -> None:
    db = over(tmp_path)
    path = detach(db.layout, tmp_path / "out").path
    manifest = load(FS, path, DETACHED, lambda manifest: manifest)
    record = decode_record(b64decode(manifest.about["record"]), path)

    def written(**about: object) -> bytes:
        return encode(Manifest(DETACHED, {**manifest.about, **about}, manifest.parts))

    (tmp_path / "foreign").mkdir()
    foreign = over(tmp_path / "foreign")

    def refused(kind: type[SparkhavenError], what: str, layout: object = None) -> None:
        with pytest.raises(kind, match=what) as caught:
            attach(foreign.layout if layout else db.layout, path)
        assert caught.value.hint

    refused(MergeError, "was not detached from this database", foreign)
    data = (path / DETACHED.name).read_bytes()
    flip(path / DETACHED.name, -30)
    refused(CorruptFileError, "is damaged")
    (path / DETACHED.name).write_bytes(data.replace(b'"version":1', b'"version":9'))
    with pytest.raises(UnsupportedVersionError):
        attach(db.layout, path)
    for change, what in (
        ({"table": "Test.Other"}, "date of another table"),
        ({"schema_version": 9}, "newer schema than is deployed"),
    ):
        other = b64encode(encode_record(replace(record, **change))).decode()
        (path / DETACHED.name).write_bytes(written(record=other))
        refused(SchemaMismatchError, what)
    columns = [[number + 1, name, kind] for number, name, kind in manifest.about["columns"]]
    (path / DETACHED.name).write_bytes(written(columns=columns))
    refused(SchemaMismatchError, "columns of the date are not those of the table")
    (path / DETACHED.name).write_bytes(data)
    clean(TablePlace(FS, db.layout, TABLE), lambda: NOW + 3601)
    file = next((path / LOCATIONS).glob("*/*.dat"))
    flip(file, -1)
    refused(CorruptFileError, "other content than was written")
    flip(file, -1)
    file.rename(file.with_suffix(".away"))
    refused(CorruptFileError, "other content than was written")
    file.with_suffix(".away").rename(file)
    assert rows_of(db.layout) == [] and generations(TablePlace(FS, db.layout, TABLE), DAY) == [1, 2]
    attach(db.layout, path)
    move(db.layout)
    refused(MergeError, "attached again already")
    shutil.rmtree(path)
    refused(TableNotFoundError, "has no detached date")
    require_sound(db, tmp_path)


@pytest.mark.slow
def test_detaching_and_attaching_killed_anywhere_end_well_when_run_again(tmp_path: Path) -> None:
    for verb in ("detach", "attach"):
        (tmp_path / verb).mkdir()
        counting = KillingFs()
        db = over(tmp_path / verb, 9)
        detach(db.layout, tmp_path / verb / "out", fs=counting if verb == "detach" else FS)
        if verb == "attach":
            attach(db.layout, tmp_path / verb / "out", fs=counting)
        calls = {*random.Random(3).sample(range(1, counting.changes + 1), 6)}
        for call in some_of(sorted(calls | {*range(counting.changes - 9, counting.changes + 1)})):
            base = tmp_path / f"{verb}-{call}"
            base.mkdir()
            db = over(base, 9)
            rows, out = shown(rows_of(db.layout)), base / "out"
            states = [rows, []] if verb == "detach" else [[], rows]
            if verb == "attach":
                detach(db.layout, out)
            with pytest.raises(Crash):
                (detach if verb == "detach" else attach)(db.layout, out, fs=KillingFs(crash_after=call - 1))
            assert shown(rows_of(db.layout)) in states
            (detach if verb == "detach" else attach)(db.layout, out)
            assert shown(rows_of(db.layout)) == states[1], (verb, call)
            assert hidden(out / str(TABLE)) == []
            require_sound(db, base)
