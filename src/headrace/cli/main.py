"""The `headrace` command. Each subcommand lives in a module of its own that is imported when it is called.

So `headrace start` imports no client, and `headrace topic list` no node. What goes wrong in a way that a
person can do something about is one line on stderr and exit code 1; a wrong use of the command is exit code
2. With --json that line is JSON (`command_group.py`). Tracebacks are for bugs, and shown with
HEADRACE_TRACEBACK=1.
"""

import errno
import os
from importlib import import_module
from typing import Any, Final

import click

from headrace.cli.command_group import CommandGroup, code_of, print_json_error, wants_json

_IS_JSON: Final = "headrace.json"

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
    "share-group": (
        "headrace.cli.share_group",
        "share_group",
        "List, describe, move and delete share groups (queues).",
    ),
    "dlq": ("headrace.cli.dlq", "dlq", "Show and replay what share groups gave up."),
    "acl": ("headrace.cli.acl", "acl", "Add, list and remove access rules."),
    "user": ("headrace.cli.user", "user", "Make, list and remove users who log in with a password."),
    "token": ("headrace.cli.token", "token", "Make, list, renew and end delegation tokens."),
    "quota": ("headrace.cli.quota", "quota", "Limit what users, clients and addresses may use."),
    "elect": ("headrace.cli.elect", "elect", "Have preferred replicas lead again, or any at all."),
    "txn": ("headrace.cli.txn", "txn", "See transactions, end one, and find those that hang."),
    "cluster": ("headrace.cli.cluster", "cluster", "Describe nodes, quorum and folders."),
    "top": ("headrace.cli.top", "top", "Watch brokers, topics, groups and requests, live."),
    "quorum": ("headrace.cli.quorum", "quorum", "Show and change who votes on the metadata."),
    "format": ("headrace.cli.format", "format_command", "Prepare the folders of a node of a cluster."),
    "certs": ("headrace.cli.certs", "certs", "Make, renew and revoke the certificates of a cluster."),
    "console": ("headrace.cli.console", "console", "Show clusters in a browser."),
    "reassign": ("headrace.cli.reassign", "reassign", "Move replicas to other brokers and folders."),
    "perf": ("headrace.cli.perf", "perf", "Measure how fast records are written and read."),
    "sim": ("headrace.cli.sim", "sim", "Play simulated clusters under seeds, and look for a broken rule."),
    "log": ("headrace.cli.log", "log", "Look into a log's files."),
    "doctor": ("headrace.cli.doctor", "doctor", "Say what is wrong with a node or a cluster."),
    "debug": ("headrace.cli.debug", "debug", "Collect what somebody who helps needs to see."),
    "profile": ("headrace.cli.profile", "profile", "Name clusters, and choose the one that commands ask."),
    "completion": ("headrace.cli.completion", "completion", "Complete commands and names in a shell."),
}


class LazyGroup(CommandGroup):
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

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta[_IS_JSON] = wants_json(args)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        if not ctx.meta[_IS_JSON]:
            return self._invoke(ctx)
        try:
            return self._invoke(ctx)
        except click.ClickException as error:
            print_json_error(error.format_message(), code_of(error))
            ctx.exit(error.exit_code)
        except click.Abort as error:
            print_json_error("nothing was done", code_of(error))
            ctx.exit(1)

    def _invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.Abort):
            _end_log_lines()
            raise
        except click.exceptions.Exit:
            raise
        except KeyboardInterrupt:
            # How `consume` and a node that still starts are ended: nothing to say about it.
            ctx.exit(130)
        except Exception as error:
            if os.environ.get("HEADRACE_TRACEBACK") or getattr(error, "errno", None) == errno.EPIPE:
                raise
            _end_log_lines()
            raise click.ClickException(explain(error)) from error


def _end_log_lines() -> None:
    """A node's log lines are written by a thread: what is said last is why the command failed."""
    import logging

    for handler in logging.root.handlers:
        handler.flush()


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


def _print_version(ctx: click.Context) -> None:
    from headrace import __version__  # asking for it costs more than most commands

    click.echo(f"headrace {__version__}")
    ctx.exit()


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="\b\nExamples:\n  headrace start --data data\n  headrace topic create page-views --partitions 3\n"
    "  echo hello | headrace produce page-views\n  headrace consume page-views --from-beginning",
)
@click.option(
    "-V",
    "--version",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=lambda ctx, param, value: _print_version(ctx) if value else None,
    help="Show the version and exit.",
)
def cli() -> None:
    """A Kafka-compatible streaming log.

    Any Kafka client talks to it, and these commands talk to any Kafka: give its address with
    --bootstrap-server or in HEADRACE_BOOTSTRAP_SERVER, or name it once with `headrace profile add`.

    Results are on stdout, everything else on stderr. With --json an error is the last line on stderr:
    {"error": {"message": …, "code": …}}. Exit codes: 0 done, 1 failed, 2 wrongly used, 130 interrupted.
    """


def main() -> None:
    """The entry point of the `headrace` command."""
    cli.main(prog_name="headrace")


if __name__ == "__main__":
    main()
