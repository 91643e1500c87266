"""The interpreter that Spark runs for a source has to be on the driver's machine too."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from sparkhaven.jobs.session.interpreter import require_program
from sparkhaven.store.errors import EXIT_USAGE, SettingsError


def test_an_interpreter_that_only_the_workers_have_is_refused_before_spark_asks_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    context = SimpleNamespace(pythonExec="./environment/bin/python")
    with pytest.raises(SettingsError) as caught:
        require_program(context)  # type: ignore[arg-type]
    assert (caught.value.found, caught.value.exit_code) == ("./environment/bin/python", EXIT_USAGE)
    assert str(tmp_path) in str(caught.value)
    (tmp_path / "environment" / "bin").mkdir(parents=True)
    (tmp_path / "environment" / "bin" / "python").symlink_to(sys.executable)
    require_program(context)  # type: ignore[arg-type]
