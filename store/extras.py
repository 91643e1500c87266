"""Optional parts of the distribution, ``pip install 'sparkhaven[spark]'``, and what to say where one is missing."""

from __future__ import annotations

from sparkhaven.store.errors import SettingsError

EXTRAS = {
    "pyspark": "spark",
    "py4j": "spark",
    "pandas": "spark",
    "confluent_kafka": "kafka",
    "fastavro": "kafka",
    "google": "kafka",  # protobuf
    "delta": "delta",
    "vl_convert": "page",
}
"""The extra that installs a package, by the name that is imported."""


def missing_extra(error: ImportError) -> SettingsError | None:
    """What to say of a package that cannot be imported; None if no extra has it."""
    package = (error.name or "").partition(".")[0]
    extra = EXTRAS.get(package)
    if extra is None or not isinstance(error, ModuleNotFoundError):
        return None
    return SettingsError(
        f"the extra {extra} is not installed",
        expected=f"the package {package}",
        found=str(error),
        hint=f"run `pip install 'sparkhaven[{extra}]'`",
    )
