"""Every check, in the order in which they are reported."""

from __future__ import annotations

from sparkhaven.jobs.monitor.doctor.dates import dates
from sparkhaven.jobs.monitor.doctor.finding import Check, CheckContext, DoctorFinding, Found, checked, line_of, told
from sparkhaven.jobs.monitor.doctor.machine import file_systems, free_space, jdk, permissions, spark, versions
from sparkhaven.jobs.monitor.doctor.streams import clock, epochs, failures, fields, lag, locks, logs, quarantined
from sparkhaven.jobs.monitor.doctor.tables import schemas, tables
from sparkhaven.store.errors import TableNotFoundError, counted
from sparkhaven.store.schema.deployed.deploy import deployed_tables

CHECKS: dict[str, Check] = {
    "versions": versions,
    "spark": spark,
    "jdk": jdk,
    "file system": file_systems,
    "free space": free_space,
}
OF_DATA: dict[str, Check] = {
    "schemas": schemas,
    "permissions": permissions,
    "logs": logs,
    "streams": epochs,
    "failures": failures,
    "locks": locks,
    "lag": lag,
    "clock": clock,
    "fields": fields,
    "dates": dates,
    "quarantine": quarantined,
}


def findings(context: CheckContext) -> list[DoctorFinding]:
    return [*of_machine(context), *of_data(context, verified=True)]


def of_machine(context: CheckContext) -> list[DoctorFinding]:
    """The findings about machine and volumes; they start the JDK to ask its version."""
    return [finding for name, check in CHECKS.items() for finding in checked(name, check, context)]


def of_data(context: CheckContext, *, verified: bool = False) -> list[DoctorFinding]:
    """The findings about the root, its streams and dates. ``verified``: also of tables, which takes longest."""
    if context.fs.stat(context.layout.root) is None:
        message = f"{context.layout.root} does not exist. Ingest creates it"
        return [line_of("root", told("N414", message, context.command("ingest", "STREAM.toml")))]
    findings = checked("root", _root, context)
    if not any(finding.state == "wrong" for finding in findings):
        checks = OF_DATA | ({"tables": tables} if verified else {})
        findings += [finding for name, check in checks.items() for finding in checked(name, check, context)]
    return findings


def _root(context: CheckContext) -> list[Found]:
    tables = deployed_tables(context.fs, context.layout)
    missing = [name for name in context.only if name not in tables]
    if missing:
        raise TableNotFoundError(
            f"no table {missing[0]}", where=context.layout.root, found=", ".join(map(str, tables)) or "no table",
            hint=context.command("stats"),
        )  # fmt: skip
    return [f"{context.layout.root} has {counted(len(tables), 'table')}"]
