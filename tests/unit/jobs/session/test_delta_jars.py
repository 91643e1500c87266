"""Delta's jars are for programs that read the quarantine with Spark: those of the Spark that is installed."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkhaven.jobs.session import jars as module
from sparkhaven.jobs.session.jars import DELTA_SPARKS, delta_jars
from sparkhaven.readers.spark.releases import Release, installed_spark
from sparkhaven.store.errors import SettingsError
from sparkhaven.store.io.fs import Fs


def offline(tmp_path: Path) -> dict[str, str]:
    """An environment whose java finds no network, and an empty cache."""
    home = tmp_path / "jdk"
    (home / "bin").mkdir(parents=True)
    (home / "release").write_text('JAVA_VERSION="17"\n')
    java = home / "bin" / "java"
    java.write_text("#!/bin/sh\necho 'java.net.UnknownHostException: jars.example'; exit 1\n")
    java.chmod(0o755)
    return {"JAVA_HOME": str(home), "XDG_CACHE_HOME": str(tmp_path / "cache"), "PATH": "/usr/bin:/bin"}


def test_the_error_without_network_names_it(tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as caught:
        delta_jars(Fs(), offline(tmp_path))
    assert "UnknownHostException" in str(caught.value.found)


def test_a_spark_that_delta_has_no_jars_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert installed_spark().series in DELTA_SPARKS
    monkeypatch.setattr(module, "installed_spark", lambda: Release("4.9.1", (4, 9)))
    with pytest.raises(SettingsError, match="Delta has no jars") as caught:
        delta_jars(Fs(), offline(tmp_path))
    assert caught.value.found == "pyspark 4.9"
