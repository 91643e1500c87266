"""The jars of Spark's own Kafka connector, for queries whose frames go to ``deephaven_writer``."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from sparkhaven.jobs.session.jars import Artifact, jars
from sparkhaven.store.io.fs import Fs

VERSION = "4.2.0"
CONNECTOR = (
    Artifact("org.apache.spark", "spark-sql-kafka-0-10_2.13", VERSION, alone=True),
    Artifact(
        "org.apache.spark", "spark-token-provider-kafka-0-10_2.13", "4.0.0", alone=True
    ),  # not all mirrors have 4.2.0
    Artifact("org.apache.kafka", "kafka-clients", "3.9.2", alone=True),
    Artifact("org.apache.commons", "commons-pool2", "2.12.0", alone=True),
)


def connector_jars(fs: Fs, environ: Mapping[str, str] = os.environ) -> list[Path]:
    """The connector's jars in the cache, fetched if they are missing. SettingsError when they cannot be fetched."""
    return jars(fs, f"spark-kafka-{VERSION}", CONNECTOR, environ)


def connector_conf(fs: Fs, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Settings of a session whose queries read by Spark's own Kafka connector, and write by ``deephaven_writer``.

    A feed of type ``kafka`` does not need it, and takes half the time. ``build_session(..., extra=connector_conf(fs))``
    takes them. SettingsError when the jars cannot be fetched.
    """
    return {"spark.jars": ",".join(map(str, connector_jars(fs, environ)))}
