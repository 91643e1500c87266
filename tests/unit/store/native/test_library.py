"""Where the compiled core comes from, and what happens where it cannot be used."""

from __future__ import annotations

import platform
import struct
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from native.build import TRAPPING, build, compiler, digest
from native.fuzz.run import TARGETS, run
from sparkhaven.jobs.session.submit_zip import write_zip
from sparkhaven.store.errors import EXIT_USAGE, CoreNotUsableError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.native import library
from sparkhaven.store.native.abi import ABI
from sparkhaven.store.native.library import core, file_name, library_file, load
from tests.support.commands import run as run_command
from tests.support.examples import share_of
from tests.support.places import REPOSITORY
from tests.support.tables.small_tables import SmallTable

MACHINE = platform.machine()
BESIDE = REPOSITORY / "store" / "native" / file_name(MACHINE)


@pytest.fixture
def fresh() -> Iterator[None]:
    """The core is loaded anew in the test, and after it."""
    core.cache_clear()
    yield
    core.cache_clear()


@pytest.fixture
def zipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A package in a zip that has the library in it."""
    with zipfile.ZipFile(tmp_path / "some.zip", "w") as packed:
        packed.writestr("carried/__init__.py", "")
        packed.writestr(f"carried/{BESIDE.name}", BESIDE.read_bytes())
    monkeypatch.syspath_prepend(str(tmp_path / "some.zip"))
    monkeypatch.delitem(sys.modules, "carried", raising=False)
    return "carried"


def test_the_library_is_made_of_these_sources() -> None:
    assert BESIDE.exists(), "pip install --no-build-isolation --no-deps --editable ."
    assert load(BESIDE).sh_sources().decode() == f"sparkhaven-sources:{digest()}", "python native/build.py"


def test_from_a_zip_it_is_copied_once(zipped: str, tmp_path: Path) -> None:
    environ = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    path = library_file(Fs(), environ, zipped)
    assert path.is_relative_to(tmp_path / "cache") and path.read_bytes() == BESIDE.read_bytes()
    before = path.stat()
    assert library_file(Fs(), environ, zipped) == path and path.stat().st_ino == before.st_ino
    path.write_bytes(path.read_bytes()[:-1])
    assert library_file(Fs(), environ, zipped) == path and path.read_bytes() == BESIDE.read_bytes()
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]
    assert load(path).sh_abi() == ABI


def test_a_cache_that_cannot_be_written(zipped: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CoreNotUsableError, match="cannot be copied out of the zip"):
        library_file(Fs(), {"XDG_CACHE_HOME": str(tmp_path / "file")}, zipped)


def test_a_package_without_it() -> None:
    with pytest.raises(CoreNotUsableError, match="the compiled core is missing") as missing:
        library_file(Fs(), {}, "sparkhaven.store.io")
    assert missing.value.expected == f"{BESIDE.name} in sparkhaven.store.io" and "make setup" in str(missing.value)


def test_of_another_machine_or_damaged(tmp_path: Path) -> None:
    data = bytearray(BESIDE.read_bytes())
    struct.pack_into("<H", data, 18, 8)  # MIPS
    for name, content in (("other.so", bytes(data)), ("damaged.so", data[:100]), ("text.so", b"no library")):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(CoreNotUsableError, match="cannot be loaded"):
            load(tmp_path / name)


def test_of_another_version() -> None:
    with pytest.raises(CoreNotUsableError, match="another version") as other:
        load(BESIDE, 99)
    assert (other.value.where, other.value.expected, other.value.found) == (str(BESIDE), "99", str(ABI))


@pytest.mark.usefixtures("fresh")
def test_a_command_without_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = SmallTable(tmp_path)
    small.add("a", "2026-11-20", {"Size": [1, None, 3]})
    small.log().close()
    monkeypatch.setattr(library, "file_name", lambda _: "core-none.so")
    core.cache_clear()
    done = run_command(tmp_path, "merge", "NS.T", "--date", "2026-11-20")
    assert done.exit_code == EXIT_USAGE, done.stderr
    assert "the compiled core is missing" in done.stderr and "install the wheel of sparkhaven" in done.stderr


@pytest.mark.slow
def test_the_zip_for_spark_carries_it(tmp_path: Path) -> None:
    write_zip(tmp_path / "sparkhaven.zip")
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from sparkhaven.store.native.library import core, library_file, Fs, __file__ as f; import os\n"
        "from sparkhaven.ingest.content.lines import line_ends\n"
        "assert 'sparkhaven.zip' in f and core(); print(core()._name, line_ends(b'a\\nb').tolist())"
    )
    environ = {"XDG_CACHE_HOME": str(tmp_path / "cache"), "PATH": "/usr/bin:/bin"}
    words = [sys.executable, "-I", "-c", code, str(tmp_path / "sparkhaven.zip")]
    done = subprocess.run(words, capture_output=True, text=True, check=True, env=environ)
    assert done.stdout.startswith(str(tmp_path / "cache")) and done.stdout.endswith("[0, 2, 3]\n")


@pytest.fixture(scope="module")
def trapping(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The core compiled to end the process at the first undefined behaviour."""
    path = tmp_path_factory.mktemp("trapping") / "trapping.so"
    build(path, MACHINE, TRAPPING)
    return path


@pytest.mark.slow
@pytest.mark.skipif(compiler() is None, reason="needs ziglang")
def test_no_undefined_behaviour(trapping: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from sparkhaven.store.native import library\n"
        "made = library.load(Path(sys.argv[1])); library.core = lambda: made\n"
        "from tests.support.ingest.scanning import lines, records\n"
        "count = int(sys.argv[2]); print(min(lines.compare(count, 2), records.compare(count, 2)))"
    )
    count = share_of(2000)
    done = subprocess.run(
        [sys.executable, "-c", code, str(trapping), f"{count}"],
        capture_output=True,
        text=True,
        cwd=REPOSITORY,
        check=False,
    )
    assert done.returncode == 0 and int(done.stdout) > count // 4, done.stderr


@pytest.mark.slow
@pytest.mark.skipif(compiler() is None, reason="needs ziglang")
def test_no_undefined_behaviour_in_what_merges_use(trapping: Path) -> None:
    code = (
        "import sys, pytest; from pathlib import Path; from sparkhaven.store.native import library\n"
        "made = library.load(Path(sys.argv[1])); library.core = lambda: made\n"
        "sys.exit(pytest.main(['-q', '-p', 'no:cacheprovider', *sys.argv[2:]]))"
    )
    tests = [f"tests/property/store/test_{name}.py" for name in ("native_texts", "native_gather", "digest")]
    done = subprocess.run(
        [sys.executable, "-c", code, str(trapping), *tests],
        capture_output=True,
        text=True,
        cwd=REPOSITORY,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def fuzzed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the core is compiled once for all targets."""
    return tmp_path_factory.mktemp("fuzzed")


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_a_sample_of_the_fuzzer(fuzzed: Path, target: str) -> None:
    done = run(share_of(5_000), 7, fuzzed, target)
    if done is None:
        pytest.skip("needs clang or gcc with the address sanitizer")
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
@pytest.mark.skipif(compiler() is None, reason="needs ziglang")
def test_other_machines(tmp_path: Path) -> None:
    build(tmp_path / "arm.so", "aarch64")
    assert struct.unpack_from("<H", (tmp_path / "arm.so").read_bytes(), 18) == (183,)


@pytest.mark.slow
def test_a_wheel_serves_every_python_of_one_machine(tmp_path: Path) -> None:
    words = ["egg_info", "--egg-base", tmp_path, "build", "--build-base", tmp_path / "build"]
    words += ["bdist_wheel", "--bdist-dir", tmp_path / "wheel", "--dist-dir", tmp_path / "dist"]
    subprocess.run(
        [sys.executable, "setup.py", "-q", *map(str, words)], check=True, cwd=REPOSITORY, capture_output=True
    )
    (wheel,) = (tmp_path / "dist").iterdir()
    assert wheel.name.endswith(f"-py3-none-manylinux_2_17_{MACHINE}.whl")
    with zipfile.ZipFile(wheel) as packed:
        assert packed.read(f"sparkhaven/store/native/{BESIDE.name}") == BESIDE.read_bytes()
        assert [name for name in packed.namelist() if name.endswith(".so")] == [
            f"sparkhaven/store/native/{BESIDE.name}"
        ]
