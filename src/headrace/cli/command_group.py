"""A group of commands: what it says to a command that it does not have, and errors as JSON for scripts.

Where `--json` is among the words, an error is one line on stderr, the last one there:

    {"error": {"message": "topic 'x': there is no such topic", "code": "UNKNOWN_TOPIC_OR_PARTITION"}}

The code is Kafka's where the cluster answered with one, `USAGE` for a wrong use of the command (exit code 2),
`ABORTED` where somebody said no, and else `ERROR`. Stdout has results only.
"""

import json
from difflib import get_close_matches
from typing import Any, Final

import click

# What people type who know other tools.
_SYNONYMS: Final = {
    "ls": "list",
    "rm": "delete",
    "remove": "delete",
    "del": "delete",
    "drop": "delete",
    "show": "describe",
    "get": "describe",
    "info": "describe",
    "new": "create",
    "add": "create",
    "make": "create",
    "set": "alter",
    "edit": "alter",
    "read": "consume",
    "cat": "consume",
    "tail": "consume",
    "write": "produce",
    "send": "produce",
    "serve": "start",
    "server": "start",
    "truncate": "trim",
    "leader-election": "elect",
    "bench": "perf",
    "transactions": "txn",
}

_SENTENCE: Final = 1_000  # letters: all of it


class CommandGroup(click.Group):
    """A group that suggests the command which was meant."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        word = args[0]
        if self.get_command(ctx, word) is None and not ctx.resilient_parsing and not word.startswith("-"):
            raise click.UsageError(_no_such(word, self.list_commands(ctx)), ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Each command's first sentence, on as many lines as it needs: click cuts it."""
        commands = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, each.get_short_help_str(_SENTENCE)) for name, each in commands if each]
            )


def _no_such(word: str, known: list[str]) -> str:
    meant = [_SYNONYMS[word]] if _SYNONYMS.get(word) in known else get_close_matches(word, known, 1)
    hint = f" Did you mean {meant[0]!r}?" if meant else f" There are {', '.join(known)}."
    return f"No such command {word!r}.{hint}"


def wants_json(words: list[str]) -> bool:
    """Whether a command was called with --json, however wrong the rest of it is."""
    options = words[: words.index("--")] if "--" in words else words
    return "--json" in options


def print_json_error(message: str, code: str) -> None:
    """The last line on stderr of a command that failed."""
    error: dict[str, Any] = {"message": message, "code": code}
    click.echo(json.dumps({"error": error}, ensure_ascii=False), err=True)


def code_of(error: BaseException | None) -> str:
    """Kafka's name for what went wrong where there is one."""
    if isinstance(error, click.UsageError):
        return "USAGE"
    if isinstance(error, click.Abort):
        return "ABORTED"
    code = getattr(error, "code", None)
    if code is not None and hasattr(code, "name"):
        return str(code.name)
    return code_of(error.__cause__) if error is not None and error.__cause__ is not None else "ERROR"
