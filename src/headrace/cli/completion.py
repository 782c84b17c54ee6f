"""`headrace completion`: a shell that completes commands, options and names of topics and groups.

Names are asked of the cluster that the words so far name, which has a moment to answer: a shell that hangs
helps nobody.
"""

import contextlib
from collections.abc import Iterable
from typing import Final

import click
from click.shell_completion import get_completion_class

from headrace.cli.options import examples, json_option
from headrace.cli.output import print_json

_PATIENCE_MS: Final = 1_500

_INTO: Final = {
    "bash": "~/.bashrc",
    "zsh": "~/.zshrc",
    "fish": "~/.config/fish/completions/headrace.fish",
}


@click.command(
    epilog=examples(
        'eval "$(headrace completion bash)"                                 # in ~/.bashrc',
        'eval "$(headrace completion zsh)"                                  # in ~/.zshrc',
        "headrace completion fish > ~/.config/fish/completions/headrace.fish",
    )
)
@click.argument("shell", type=click.Choice(sorted(_INTO)))
@json_option
@click.pass_context
def completion(ctx: click.Context, shell: str, as_json: bool) -> None:
    """Print what makes SHELL complete commands, options, and names of topics, groups and profiles."""
    kind = get_completion_class(shell)
    assert kind is not None, "click knows all three"
    script = kind(ctx.find_root().command, {}, "headrace", "_HEADRACE_COMPLETE").source()
    if as_json:
        print_json({"shell": shell, "script": script})
    else:
        click.echo(script)


def complete_topics(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Topics of the cluster that is asked; none where it does not answer."""
    from headrace.cli.connecting import open_admin

    names: list[str] = []
    with contextlib.suppress(Exception), open_admin(_server(ctx), _PATIENCE_MS) as admin:
        names = [each.name for each in admin.list_topics() if not each.internal or incomplete.startswith("_")]
    return _starting(names, incomplete)


def complete_groups(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Groups of the cluster that is asked."""
    return _groups(ctx, incomplete)


def complete_share_groups(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Share groups of the cluster that is asked."""
    return _groups(ctx, incomplete, "share")


def _groups(ctx: click.Context, incomplete: str, *types: str) -> list[str]:
    from headrace.cli.connecting import open_admin

    names: list[str] = []
    with contextlib.suppress(Exception), open_admin(_server(ctx), _PATIENCE_MS) as admin:
        names = [each.group_id for each in admin.list_groups(types=types)]
    return _starting(names, incomplete)


def complete_profiles(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Names in the user's file."""
    from headrace.cli.profile import read_profiles

    with contextlib.suppress(click.ClickException):
        return _starting(read_profiles().clusters, incomplete)
    return []


def _server(ctx: click.Context) -> str:
    from headrace.cli.connecting import server_of

    given = ctx.params.get("bootstrap")
    return given if isinstance(given, str) else server_of(ctx)


def _starting(names: Iterable[str], incomplete: str) -> list[str]:
    return sorted(each for each in names if each.startswith(incomplete))
