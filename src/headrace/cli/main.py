"""The `headrace` command. Each subcommand lives in a module of its own that is imported when it is called.

So `headrace start` imports no client, and `headrace topic list` no node. What goes wrong in a way that a
person can do something about is one line on stderr and exit code 1; a wrong use of the command is exit code
2. Tracebacks are for bugs, and shown with HEADRACE_TRACEBACK=1.
"""

import errno
import os
from importlib import import_module
from typing import Any, Final

import click

from headrace import __version__

# name -> (module, attribute, one line of help)
COMMANDS: Final = {
    "start": ("headrace.cli.start", "start", "Run a node."),
    "demo": (
        "headrace.cli.demo",
        "demo",
        "Run a cluster and a Spark pipeline, and account for every record.",
    ),
    "topic": ("headrace.cli.topic", "topic", "Create, list, describe, alter and delete topics."),
    "config": ("headrace.cli.config", "config", "Read and change settings of topics, brokers and groups."),
    "produce": ("headrace.cli.produce", "produce", "Write records from stdin or a file."),
    "consume": ("headrace.cli.consume", "consume", "Read records to stdout."),
    "pipeline": ("headrace.cli.pipeline", "pipeline", "Derive feeds and tables from feeds with Spark."),
    "load": ("headrace.cli.load", "load", "Load a topic into Parquet, Delta or Iceberg with Spark."),
    "group": ("headrace.cli.group", "group", "List, describe, move and delete consumer groups."),
    "txn": ("headrace.cli.txn", "txn", "See transactions, end one, and find those that hang."),
    "cluster": ("headrace.cli.cluster", "cluster", "Describe nodes, quorum and folders."),
    "quorum": ("headrace.cli.quorum", "quorum", "Show and change who votes on the metadata."),
    "format": ("headrace.cli.format", "format_command", "Prepare the folders of a node of a cluster."),
    "reassign": ("headrace.cli.reassign", "reassign", "Move replicas to other brokers and folders."),
    "sim": ("headrace.cli.sim", "sim", "Play simulated clusters under seeds, and look for a broken rule."),
    "log": ("headrace.cli.log", "log", "Look into a log's files."),
}


class LazyGroup(click.Group):
    """A group that knows its commands by name and imports one when it is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, attribute, _ = COMMANDS[cmd_name]
        command: click.Command = getattr(import_module(module), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, _, line) in COMMANDS.items()])

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except KeyboardInterrupt:
            # How `consume` and a node that still starts are ended: nothing to say about it.
            ctx.exit(130)
        except Exception as error:
            if os.environ.get("HEADRACE_TRACEBACK") or getattr(error, "errno", None) == errno.EPIPE:
                raise
            raise click.ClickException(explain(error)) from error


def explain(error: Exception) -> str:
    """An error in one line for a person."""
    from headrace.base.errors import InvalidBytesError
    from headrace.clients.errors import ClientError
    from headrace.settings.definition import SettingError

    if isinstance(error, ClientError | InvalidBytesError | SettingError):
        return str(error)
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror or error}"
    kind = type(error).__name__
    return f"this should not have happened: {kind}: {error} (HEADRACE_TRACEBACK=1 shows where)"


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="\b\nExamples:\n  headrace start --data data\n  headrace topic create page-views --partitions 3\n"
    "  echo hello | headrace produce page-views\n  headrace consume page-views --from-beginning",
)
@click.version_option(__version__, "-V", "--version", prog_name="headrace", message="%(prog)s %(version)s")
def cli() -> None:
    """A Kafka-compatible streaming log.

    Any Kafka client talks to it, and these commands talk to any Kafka: give its address with
    --bootstrap-server or in HEADRACE_BOOTSTRAP_SERVER.
    """


def main() -> None:
    """The entry point of the `headrace` command."""
    cli.main(prog_name="headrace")


if __name__ == "__main__":
    main()
