"""Commands on storage: ``partitions list|add``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from jobs.context import CliContext, DryRun, Json, Verbose, example, table
from store.errors import TableNotFoundError
from store.io.fs import Fs
from store.schema.deployed.deploy import deployed_tables
from writers.partitions import add_partition, list_partitions

NamespaceArgument = Annotated[str, typer.Argument(metavar="NS", help="Namespace, like Nyc13.")]


def register(app: typer.Typer) -> None:
    """Adds the commands of this module."""
    partitions = typer.Typer(help="Storage partitions of history: list, add.", no_args_is_help=True)
    partitions.command("list", epilog=example("partitions list Nyc13"))(list_)
    partitions.command(epilog=example("partitions add Nyc13 1 --volume /mnt/second"))(add)
    app.add_typer(partitions, name="partitions")


def list_(ctx: typer.Context, namespace: NamespaceArgument, as_json: Json = False, verbose: Verbose = False) -> None:
    """Storage partitions that readers see, and which of them a merge may fill."""
    cli: CliContext = ctx.obj
    layout = cli.database()
    found = list_partitions(Fs(), layout, namespace)
    if not found and not any(name.namespace == namespace for name in deployed_tables(Fs(), layout)):
        raise TableNotFoundError(
            f"no namespace {namespace}",
            where=layout.partitions(namespace),
            expected="a namespace with tables or storage partitions",
            hint="`sparkhaven tables` lists what is there; `sparkhaven partitions add` makes the first partition",
        )
    names = ("name", "writable", "directory", "free_bytes", "dangling")
    listed = [{name: getattr(partition, name) for name in names} for partition in found]
    cli.result(
        {"namespace": namespace, "partitions": listed},
        lambda: table(names, [[entry[name] for name in names] for entry in listed]),
    )


def add(
    ctx: typer.Context,
    namespace: NamespaceArgument,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the partition, like 0.")],
    volume: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Directory on the disk that is to hold it.")
    ] = None,
    dry_run: DryRun = False,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Makes a storage partition: readers see it and merges may fill it."""
    cli: CliContext = ctx.obj
    layout = cli.layout()
    before = {partition.name for partition in list_partitions(Fs(), layout, namespace)}
    new = name not in before
    if dry_run:
        place = str(volume.absolute() / namespace / name if volume else layout.partitions(namespace) / name)
        said = "would be made" if new else "is there already"
        result = {"namespace": namespace, "name": name, "directory": place, "new": new, "dry_run": True}
        cli.result(result, f"{place} {said}")
        return
    made = add_partition(Fs(), layout, namespace, name, volume=volume)
    result = {"namespace": namespace, "name": name, "directory": made.directory, "new": new, "dry_run": False}
    cli.result(result, f"partition {name} of {namespace}: {made.directory}, {made.free_bytes:,} bytes free")
