"""A task is refused where the executor has loaded the Spark reader of another release than the driver."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from java.build import JAR, build, digest
from sparkhaven import errors

pytestmark = pytest.mark.jvm
SOURCE = """
import io.sparkhaven.spark.JarSources;
public class Executor {
  public static void main(String[] words) {
    JarSources.requireSame(JarSources.digest());
    JarSources.requireSame(words[0]);
  }
}
"""


def test_the_error_names_both_and_the_jar(tmp_path: Path) -> None:
    build()
    program = tmp_path / "Executor.java"
    program.write_text(SOURCE)
    command = ["java", "-Xshare:auto", "-XX:TieredStopAtLevel=1", "-cp", str(JAR), str(program)]
    assert subprocess.run([*command, digest()], check=False).returncode == 0
    done = subprocess.run([*command, "0" * 64], capture_output=True, text=True, check=False)
    error = errors.from_spark(RuntimeError(done.stderr))
    assert isinstance(error, errors.SettingsError), done.stderr
    assert (error.expected, error.found) == ("0" * 64, digest())
    assert str(JAR) in str(error.where) and "extraClassPath" in str(error.hint)
