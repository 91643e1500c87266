"""The zip for ``spark-submit --py-files``: ``python -m sparkhaven.jobs.session.submit_zip OUT.zip``.

A process that imports from a zip cannot cache bytecode: every driver, planner and worker would compile all modules
again, for seconds. So the zip has the bytecode of each module beside it, for the Python that has made the zip; another
version ignores it and compiles.
"""

from __future__ import annotations

import argparse
import os
import py_compile
import tempfile
import zipfile
from pathlib import Path

PACKAGES = ("sparkhaven", "pyspark_sparkhaven")
ROOT = Path(__file__).absolute().parents[3]


def write_zip(target: Path, root: Path = ROOT) -> None:
    """Packs the packages below ``root``, a checkout or site-packages; an existing zip is replaced.

    All entries have the same time: the same sources give the same bytes.
    """
    # a checkout has links to its top-level folders, which rglob would not enter
    walks = [walk for name in PACKAGES for walk in os.walk(root / name, followlinks=True)]
    files = sorted(Path(folder, name) for folder, _, names in walks for name in names)
    unfinished = target.with_name(f".{target.name}.tmp")
    with zipfile.ZipFile(unfinished, "w", zipfile.ZIP_DEFLATED) as packed, tempfile.TemporaryDirectory() as scratch:
        for path in files:
            if "__pycache__" in path.parts:
                continue
            name = path.relative_to(root).as_posix()
            packed.writestr(zipfile.ZipInfo(name), path.read_bytes(), zipfile.ZIP_DEFLATED)
            if path.suffix == ".py":
                compiled = Path(scratch) / "module.pyc"
                unchecked = py_compile.PycInvalidationMode.UNCHECKED_HASH
                py_compile.compile(str(path), str(compiled), name, doraise=True, invalidation_mode=unchecked)
                packed.writestr(zipfile.ZipInfo(f"{name}c"), compiled.read_bytes(), zipfile.ZIP_DEFLATED)
    unfinished.replace(target)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Writes the zip for spark-submit --py-files.")
    parser.add_argument("target", type=Path)
    write_zip(parser.parse_args().target)
