"""Builds the compiled core and the Spark reader into the package; everything else is in ``pyproject.toml``.

The library is loaded by ctypes and knows nothing of Python, so one wheel of a machine serves every Python version. pip
installs Zig's compiler for the build (``ziglang``); without it the build fails. ``SPARKHAVEN_MACHINE=aarch64`` builds
for another machine. The Spark reader is a jar. With no ``javac``, or no jars of Spark, the package is built without it:
Spark then reads by Python.
"""

from __future__ import annotations

import os
import platform
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

from setuptools import setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py

HERE = Path(__file__).resolve().parent
MACHINE = os.environ.get("SPARKHAVEN_MACHINE") or platform.machine()
native: dict[str, Any] = runpy.run_path(str(HERE / "native" / "build.py"))
LIBRARY: Path = native["library"](MACHINE)
java: dict[str, Any] = runpy.run_path(str(HERE / "java" / "build.py"))


class BuildCompiled(build_py):  # type: ignore[misc]
    """Compiles first; takes along the library of one machine only."""

    def run(self) -> None:
        native["build"](LIBRARY, MACHINE)
        try:
            java["build"]()
        except (OSError, subprocess.CalledProcessError) as error:
            java["JAR"].unlink(missing_ok=True)  # one of other sources
            print(f"the Spark reader is not built: {error}; Spark will read by Python", file=sys.stderr)
        super().run()

    def find_data_files(self, package: str, src_dir: str) -> list[str]:
        files = super().find_data_files(package, src_dir)
        return [name for name in files if not name.endswith(".so") or Path(name).name == LIBRARY.name]


class PlatformWheel(bdist_wheel):  # type: ignore[misc]
    """A wheel for every Python version on one kind of machine."""

    def get_tag(self) -> tuple[str, str, str]:
        glibc = native["GLIBC"].replace(".", "_")
        return ("py3", "none", f"manylinux_{glibc}_{MACHINE}")


setup(cmdclass={"build_py": BuildCompiled, "bdist_wheel": PlatformWheel})
