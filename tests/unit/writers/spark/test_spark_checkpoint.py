"""Repair of Spark's checkpoint: every damage that a power cut leaves, and what a restart finds afterwards."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sparkhaven.jobs.cli.main import app
from sparkhaven.store.errors import TableExistsError, TableNotFoundError
from sparkhaven.store.io.fs import Fs
from sparkhaven.writers.spark.checkpoint_repair import CheckpointRepair, apply_repair, plan_repair

FS = Fs()
ID = "4d9ff0a5-0d35-4b43-a0a3-07b9d4a2a3a1"


def offsets(number: int) -> str:
    return f'v1\n{{"batchWatermarkMs":0}}\n{{"topic":{{"0":{number * 10}}}}}'


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """Batches 0 to 4 are done, batch 5 is planned."""
    place = tmp_path / "checkpoint"
    for name in ("offsets", "commits"):
        (place / name).mkdir(parents=True)
    (place / "metadata").write_text(json.dumps({"id": ID}))
    for number in range(6):
        (place / "offsets" / str(number)).write_text(offsets(number))
        (place / "offsets" / f".{number}.crc").write_bytes(b"crc")
        if number < 5:
            (place / "commits" / str(number)).write_text('v1\n{"nextBatchWatermarkMs":0}')
    return place


def repaired(checkpoint: Path, **known: object) -> CheckpointRepair:
    plan = plan_repair(FS, checkpoint, new_id="new", **known)  # type: ignore[arg-type]
    apply_repair(FS, plan, checkpoint.with_name("backup"))
    again = plan_repair(FS, checkpoint, new_id="newer", **known)  # type: ignore[arg-type]
    assert (again.damages, again.drop, again.metadata) == ((), (), None)
    assert (again.last, again.done) == (plan.last, plan.done)
    return plan


def numbers(checkpoint: Path, name: str) -> list[int]:
    return sorted(int(path.name) for path in (checkpoint / name).iterdir() if path.name.isdigit())


def test_a_sound_checkpoint_is_left_alone(checkpoint: Path) -> None:
    plan = plan_repair(FS, checkpoint, query_id=ID, batch=4)
    assert (plan.damages, plan.drop, plan.metadata, plan.last, plan.done) == ((), (), None, 5, 4)


@pytest.mark.parametrize("content", [b"", b"\0" * 60, b'v1\n{"batch', b"junk", b"v1"])
def test_a_torn_plan_goes_with_what_follows(checkpoint: Path, content: bytes) -> None:
    (checkpoint / "offsets" / "4").write_bytes(content)
    plan = repaired(checkpoint)
    assert (plan.last, plan.done) == (3, 3)
    assert numbers(checkpoint, "offsets") == [0, 1, 2, 3]
    assert numbers(checkpoint, "commits") == [0, 1, 2, 3]
    assert not (checkpoint / "offsets" / ".4.crc").exists()
    assert (checkpoint.with_name("backup") / "offsets" / "4").read_bytes() == content
    assert (checkpoint.with_name("backup") / "offsets" / ".4.crc").exists()


def test_a_torn_end_is_done_again(checkpoint: Path) -> None:
    (checkpoint / "commits" / "4").write_bytes(b"")
    plan = repaired(checkpoint)
    assert (plan.last, plan.done) == (4, 3)


def test_all_empty_starts_from_the_beginning(checkpoint: Path) -> None:
    for path in checkpoint.rglob("[0-9]*"):
        path.write_bytes(b"")
    plan = repaired(checkpoint)
    assert (plan.last, plan.done) == (None, None)
    assert numbers(checkpoint, "offsets") == numbers(checkpoint, "commits") == []


def test_batches_that_no_epoch_has_are_done_again(checkpoint: Path) -> None:
    plan = repaired(checkpoint, query_id=ID, batch=2)
    assert (plan.last, plan.done) == (3, 2)
    assert "the commit log has no epoch of it" in " ".join(damage.what for damage in plan.damages)


def test_the_epochs_of_another_query_say_nothing(checkpoint: Path) -> None:
    assert plan_repair(FS, checkpoint, query_id="another", batch=2).damages == ()


@pytest.mark.parametrize("content", [None, b"", b"{", b"[]"])
def test_a_lost_id_comes_from_the_commit_log(checkpoint: Path, content: bytes | None) -> None:
    path = checkpoint / "metadata"
    path.unlink() if content is None else path.write_bytes(content)
    repaired(checkpoint, query_id=ID, batch=4)
    assert json.loads(path.read_text()) == {"id": ID}


def test_what_does_not_belong_there_is_reported_and_stays(checkpoint: Path) -> None:
    (checkpoint / "offsets" / "notes.txt").write_text("?")
    plan = plan_repair(FS, checkpoint)
    assert [(d.path.name, d.remedy) for d in plan.damages] == [("notes.txt", "left alone")]
    assert plan.drop == ()


def test_the_log_of_a_source_loses_only_what_is_torn_and_not_planned(checkpoint: Path) -> None:
    source = checkpoint / "sources" / "0"
    source.mkdir(parents=True)
    for number in range(6):
        (source / str(number)).write_text('v1\n{"path":"a"}')
    (checkpoint / "offsets" / "4").write_bytes(b"")
    (source / "5").write_bytes(b"")
    (source / "9.compact").write_bytes(b"")
    repaired(checkpoint)
    assert numbers(checkpoint / "sources", "0") == [0, 1, 2, 3, 4]
    assert not (source / "9.compact").exists()
    (source / "1").write_bytes(b"")
    (damage,) = plan_repair(FS, checkpoint).damages
    assert (damage.path, damage.remedy) == (source / "1", "cannot be repaired. Start with a new checkpoint")


@pytest.mark.parametrize("lost", ["5", "5.compact", None])
def test_a_plan_whose_files_are_lost_is_made_anew_unless_it_is_committed(checkpoint: Path, lost: str | None) -> None:
    source = checkpoint / "sources" / "0"
    source.mkdir(parents=True)
    for number in range(6):
        (source / str(number)).write_text('v1\n{"path":"a"}')
        (checkpoint / "offsets" / str(number)).write_text(f'v1\n{{}}\n{{"logOffset":{number}}}')
    assert plan_repair(FS, checkpoint).last == 5
    (source / "5").unlink()
    if lost is not None:
        (source / lost).write_bytes(b"")
    committed = plan_repair(FS, checkpoint, query_id=ID, batch=5)
    assert (committed.last, committed.drop) == (5, ())
    plan = repaired(checkpoint, query_id=ID, batch=4)
    assert (plan.last, plan.done, numbers(checkpoint, "offsets")) == (4, 4, [0, 1, 2, 3, 4])
    assert sorted(path.name for path in source.iterdir()) == ["0", "1", "2", "3", "4"]


def test_a_backup_is_never_written_over(checkpoint: Path) -> None:
    (checkpoint / "offsets" / "5").write_bytes(b"")
    (checkpoint.with_name("backup")).mkdir()
    with pytest.raises(TableExistsError):
        apply_repair(FS, plan_repair(FS, checkpoint), checkpoint.with_name("backup"))
    assert (checkpoint / "offsets" / "5").exists()
    with pytest.raises(TableNotFoundError):
        plan_repair(FS, checkpoint / "nothing")


def test_the_command_only_reports_without_repair(checkpoint: Path) -> None:
    (checkpoint / "offsets" / "5").write_bytes(b"")
    run = CliRunner().invoke
    for words in ([], ["--dry-run"], ["--repair", "--dry-run"]):
        reported = run(app, ["checkpoint", "repair", str(checkpoint), *words, "--json"])
        assert reported.exit_code == 1
        assert (checkpoint / "offsets" / "5").exists()
    assert json.loads(reported.stdout)["findings"][0]["what"] == "is empty"
    assert run(app, ["checkpoint", "repair", str(checkpoint), "Ns.T"]).exit_code == 2
    forced = run(app, ["checkpoint", "repair", str(checkpoint), "--repair", "--json"])
    assert forced.exit_code == 0, forced.output
    backup = Path(json.loads(forced.stdout)["backup"])
    assert (backup / "offsets" / "5").exists()
    assert run(app, ["checkpoint", "repair", str(checkpoint)]).exit_code == 0
    shutil.rmtree(backup)
