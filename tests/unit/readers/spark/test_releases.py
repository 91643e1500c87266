"""The release of Spark is looked at before Spark starts, wherever PySpark lies, and without importing it."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

import pytest

from sparkhaven.readers.spark.releases import installed_spark
from sparkhaven.store.errors import SettingsError


def test_the_installed_release() -> None:
    found = installed_spark()
    assert found.version.startswith("4.2.") and (found.numbers, found.series) == ((4, 2), "4.2")


@pytest.mark.parametrize("version", ["3.5.9", "5.0.0", "nonsense"])
def test_a_release_that_is_not_supported_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    """As in the zip that spark-submit puts on the path."""
    packed = tmp_path / "pyspark.zip"
    with zipfile.ZipFile(packed, "w") as files:
        files.writestr("pyspark/__init__.py", "raise ImportError('it is imported')")
        files.writestr("pyspark/version.py", f'__version__: str = "{version}"\n')
    for name in [name for name in sys.modules if name.partition(".")[0] == "pyspark"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(str(packed))
    with pytest.raises(SettingsError, match="this release of Spark is not supported") as caught:
        installed_spark()
    assert (caught.value.expected, caught.value.found) == ("pyspark >= 4.0, < 5", f"pyspark {version}")
    assert str(caught.value.where).startswith(str(packed)) and caught.value.hint


def test_no_spark_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sparkhaven.readers.spark.releases.find_spec", lambda name: None)
    with pytest.raises(SettingsError, match="Spark is not installed") as caught:
        installed_spark()
    assert "sparkhaven[spark]" in str(caught.value.hint)
