"""Storage partitions: links, volumes, order, refusals."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkhaven.store.errors import InvalidNameError, MergeError, SettingsError, TableExistsError, TableNotFoundError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, LocationKey
from sparkhaven.store.merges.merge_records import newest
from sparkhaven.writers.partitions import add_partition, ensure_writable, list_partitions, volumes, writable_names
from tests.support.disks.contents import hidden
from tests.support.writers.merge_cases import DAY, read_location
from tests.support.writers.merge_runs import FS, make, merge


def test_add_makes_directory_and_relative_link_and_may_be_repeated(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    for _ in range(2):
        made = add_partition(FS, layout, "Test", "0")
        assert (made.name, made.writable, made.dangling) == ("0", True, False)
    link = layout.writable_partitions("Test") / "0"
    assert link.readlink() == Path("../Partitions/0")
    assert (layout.partitions("Test") / "0").is_dir()


def test_names_are_listed_in_formula_order(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    for name in ("b", "10", "2", "B"):
        add_partition(FS, layout, "Test", name)
    (layout.writable_partitions("Test") / "B").unlink()  # a full volume is closed by taking its link away
    assert writable_names(FS, layout, "Test") == ["2", "10", "b"]
    assert [(p.name, p.writable) for p in list_partitions(FS, layout, "Test")] == [
        ("2", True),
        ("10", True),
        ("B", False),
        ("b", True),
    ]


def test_the_default_partition_comes_by_itself(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    assert ensure_writable(FS, layout, "Test") == ["0"]
    assert ensure_writable(FS, layout, "Test") == ["0"]


def test_a_partition_on_a_volume_holds_the_data_there_also_of_later_generations(tmp_path: Path) -> None:
    db, _ = make(tmp_path / "db", 60, partitions=1)
    volume = tmp_path / "volume"
    volume.mkdir()
    made = add_partition(FS, db.layout, "Test", "1", volume=volume)
    assert made.directory == str(volume / "Test" / "1")
    merge(db.layout)
    assert (volume / "Test" / "1" / DAY / "Every" / "table.size").is_file()
    merge(db.layout, rewrite=True)
    record = newest(db.place, DAY)
    assert record is not None
    assert sorted(o.internal for o in record.outputs) == ["0.g2", "1.g2"]
    assert (volume / "Test" / "1.g2" / DAY / "Every" / "table.size").is_file()
    assert (db.layout.partitions("Test") / "1.g2").is_symlink()
    rows = [r for o in record.outputs for r in read_location(db.layout, db.schema, LocationKey(o.internal, DAY))]
    assert len(rows) == 60
    assert hidden(volume) == hidden(volume / "Test") == hidden(db.layout.system("Test")) == []


def test_refusals(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "db")
    with pytest.raises(InvalidNameError, match="storage partition"):
        add_partition(FS, layout, "Test", "../up")
    with pytest.raises(InvalidNameError, match="name is reserved for merges"):
        add_partition(FS, layout, "Test", "0.g2")
    with pytest.raises(SettingsError, match="volume does not exist"):
        add_partition(FS, layout, "Test", "0", volume=tmp_path / "nowhere")
    add_partition(FS, layout, "Test", "0")
    with pytest.raises(TableExistsError, match="another place"):
        add_partition(FS, layout, "Test", "0", volume=tmp_path)
    (layout.writable_partitions("Test") / "9").symlink_to("../Partitions/9")
    with pytest.raises(TableNotFoundError, match="is broken"):
        volumes(FS, layout, "Test", ["9"])
    (layout.writable_partitions("Test") / "8").mkdir()
    (layout.partitions("Test") / "8").mkdir()
    with pytest.raises(MergeError, match="not the directory that readers see"):
        volumes(FS, layout, "Test", ["8"])


def test_staging_on_another_file_system_is_refused(tmp_path: Path) -> None:
    class Mounted(Fs):
        def stat(self, path: Path, *, follow: bool = True):  # type: ignore[no-untyped-def]
            found = super().stat(path, follow=follow)
            return found if found is None or path.name != "0" else type(found)(0, 0, 0, 1, 99, True, False)

    layout = Layout(tmp_path)
    add_partition(FS, layout, "Test", "0")
    with pytest.raises(MergeError, match="no staging directory"):
        volumes(Mounted(), layout, "Test", ["0"])
