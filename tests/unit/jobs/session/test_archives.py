"""Archives of classes in the cache: those whose PySpark is gone or was installed again go too."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sparkhaven.jobs.session import fast_start
from sparkhaven.jobs.session.fast_start import archive_options, class_archive, keep_archive
from sparkhaven.store.io.fs import Fs

FS = Fs()


class Machine:
    """A JDK, a cache, and PySparks of one jar each."""

    def __init__(self, base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.base, self.patch = base, monkeypatch
        self.environ = {"XDG_CACHE_HOME": str(base), "JAVA_HOME": str(base / "jdk"), "PATH": ""}
        self.java = base / "jdk" / "bin" / "java"
        self.java.parent.mkdir(parents=True)
        self.java.touch(0o755)

    def install(self, name: str, seconds: int = 1) -> Path:
        """A PySpark with a jar of this time of change; the path of its archive."""
        jar = self.base / name / "jars" / "spark.jar"
        jar.parent.mkdir(parents=True, exist_ok=True)
        jar.touch()
        os.utime(jar, (seconds, seconds))
        self.patch.setattr(fast_start, "_pyspark", lambda: self.base / name)
        return class_archive(FS, self.environ)

    def keep(self, path: Path) -> Path:
        path.parent.mkdir(exist_ok=True)
        (made := self.base / "made").write_text("classes")
        keep_archive(FS, made, path)
        return path


def test_an_archive_goes_when_its_pyspark_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(tmp_path, monkeypatch)
    kept = [machine.keep(machine.install(name)) for name in ("first", "second")]
    (tmp_path / "first" / "jars" / "spark.jar").unlink()
    kept.append(machine.keep(machine.install("third")))
    assert [path.exists() for path in kept] == [False, True, True]
    owners = [path.with_suffix(".pyspark") for path in kept[1:]]
    assert sorted(kept[0].parent.iterdir()) == sorted([*kept[1:], *owners])


def test_an_archive_goes_when_it_was_not_used_for_a_month(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(tmp_path, monkeypatch)
    kept = [machine.keep(machine.install(name)) for name in ("first", "second")]
    for path in kept:
        os.utime(path.with_suffix(".pyspark"), (1, 1))
    assert archive_options(FS, machine.environ)[0].endswith(str(kept[1]))  # a use
    kept.append(machine.keep(machine.install("third")))
    assert [path.exists() for path in kept] == [False, True, True]


def test_a_pyspark_installed_again_at_its_path_needs_another_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The JVM compares times of change and would silently load each class from its jar."""
    machine = Machine(tmp_path, monkeypatch)
    before = machine.keep(machine.install("pyspark"))
    assert machine.install("pyspark") == before
    after = machine.install("pyspark", seconds=2)
    assert after != before
    machine.keep(after)
    assert (before.exists(), after.exists()) == (False, True)


def test_another_jdk_at_the_same_path_needs_another_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(tmp_path, monkeypatch)
    before = machine.install("pyspark")
    machine.java.write_text("upgraded")
    assert machine.install("pyspark") != before
