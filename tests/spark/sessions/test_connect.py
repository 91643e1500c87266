"""A real Spark Connect server: its clients read and write by the format; writers of a process say that they cannot."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pyspark
import pytest

from sparkhaven.jobs.session.fast_start import python_launcher
from sparkhaven.readers.spark.jvm.jar import jar_file
from sparkhaven.store.io.fs import Fs
from tests.support.places import REPOSITORY
from tests.support.servers.broker import free_port
from tests.support.spark.quick_java import quick_java
from tests.support.tables.small_tables import SmallTable

PATIENCE = 120
CLIENT = """
import sys
import sparkhaven
from pyspark.sql import SparkSession
from sparkhaven.errors import SettingsError

address, root, table, jar = sys.argv[1:]
spark = SparkSession.builder.remote(address).getOrCreate()
frame = sparkhaven.read_frame(spark, root, table, columns=["Size"])
print(frame.count(), frame.where("Size > 1").count(), frame.agg({"Size": "sum"}).collect()[0][0])
more = sparkhaven.read_frame(spark, root, table, columns=["Sym", "Size", "Px", "At", "Live", "Note"]).limit(1)
given = {"root": root, "stream": "c", "internal": '{"fixed": "b"}', "value": '{"fixed": "2013-01-02"}'}
more.write.format("deephaven").options(**given).mode("append").save(table)
print(sparkhaven.read_frame(spark, root, table).count())
fixed = {"internal": {"fixed": "b"}, "value": {"fixed": "2013-01-02"}}
for write in (
    lambda: sparkhaven.write_frame(more, root, table, "d", **fixed),
    lambda: sparkhaven.deephaven_writer(root, table, "d", **fixed)(more, 0),
):
    try:
        write()
    except SettingsError as error:
        print(error.found, error.hint)
spark.addArtifacts(jar)
for _ in range(2):
    frame = spark.read.format("deephaven").option("root", root).load(table)
    print(frame.count(), frame.where("Size > 1").count(), sparkhaven.read_frame(spark, root, table).count())
"""


@pytest.mark.spark
def test_a_client_reads_and_writes(tmp_path: Path) -> None:
    made = SmallTable(tmp_path / "db")
    made.add("a", "2013-01-01", {"Size": [1, 2, 3]})
    port = free_port()
    environ = {**os.environ, **quick_java(), "PYSPARK_PYTHON": python_launcher(Fs(), os.environ)}
    environ["PYTHONPATH"] = str(REPOSITORY)
    submit = str(Path(pyspark.__file__).parent / "bin" / "spark-submit")
    conf = {"spark.connect.grpc.binding.port": str(port), "spark.connect.grpc.binding.address": "127.0.0.1"}
    conf |= {"spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1"}
    words = [word for name, value in conf.items() for word in ("--conf", f"{name}={value}")]
    kind = "org.apache.spark.sql.connect.service.SparkConnectServer"
    with (tmp_path / "server.log").open("w") as log:
        command = [submit, "--master", "local[2]", "--class", kind, *words, "spark-internal"]
        server = subprocess.Popen(command, env=environ, stdout=log, stderr=log, cwd=tmp_path)
        try:
            _wait_for(port, server, tmp_path / "server.log")
            words = [f"sc://127.0.0.1:{port}", str(made.root), str(made.table), str(jar_file(Fs(), os.environ))]
            client = [sys.executable, "-c", CLIENT, *words]
            done = subprocess.run(client, env=environ, capture_output=True, text=True, timeout=PATIENCE, cwd=tmp_path)
        finally:
            server.terminate()
            server.wait(PATIENCE)
    assert done.returncode == 0, done.stderr
    read, after, *refused, one, other = done.stdout.splitlines()
    assert (read, after) == ("3 2 6", "4")
    assert one == other == "4 2 4"  # with the jar in the client's session
    assert len(refused) == 2
    assert done.stderr.count("Spark reads tables by Python: a server of Spark Connect") == 1
    assert all(line.startswith("Spark Connect ") and 'format("deephaven")' in line for line in refused)


def _wait_for(port: int, server: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until and server.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    pytest.fail(log.read_text()[-4000:])
