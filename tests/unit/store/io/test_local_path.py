"""Paths as users write them: ``file:`` is its path, another scheme is refused by name, everything else is a name."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sparkhaven.store.errors import SettingsError
from sparkhaven.store.io.local_path import local_path

URLS = {
    "file:///data/db": "/data/db",
    "file:/data/db": "/data/db",
    "FILE:///data/db": "/data/db",
    "file://localhost/data/db": "/data/db",
    "file:////data/db": "/data/db",
    "file:///a%20b/%C3%A4%25": "/a b/ä%",
    "file:///a%ffb": os.fsdecode(b"/a\xffb"),
    "file:///a?b#c*": "/a?b#c*",
    "file:///a%zz": "/a%zz",
    "file:///~/x": "/~/x",
    "file:///": "/",
}
NAMES = ["C:\\data", "C:/data", "s3", "s3:bucket", "12:30/x", "./s3://b", "a b:/c", "/x/s3://b", "Date=1:/x", "a=b://c"]
REFUSED = [
    "s3://bucket/db", "s3a://bucket/db", "S3://b", "hdfs://host:9000/x", "hdfs:///x", "gs://b", "abfss://c@h/x",
    "dbfs:/mnt/x", "http://h/x", "https://h", "s3://", "viewfs:///x", "jdbc+x://h", "mem.ory://a\nb",
]  # fmt: skip
OF_OTHERS = {"file://host/x": "host host", "file://host": "host host", "file://": "no path", "file://./x": "host ."}


@pytest.mark.parametrize("url", URLS)
def test_a_file_url_is_its_path(url: str) -> None:
    assert local_path(url) == Path(URLS[url])
    assert local_path(url, Path("/base")) == Path(URLS[url])


@pytest.mark.parametrize("base", [None, Path("/base")])
def test_a_path_of_a_variable_that_is_not_set_is_refused(base: Path | None) -> None:
    with pytest.raises(SettingsError, match="the path is empty"):
        local_path("", base)


@pytest.mark.parametrize("text", REFUSED)
def test_other_schemes_are_refused_by_name(text: str) -> None:
    for path in (text, Path(text)) if "/" in text.rstrip("/") else (text,):  # a Path has one slash left
        with pytest.raises(SettingsError) as caught:
            local_path(path)
        scheme = text.partition(":")[0]
        assert caught.value.what == f"the path has the unsupported scheme {scheme}" and "mount it" in str(
            caught.value.hint
        )
        assert caught.value.where == str(path)


@pytest.mark.parametrize("url", OF_OTHERS)
def test_a_file_of_another_machine_is_refused(url: str) -> None:
    with pytest.raises(SettingsError, match="is not a path of this machine") as caught:
        local_path(url)
    assert caught.value.found == OF_OTHERS[url]


def test_a_zero_byte_is_refused() -> None:
    with pytest.raises(SettingsError, match="zero byte"):
        local_path("file:///a%00b")


@pytest.mark.parametrize("text", NAMES)
def test_everything_else_is_a_name(text: str, tmp_path: Path) -> None:
    assert local_path(text) == Path(text)
    assert local_path(text, tmp_path) == tmp_path / text


def test_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/me")
    assert local_path("~") == Path("/home/me") and local_path("~/db", tmp_path) == Path("/home/me/db")
    assert local_path("~no-such-user/x") == Path("~no-such-user/x"), "the name of a file"
    assert local_path("~no-such-user", tmp_path) == tmp_path / "~no-such-user"
    (tmp_path / "~").mkdir()
    assert local_path("~") == Path("~"), "what is there is taken literally"
    assert local_path("~", tmp_path) == tmp_path / "~"
