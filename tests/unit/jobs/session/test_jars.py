"""Jars are fetched once, and a cache that is not whole is not taken for one."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkhaven.jobs.session.jars import Artifact, jars
from sparkhaven.store.errors import SettingsError
from sparkhaven.store.io.fs import Fs

ONE = (Artifact("org.example", "thing", "1.0"),)


def _environ(tmp_path: Path, script: str) -> dict[str, str]:
    home = tmp_path / "jdk"
    (home / "bin").mkdir(parents=True, exist_ok=True)
    (home / "release").write_text('JAVA_VERSION="17"\n')
    java = home / "bin" / "java"
    java.write_text(f"#!/bin/sh\n{script}\n")
    java.chmod(0o755)
    return {"JAVA_HOME": str(home), "XDG_CACHE_HOME": str(tmp_path / "cache"), "PATH": "/usr/bin:/bin"}


FETCHES = """while [ $# -gt 0 ]; do [ "$1" = -retrieve ] && to=$2; shift; done
echo jar > "$(dirname "$to")/thing-1.0.jar"; echo 1 >> "$0.calls" """


def test_fetched_once_and_then_found_without_java(tmp_path: Path) -> None:
    environ = _environ(tmp_path, FETCHES)
    (found,) = jars(Fs(), "set", ONE, environ)
    assert found == tmp_path / "cache/sparkhaven/set/thing-1.0.jar"
    assert jars(Fs(), "set", ONE, environ | {"JAVA_HOME": "/nowhere"}) == [found]


def test_a_jar_cut_short_is_fetched_again(tmp_path: Path) -> None:
    environ = _environ(tmp_path, FETCHES)
    (found,) = jars(Fs(), "set", ONE, environ)
    found.write_text("")
    jars(Fs(), "set", ONE, environ)
    assert found.read_text() == "jar\n"
    assert (tmp_path / "jdk/bin/java.calls").read_text() == "1\n1\n"


@pytest.mark.parametrize("script", ["echo 'UNRESOLVED DEPENDENCIES: not found'", "echo 'UnknownHostException'; exit 1"])
def test_what_cannot_be_fetched_is_reported(tmp_path: Path, script: str) -> None:
    environ = _environ(tmp_path, script)
    with pytest.raises(SettingsError, match=r"org\.example:thing:1\.0 cannot be fetched") as caught:
        jars(Fs(), "set", ONE, environ)
    assert caught.value.hint and "network" in caught.value.hint
    assert not (tmp_path / "cache/sparkhaven/set").exists()
