"""Delta where it is needed and nowhere else: what the error says on a machine without network, and when."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from sparkhaven.jobs.cli.main import app
from sparkhaven.jobs.session import choice
from sparkhaven.jobs.session.delta_session import CONF, delta_conf
from sparkhaven.jobs.settings.stream_file import load_stream_file
from sparkhaven.store.errors import SettingsError
from sparkhaven.store.io.fs import Fs
from tests.support.places import REPOSITORY


def offline(tmp_path: Path) -> dict[str, str]:
    """An environment whose java finds no network, and an empty cache."""
    home = tmp_path / "jdk"
    (home / "bin").mkdir(parents=True)
    (home / "release").write_text('JAVA_VERSION="17"\n')
    java = home / "bin" / "java"
    java.write_text("#!/bin/sh\necho 'java.net.UnknownHostException: jars.example'; exit 1\n")
    java.chmod(0o755)
    return {"JAVA_HOME": str(home), "XDG_CACHE_HOME": str(tmp_path / "cache"), "PATH": "/usr/bin:/bin"}


def test_the_error_without_jars_and_network_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="Spark writes rejected rows to a Delta table") as caught:
        delta_conf(Fs(), offline(tmp_path))
    assert "UnknownHostException" in str(caught.value.found)
    assert caught.value.hint and "sparkhaven jars" in caught.value.hint and "max_rows = 0" in caught.value.hint


def test_a_submitted_job_brings_its_own_jars(tmp_path: Path) -> None:
    assert delta_conf(Fs(), {"PYSPARK_GATEWAY_PORT": "1"}) == CONF


def test_a_stream_that_needs_delta_is_refused_before_it_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (REPOSITORY / "conf/streams/flights.toml").read_text()
    text = text.replace("../schemas", str(REPOSITORY / "conf/schemas")).replace("max_rows = 0", "max_rows = 1")
    stream = tmp_path / "flights.toml"
    stream.write_text(text)
    environ = offline(tmp_path) | {"FLIGHTS_FEED": str(tmp_path), "SPARKHAVEN_ROOT": str(tmp_path / "db")}
    for words in ((), ("--once", "--spark")):
        found = CliRunner().invoke(app, ["ingest", str(stream), *words], env=environ)
        assert found.exit_code == 2, found.stderr
        assert "Spark writes rejected rows to a Delta table" in found.stderr
        assert not (tmp_path / "db").exists()
    (tmp_path / "flights-1.json").write_text("{}\n")
    with monkeypatch.context() as patch:
        patch.setattr(choice, "LOCAL_BYTES", 1)  # Spark is chosen once the stream is open
        found = CliRunner().invoke(app, ["ingest", str(stream), "--once"], env=environ)
    assert found.exit_code == 2 and "Spark writes rejected rows to a Delta table" in found.stderr
    assert "Traceback" not in found.stderr


@pytest.mark.parametrize(("given", "keeps"), [("max_rows = 0", False), ("", True), ("max_fraction = 0.0", False)])
def test_which_streams_need_delta(tmp_path: Path, given: str, keeps: bool) -> None:
    text = (REPOSITORY / "conf/streams/flights.toml").read_text().replace("max_rows = 0", given)
    path = tmp_path / "s.toml"
    path.write_text(text)
    assert load_stream_file(Fs(), path, {"FLIGHTS_FEED": "/feed"}).spec.bad_rows.allows_any is keeps
