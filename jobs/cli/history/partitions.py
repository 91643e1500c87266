"""Commands on storage partitions: ``partitions list|add``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sparkhaven.jobs.cli.context import CliContext
from sparkhaven.jobs.cli.options import DryRun, group, help_end
from sparkhaven.jobs.cli.text_table import table
from sparkhaven.store.errors import TableNotFoundError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.io.local_path import local_path
from sparkhaven.store.schema.deployed.deploy import deployed_tables
from sparkhaven.writers.partitions import add_partition, list_partitions

NamespaceArgument = Annotated[str, typer.Argument(metavar="NS", help="Namespace, like Nyc13.")]


def register(app: typer.Typer) -> None:
    partitions = group("List and add storage partitions of history.")
    partitions.command("list", epilog=help_end("partitions list Nyc13", usage="no such namespace"))(list_)
    line = "partitions add Nyc13 1 --volume /mnt/second"
    partitions.command(epilog=help_end(line, done="done, or it exists", usage="wrong options or names"))(add)
    app.add_typer(partitions, name="partitions")


def list_(ctx: typer.Context, namespace: NamespaceArgument) -> None:
    """Lists storage partitions, and which ones merges write to."""
    cli: CliContext = ctx.obj
    layout = cli.database()
    partitions = list_partitions(Fs(), layout, namespace)
    if not partitions and not any(name.namespace == namespace for name in deployed_tables(Fs(), layout)):
        raise TableNotFoundError(
            f"no namespace {namespace}",
            where=layout.partitions(namespace),
            expected="a namespace with tables or storage partitions",
            hint=f"`sparkhaven tables` lists the tables. `sparkhaven partitions add {namespace} 0` creates a partition",
        )
    names = ("name", "writable", "directory", "free_bytes", "dangling")
    listed = [{name: getattr(partition, name) for name in names} for partition in partitions]
    cli.result(
        {"namespace": namespace, "partitions": listed},
        lambda: table(names, [[entry[name] for name in names] for entry in listed]),
    )


def add(
    ctx: typer.Context,
    namespace: NamespaceArgument,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the storage partition, like 0.")],
    volume: Annotated[
        Path | None,
        typer.Option(metavar="DIR", parser=local_path, help="Directory on its volume. Default: below the root."),
    ] = None,
    dry_run: DryRun = False,
) -> None:
    """Creates a storage partition, which merges write to."""
    cli: CliContext = ctx.obj
    layout = cli.layout()
    before = {partition.name for partition in list_partitions(Fs(), layout, namespace)}
    new = name not in before
    if dry_run:
        directory = str(volume.absolute() / namespace / name if volume else layout.partitions(namespace) / name)
        state = "would be created" if new else "exists"
        result = {"namespace": namespace, "name": name, "directory": directory, "new": new, "dry_run": True}
        cli.result(result, f"{directory} {state}")
        return
    partition = add_partition(Fs(), layout, namespace, name, volume=volume)
    result = {"namespace": namespace, "name": name, "directory": partition.directory, "new": new, "dry_run": False}
    cli.result(
        result, f"storage partition {name} of {namespace}: {partition.directory}, {partition.free_bytes:,} bytes free"
    )
