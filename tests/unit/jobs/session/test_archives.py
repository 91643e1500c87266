"""Archives of classes in the cache: those whose PySpark is gone go too."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobs.session import fast_start
from jobs.session.fast_start import class_archive, keep_archive
from store.io.fs import Fs

FS = Fs()


def test_an_archive_goes_when_its_pyspark_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environ = {"XDG_CACHE_HOME": str(tmp_path), "JAVA_HOME": str(tmp_path / "jdk"), "PATH": ""}
    (tmp_path / "jdk" / "bin").mkdir(parents=True)
    (tmp_path / "jdk" / "bin" / "java").touch(0o755)
    kept = []
    for name in ("first", "second", "third"):
        installed = tmp_path / name
        installed.mkdir()
        monkeypatch.setattr(fast_start, "_pyspark", lambda installed=installed: installed)
        path = class_archive(FS, environ)
        path.parent.mkdir(exist_ok=True)
        (made := tmp_path / "made").write_text(name)
        if name == "third":
            (tmp_path / "first").rmdir()
        keep_archive(FS, made, path)
        kept.append(path)
    assert [path.exists() for path in kept] == [False, True, True]
    assert sorted(path.parent.iterdir()) == sorted([*kept[1:], *(path.with_suffix(".pyspark") for path in kept[1:])])
