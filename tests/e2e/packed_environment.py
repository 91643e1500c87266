"""A packed environment carries jobs on a cluster: ``python -m tests.e2e.packed_environment [environment.tar.gz]``.

``make environment`` packs it. A standalone cluster is started whose machines have none of the packages; the environment
is unpacked beside the driver and sent to the workers by ``--archives``. A stream with a bad row, in batches that
executors run, and a merge then run as docs/howto/cluster.md has the lines. What they took is printed; exit code 1 if
rows are missing, or a worker has not unpacked it.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

import pyspark

from sparkhaven.readers import open_table
from tests.support.places import REPOSITORY
from tests.support.servers.cluster import Cluster
from tests.support.spark.place import PATIENCE, ROWS, SUBMIT, Place

FILES, WIDTH = 4, 1 << 16  # together too large for the driver
BAD_ROW = '{"carrier": 7}\n'
CONF = {
    "spark.executor.memory": "512m",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
}
PYTHON = "./environment/bin/python"  # where both the driver and each executor have it


def run(archive: Path, base: Path) -> int:
    """The whole of it in an empty directory."""
    place = Place.make(base)
    allowed = "max_rows = 10\nmax_fraction = 0.5"
    place.stream.write_text(place.stream.read_text().replace("max_rows = 0", allowed))
    place.put_together(range(FILES), BAD_ROW, width=WIDTH)
    bare = {name: value for name, value in place.environ.items() if not name.startswith(("PYSPARK_", "VIRTUAL_ENV"))}
    bare |= {"PATH": os.defpath, "SPARK_HOME": str(Path(pyspark.__file__).parent)}
    begun = time.monotonic()
    with tarfile.open(archive) as packed:
        packed.extractall(base / "environment", filter="fully_trusted")
    size, unpacked = archive.stat().st_size / 1e6, time.monotonic() - begun
    print(f"{archive.name}: {size:.0f} MB, unpacked beside the driver in {unpacked:.1f} s", flush=True)
    with Cluster(base / "cluster", bare, memory="600m") as cluster:
        for entry, words in (
            ("ingest_stream", [str(place.stream), "--once"]),
            ("merge_dates", ["Nyc13.Flight", "--closed"]),
        ):
            begun = time.monotonic()
            submit(entry, words, cluster.url, place, bare | {"PYSPARK_PYTHON": PYTHON}, archive)
            print(f"{entry}: {time.monotonic() - begun:.1f} s", flush=True)
    found = open_table(place.root, "Nyc13.Flight").count(tier="history")
    quarantined = (place.root / ".quarantine" / "flights" / "_delta_log").is_dir()
    workers = {path.parents[4].name for path in (base / "cluster").glob(f"work-*/app-*/*/{PYTHON}")}
    print(f"{found} of {FILES * ROWS} rows merged, quarantine: {quarantined}, unpacked by {', '.join(sorted(workers))}")
    return 0 if (found, quarantined, len(workers)) == (FILES * ROWS, True, 2) else 1


def submit(entry: str, words: list[str], master: str, place: Place, environ: dict[str, str], archive: Path) -> None:
    """One job; its output is shown only if it fails."""
    conf = [word for name, value in CONF.items() for word in ("--conf", f"{name}={value}")]
    options = ["--master", master, "--archives", f"{archive}#environment", *conf]
    job = [str(REPOSITORY / "jobs" / f"{entry}.py"), "--root", str(place.root), *words]
    done = subprocess.run(
        [SUBMIT, *options, *job], cwd=place.base, env=environ, capture_output=True, text=True, timeout=PATIENCE
    )
    if done.returncode:
        sys.exit(f"{entry} ended with {done.returncode}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}")


def main() -> int:
    """Runs it."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("archive", type=Path, nargs="?", default=REPOSITORY / "environment.tar.gz")
    archive = parser.parse_args().archive.resolve()
    if not archive.is_file():
        parser.error(f"{archive} is not there: make environment")
    with tempfile.TemporaryDirectory(prefix="packed-") as directory:
        return run(archive, Path(directory))


if __name__ == "__main__":
    sys.exit(main())
