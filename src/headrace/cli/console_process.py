"""The console as a process beside another command: `headrace start --console`, and the demonstration.

It ends with whoever has started it, however that ends: its stdin closes then.
"""

import contextlib
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final, Self

import click

if TYPE_CHECKING:
    from headrace.node.secure_fleet import SecureFleet
    from headrace.settings.broker_config import BrokerConfig

DEFAULT_LISTEN: Final = "127.0.0.1:8080"
READY: Final = "headrace console ready: "
ANY_PORT: Final = "127.0.0.1:0"
_STOP_SECONDS: Final = 15


def console_command(bootstrap: str, listen: str, *words: str, metrics: Sequence[str] = ()) -> list[str]:
    """What starts a console of these brokers that ends when its stdin closes."""
    command = [sys.executable, "-m", "headrace.cli.main", "console", "--supervised"]
    command += ["--bootstrap-server", bootstrap, "--listen", listen, *words]
    return [*command, *(word for url in metrics for word in ("--metrics", url))]


class BesideConsole:
    """The console that `headrace start` has beside its nodes; none where nobody asked for it.

    It tells by itself where it is, on the stdout that this process has. Where it does not start, it says why,
    and the nodes go on.
    """

    def __init__(self, listen: str | None, as_json: bool) -> None:
        self._listen = listen
        self._words = ["--json"] if as_json else []
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            stop_console(self._process)

    def start(
        self,
        addresses: Sequence[str],
        configs: "Sequence[BrokerConfig]",
        secured: "SecureFleet | None" = None,
    ) -> None:
        """The nodes are ready at these addresses."""
        if self._listen is None:
            return
        words = list(self._words)
        if secured is not None:
            words += ["--command-config", str(_login_file(secured))]
        elif configs[0].broker_listeners[0].protocol != "PLAINTEXT":
            click.echo(
                "headrace: no console: it does not know how to log in to these listeners; start it with "
                "`headrace console --command-config FILE`",
                err=True,
            )
            return
        metrics = [url for each in configs if (url := _metrics_url(each))]
        command = console_command(",".join(addresses), self._listen, *words, metrics=metrics)
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE)


def _login_file(secured: "SecureFleet") -> Path:
    """How to reach the cluster and nobody's name: people log in to the console with their own."""
    file = secured.folder / "console.properties"
    settings = secured.client_settings()
    named = ("bootstrap.servers", "sasl.jaas.config", "sasl.username", "sasl.password")
    lines = [f"{name}={value}" for name, value in settings.items() if name not in named]
    file.write_text("\n".join(lines) + "\n")
    return file


def _metrics_url(config: "BrokerConfig") -> str:
    listener = config.str("headrace.metrics.listener")
    protocol, _, where = listener.partition("://")
    return f"{protocol.lower()}://{where}/metrics" if where and not where.endswith(":0") else ""


def stop_console(process: "subprocess.Popen[bytes] | subprocess.Popen[str]") -> None:
    """End it in order, or at once where it does not."""
    assert process.stdin is not None, "it was asked for"
    with contextlib.suppress(OSError):  # it has ended already
        process.stdin.close()
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@contextlib.contextmanager
def quiet_console(bootstrap: str, log: Path, *, port: int | None, metrics: Sequence[str]) -> Iterator[str]:
    """A console whose words go to a file; gives its address. Where its port is taken it has another one.

    It has a session of its own, so that Ctrl-C reaches only this process. The address is empty where it does
    not start: that is no reason to end what is shown in it.
    """
    listen = DEFAULT_LISTEN if port is None else f"127.0.0.1:{port}"
    with log.open("ab") as words:
        for each in dict.fromkeys((listen, ANY_PORT)):
            process = subprocess.Popen(
                console_command(bootstrap, each, metrics=metrics),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=words,
                text=True,
                start_new_session=True,
            )
            assert process.stdout is not None, "it was asked for"
            with contextlib.ExitStack() as stack:
                stack.callback(_end, process, process.stdout)
                url = _ready(process.stdout)
                if url:
                    yield url
                    return
    yield ""


def _ready(said: IO[str]) -> str:
    for line in said:
        if line.startswith(READY):
            return line.removeprefix(READY).strip()
    return ""


def _end(process: "subprocess.Popen[str]", said: IO[str]) -> None:
    stop_console(process)
    said.close()
