"""The wheel in an environment of its own, beside a project whose packages have the names of our folders."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

from tests.support.places import REPOSITORY

FOLDERS = ("store", "ingest", "writers", "readers", "jobs", "conf")


@dataclass(frozen=True, slots=True)
class Installed:
    """``wheel`` is installed for ``python``; ``project`` has packages that raise when they are imported."""

    wheel: Path
    python: Path
    project: Path

    def run(self, *words: str, environ: dict[str, str]) -> str:
        """Standard output of Python with these words in the project; AssertionError: it has ended with an error."""
        done = subprocess.run(
            [str(self.python), *words], cwd=self.project, env=environ, capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


def build_wheel(base: Path) -> Path:
    """The wheel of this checkout; nothing is written into the checkout."""
    words = ["egg_info", "--egg-base", base, "build", "--build-base", base / "build"]
    words += ["bdist_wheel", "--bdist-dir", base / "wheel", "--dist-dir", base / "dist"]
    subprocess.run(
        [sys.executable, "setup.py", "-q", *map(str, words)], check=True, cwd=REPOSITORY, capture_output=True
    )
    (wheel,) = (base / "dist").iterdir()
    return wheel


def install(base: Path) -> Installed:
    """Builds and installs it; what it depends on is taken from this environment."""
    wheel = build_wheel(base)
    environment = base / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(environment)], check=True)
    python = environment / "bin" / "python"
    (site,) = (environment / "lib").glob("python*/site-packages")
    # a .pth file adds the directory without its own .pth files, so not the checkout
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*pip, "--disable-pip-version-check", str(wheel)], check=True)
    project = base / "project"
    for name in FOLDERS:
        (project / name).mkdir(parents=True)
        (project / name / "__init__.py").write_text(f"raise ImportError('{name} of the user')\n")
    return Installed(wheel, python, project)
