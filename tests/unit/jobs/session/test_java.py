"""The JDK is checked before Spark starts; what is wrong with it is one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkhaven.jobs.session.interpreter import check_jdk
from sparkhaven.jobs.session.spark_session import settings
from sparkhaven.readers.spark.releases import Release
from sparkhaven.store.errors import SettingsError
from sparkhaven.store.io.fs import Fs


def jdk(place: Path, version: str | None, answer: str = "") -> dict[str, str]:
    (place / "bin").mkdir(parents=True)
    java = place / "bin" / "java"
    java.write_text(f"#!/bin/sh\necho '{answer}' >&2\n")
    java.chmod(0o755)
    if version is not None:
        (place / "release").write_text(f'IMPLEMENTOR="X"\nJAVA_VERSION="{version}"\n')
    return {"JAVA_HOME": str(place)}


@pytest.mark.parametrize(("version", "major"), [("17.0.15", 17), ("21", 21), ("25-ea", 25)])
def test_release_file_tells_the_version(tmp_path: Path, version: str, major: int) -> None:
    assert check_jdk(Fs(), jdk(tmp_path / "jdk", version)) == major


def test_without_a_release_file_java_is_asked(tmp_path: Path) -> None:
    assert check_jdk(Fs(), jdk(tmp_path / "jdk", None, 'openjdk version "19.0.1" 2022-10-18')) == 19


@pytest.mark.parametrize("version", ["1.8.0_402", "11.0.2", "16"])
def test_too_old(tmp_path: Path, version: str) -> None:
    with pytest.raises(SettingsError) as caught:
        check_jdk(Fs(), jdk(tmp_path / "jdk", version))
    assert caught.value.what == "the JDK is too old for Spark"
    assert (caught.value.expected, caught.value.found) == ("17 or later", version)
    assert "JAVA_HOME" in str(caught.value.hint)


def test_missing(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="no java found"):
        check_jdk(Fs(), {"PATH": str(tmp_path)})
    with pytest.raises(SettingsError, match="JAVA_HOME has no bin/java"):
        check_jdk(Fs(), {"JAVA_HOME": str(tmp_path)})


def test_java_that_answers_nonsense(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="JDK is too old"):
        check_jdk(Fs(), jdk(tmp_path / "jdk", None, "segmentation fault"))


def test_a_submitted_job_keeps_its_master_and_memory() -> None:
    own = settings(workers=2, memory="1g", submitted=False)
    given = settings(workers=2, memory="1g", submitted=True)
    assert own["spark.master"] == "local[2]" and own["spark.driver.host"] == "127.0.0.1"
    assert not {"spark.master", "spark.driver.memory", "spark.driver.host"} & given.keys()
    assert given["spark.pyspark.python"] and given["spark.speculation"] == "false"


@pytest.mark.parametrize(("workers", "memory"), [(0, "1g"), (2, "1 GB"), (2, "lots")])
def test_settings_that_spark_would_not_understand(workers: int, memory: str) -> None:
    with pytest.raises(SettingsError):
        settings(workers=workers, memory=memory, submitted=False)


def test_a_release_of_spark_that_a_new_jdk_does_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "jdk"
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "java").touch()
    (home / "release").write_text('JAVA_VERSION="25.0.1"\n')
    environ = {"JAVA_HOME": str(home)}
    assert check_jdk(Fs(), environ) == 25
    monkeypatch.setattr("sparkhaven.jobs.session.interpreter.installed_spark", lambda: Release("4.1.4", (4, 1)))
    with pytest.raises(SettingsError, match=r"the JDK is too new for Spark 4\.1") as caught:
        check_jdk(Fs(), environ)
    assert caught.value.found == "25.0.1" and "4.2" in str(caught.value.expected)
