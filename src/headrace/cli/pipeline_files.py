"""Pipelines' files as commands take them: files, and folders of files."""

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from headrace.cli.command_config import config_for
from headrace.cli.options import parse_pairs

if TYPE_CHECKING:
    from headrace.spark.pipeline.spec import PipelineSpec

F = TypeVar("F", bound=Callable[..., Any])

set_option = click.option(
    "--set", "pairs", multiple=True, metavar="NAME=VALUE", help="What ${NAME} stands for in the file's head."
)
files_argument = click.argument(
    "files", nargs=-1, required=True, type=click.Path(exists=True), metavar="FILE…"
)


def read_files(paths: Sequence[str], pairs: Sequence[str]) -> "list[PipelineSpec]":
    """What files say; of a folder all files in SQL or Python that are in it, by name."""
    from headrace.spark.pipeline.errors import PipelineError
    from headrace.spark.pipeline.spec_reader import read_spec

    variables = {**os.environ, **parse_pairs("--set", tuple(pairs))}
    try:
        specs = [read_spec(each, Path(each).read_text(), variables) for each in _expanded(paths)]
    except PipelineError as error:
        raise click.ClickException(str(error)) from error
    for what in ("name", "checkpoint"):
        seen: dict[str, str] = {}
        for spec in specs:
            value = getattr(spec, what)
            if value in seen:
                raise click.ClickException(
                    f"{spec.header.path}: {seen[value]} has the {what} {value} too; give it another"
                )
            seen[value] = spec.header.path
    return specs


def with_clients(specs: "Sequence[PipelineSpec]", bootstrap: str) -> "list[PipelineSpec]":
    """The same, each with what --command-config or the profile says of the clients of its brokers."""
    return [replace(each, clients=config_for(each.brokers, bootstrap)) for each in specs]


def _expanded(paths: Sequence[str]) -> list[str]:
    found = []
    for path in paths:
        if not Path(path).is_dir():
            found.append(path)
            continue
        own = sorted(str(each) for each in Path(path).iterdir() if each.suffix in (".sql", ".py"))
        if not own:
            raise click.ClickException(f"{path}: there is no file in it that ends with .sql or .py")
        found += own
    return list(dict.fromkeys(found))


def places_of(spec: "PipelineSpec") -> list[str]:
    """Folders that workers share."""
    from headrace.spark.pipeline.spec import TABLE_KINDS

    return [spec.checkpoint, *(each.place for each in spec.outputs if each.kind in TABLE_KINDS)]
