"""Commands on storage partitions: ``partitions list|add|roll``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sparkhaven.jobs.cli.context import CliContext
from sparkhaven.jobs.cli.options import DryRun, group, help_end
from sparkhaven.jobs.cli.text_table import table
from sparkhaven.store.errors import RetryableStorageError, counted, near
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.io.local_path import local_path
from sparkhaven.store.layout import INTERNAL_NAMESPACE
from sparkhaven.store.places import TablePlace
from sparkhaven.writers.partitions import (
    RolledPartition,
    ensure_writable,
    known_namespaces,
    known_partitions,
    make_partition,
    parse_share,
    roll_partitions,
    writable_names,
)

NamespaceArgument = Annotated[str, typer.Argument(metavar="NS", help="Namespace, like Nyc13.")]

VolumeOption = Annotated[
    Path | None,
    typer.Option(metavar="DIR", parser=local_path, help="Directory on its volume. Default: below the root."),
]


def register(app: typer.Typer) -> None:
    partitions = group("List, add and roll storage partitions of history.")
    partitions.command("list", epilog=help_end("partitions list Nyc13", usage="no such namespace"))(list_)
    line = "partitions add Nyc13 1 --volume /mnt/second"
    partitions.command(epilog=help_end(line, done="done, or it exists", usage="wrong options or names"))(add)
    lines = (
        "partitions roll Nyc13 --volume /mnt/third",
        "partitions roll Nyc13 --if-fuller-than 90% --volume /mnt/third --dry-run",
    )
    usage = "wrong options, no such namespace or volume, files of another user"
    retry = "no volume is empty enough, or one is not mounted"
    partitions.command(epilog=help_end(*lines, done="done, or nothing to roll", usage=usage, retry=retry))(roll)
    app.add_typer(partitions, name="partitions")


def list_(cli: CliContext, namespace: NamespaceArgument) -> None:
    """Lists storage partitions, and which ones merges write to."""
    partitions = known_partitions(cli.database(), namespace)
    names = ("name", "writable", "directory", "free_bytes", "dangling")
    listed = [{name: getattr(partition, name) for name in names} for partition in partitions]
    cli.result(
        {"namespace": namespace, "partitions": listed},
        lambda: table(names, [[entry[name] for name in names] for entry in listed]),
    )


def add(
    cli: CliContext,
    namespace: NamespaceArgument,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the storage partition, like 0.")],
    volume: VolumeOption = None,
    dry_run: DryRun = False,
) -> None:
    """Creates a storage partition, which merges write to."""
    done = make_partition(cli.layout(), namespace, name, volume, dry_run=dry_run)
    text = f"{done.directory} {'would be created' if done.new else 'exists'}"
    if done.free_bytes is not None:
        text = f"storage partition {name} of {namespace}: {done.directory}, {counted(done.free_bytes, 'byte')} free"
    result = {"namespace": namespace, "name": name, "directory": done.directory, "new": done.new}
    cli.result(result | {"new_namespace": done.new_namespace, "dry_run": dry_run}, text)
    if done.new_namespace:
        known = known_namespaces(cli.layout()) - {INTERNAL_NAMESPACE}
        others = f"There are {near(namespace, known).removeprefix('one of ')}" if known else "No namespace has one"
        cli.note(f"namespace {namespace} is new: it has no table yet. {others}")


def roll(
    cli: CliContext,
    namespace: NamespaceArgument,
    if_fuller_than: Annotated[
        str | None,
        typer.Option("--if-fuller-than", metavar="PERCENT", help="Only those on a volume fuller than this, like 90%."),
    ] = None,
    volume: VolumeOption = None,
    dry_run: DryRun = False,
) -> None:
    """Has merges write to new storage partitions instead of these.

    Readers see old and new ones. No file is moved or removed, and dates that are merged stay where they are. Without
    --volume the new partitions go to the volume with most free space, of those that stay writable and that of the
    root.
    """
    limit = None if if_fuller_than is None else parse_share(if_fuller_than, "--if-fuller-than")
    rolled = roll_partitions(
        Fs(), cli.database(), namespace, fuller_than=limit, volume=volume and volume.absolute(), dry_run=dry_run
    )
    result = {"namespace": namespace, "partitions": [_as_json(one) for one in rolled], "dry_run": dry_run}
    lines = [roll_line(one, dry_run=dry_run) for one in rolled]
    cli.result(result, "\n".join(lines) or f"nothing to roll in {namespace}")


def _as_json(rolled: RolledPartition) -> dict[str, str | int | float]:
    return {
        "name": rolled.name,
        "used": round(rolled.used, 4),
        "new": rolled.new,
        "directory": rolled.directory,
        "free_bytes": rolled.free_bytes,
    }


def roll_line(rolled: RolledPartition, *, dry_run: bool) -> str:
    """What was done with a storage partition, in a line."""
    verb = "would write" if dry_run else "write"
    where = f"{rolled.directory}, {counted(rolled.free_bytes, 'byte')} free"
    return (
        f"merges {verb} to storage partition {rolled.new} ({where}) instead of {rolled.name} ({rolled.used:.1%} in use)"
    )


def roll_first(
    cli: CliContext, place: TablePlace, limit: float, volume: Path | None, coming: int, *, dry_run: bool
) -> None:
    """Rolls partitions that are full, or will be with ``coming`` bytes.

    The merge goes on where no volume is emptier: the date may fit yet.
    """
    namespace = place.table.namespace
    if not dry_run:
        ensure_writable(place.fs, place.layout, namespace)
    elif not writable_names(place.fs, place.layout, namespace):
        return
    try:
        target = volume and volume.absolute()
        for rolled in roll_partitions(
            place.fs, place.layout, namespace, fuller_than=limit, volume=target, coming=coming, dry_run=dry_run
        ):
            cli.note(roll_line(rolled, dry_run=dry_run))
    except RetryableStorageError as error:
        cli.note(f"storage partitions of {namespace} are full and were not rolled: {error}")
