"""Writes docs/cli.md from the commands themselves: `python tools/cli_docs.py [--check]`.

Each command and sub-command is there with the text of its `--help`. `--check` writes nothing and fails where
the file is not what the code says.
"""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click

from headrace.cli.main import cli

PATH: Final = Path(__file__).resolve().parents[1] / "docs/cli.md"
WIDTH: Final = 110
HEAD: Final = """\
# The `headrace` command

<!-- Written by tools/cli_docs.py from the commands' own help. -->

These commands talk to any Kafka: `--bootstrap-server`, `--profile`, or `HEADRACE_BOOTSTRAP_SERVER` in the environment
says where. Exit codes: 0 done, 1 it failed (one line on stderr says why and what to do), 2 the command was used wrongly,
130 it was interrupted.

**For scripts.** Results are on stdout, everything else on stderr. `--json` prints the result as JSON, and makes an error
the last line on stderr: `{"error": {"message": "topic 'x': there is no such topic; …", "code": "UNKNOWN_TOPIC_OR_PARTITION"}}`.
The code is Kafka's where the cluster answered with one, `USAGE` for a wrong use, `ABORTED` where somebody said no, else
`ERROR`. What deletes something asks first; without a terminal to ask at it is done only with `--yes`.

**Clusters by name.** `headrace profile add production -b kafka-1:9092,kafka-2:9092` keeps a cluster in
`~/.config/headrace/profiles.toml`, `headrace profile use production` makes it the one that commands ask. Whom a command
asks, by order: `--bootstrap-server`, `--profile`, `HEADRACE_BOOTSTRAP_SERVER`, `HEADRACE_PROFILE`, the current profile,
`127.0.0.1:9092`.

**Shells.** `eval "$(headrace completion bash)"` (or `zsh`, `fish`) completes commands, options and names of topics, groups
and profiles.

**Narrow terminals.** A table that is too wide loses columns that matter less, and says which; if that is not enough each
row becomes a block of lines. Names are never cut.
"""


def page() -> str:
    """The whole page."""
    commands = list(_commands(cli, click.Context(cli, info_name="headrace")))
    index = "\n".join(
        f"- [`{context.command_path}`](#{context.command_path.replace(' ', '-')}): {command.get_short_help_str(100)}"
        for command, context in commands
        if context.command_path.count(" ") == 1
    )
    return "\n".join([HEAD, index, "", *(_section(command, context) for command, context in commands)])


def _commands(
    command: click.Command, context: click.Context
) -> Iterator[tuple[click.Command, click.Context]]:
    yield command, context
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            if child is not None and not child.hidden:
                inner = click.Context(child, info_name=name, parent=context)
                inner.terminal_width = inner.max_content_width = WIDTH
                yield from _commands(child, inner)


def _section(command: click.Command, context: click.Context) -> str:
    context.terminal_width = context.max_content_width = WIDTH
    depth = min(context.command_path.count(" "), 2) + 2
    return f"{'#' * depth} {context.command_path}\n\n```text\n{command.get_help(context)}\n```\n"


def main() -> int:
    os.environ["COLUMNS"] = str(WIDTH)
    wanted = page()
    if "--check" not in sys.argv[1:]:
        PATH.write_text(wanted)
        return 0
    if PATH.exists() and PATH.read_text() == wanted:
        return 0
    print(f"{PATH.name} is not what the code says: run python tools/cli_docs.py", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
