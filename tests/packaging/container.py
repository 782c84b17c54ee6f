"""The Containerfile, built and run without a container engine: a base image is this machine's own root, under
a layer of its own (overlayfs), in namespaces of its own.

    python -m tests.packaging.container

Instructions are carried out in their order, RUN with the layer as root folder. Then the image's own command
runs as its user in a network without others, its health check must pass, a record goes through it, and
SIGTERM must stop it in order. What this cannot show: the real base image, VOLUME, and a container engine's
own limits. Needs Linux, root, and PyPI."""

import json
import os
import re
import shlex
import shutil
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.house.source import ROOT

FILE = ROOT / "packaging/container/Containerfile"
PATH_OF_BASE = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
SECONDS = 60
ENTERED = "HEADRACE_CONTAINER_TEST"
FIRST_RECORD = (
    "headrace topic create t --partitions 1 && echo hello | headrace produce t && "
    "headrace consume t --from-beginning --max-messages 1"
)


class Stage:
    """A root folder: this machine's, and what was changed in it."""

    def __init__(self, folder: Path) -> None:
        self.root, self.changes = folder / "root", folder / "changes"
        for each in (self.root, self.changes, folder / "work"):
            each.mkdir(parents=True)
        layers = f"lowerdir=/,upperdir={self.changes},workdir={folder / 'work'}"
        _call("mount", "-t", "overlay", "overlay", "-o", layers, str(self.root))
        # Nothing of the machine's own is mounted below: what is done here changes the layer alone.
        _call("mount", "-t", "proc", "proc", str(self.root / "proc"))
        _call("mount", "-t", "tmpfs", "dev", str(self.root / "dev"))
        for name, minor in (("null", 3), ("zero", 5), ("full", 7), ("random", 8), ("urandom", 9)):
            os.mknod(self.root / "dev" / name, 0o666 | stat.S_IFCHR, os.makedev(1, minor))
            (self.root / "dev" / name).chmod(0o666)
        self.environment = {"PATH": PATH_OF_BASE}
        self.folder, self.user = "/", "root"
        self.entrypoint: list[str] = []
        self.command: list[str] = []
        self.health: list[str] = []

    def start(self, *words: str) -> "subprocess.Popen[str]":
        """A program in this root, as this user."""
        entered = ["chroot", f"--userspec={self.user}", str(self.root)]
        own = [
            "env",
            "-i",
            "-C",
            self.folder,
            *(f"{name}={value}" for name, value in self.environment.items()),
        ]
        return subprocess.Popen(
            [*entered, *own, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    def run(self, *words: str) -> str:
        process = self.start(*words)
        output, _ = process.communicate()
        if process.returncode:
            sys.exit(f"{shlex.join(words)} ended with {process.returncode}:\n{output}")
        return output


def instructions() -> list[tuple[str, str]]:
    text = re.sub(r"\\\n", " ", FILE.read_text())
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(line.partition(" ")[0], line.partition(" ")[2].strip()) for line in lines]


def build(folder: Path) -> Stage:
    """The last stage, as the file makes it."""
    stages: dict[str, Stage] = {}
    stage: Stage | None = None
    for word, rest in instructions():
        print(f"{word} {rest}", flush=True)
        if word == "FROM":
            name = rest.partition(" AS ")[2] or "last"
            stage = stages[name] = Stage(folder / name)
        elif word != "ARG":
            assert stage is not None
            _carry_out(stage, word, rest, stages)
    assert stage is not None
    return stage


def _carry_out(stage: Stage, word: str, rest: str, stages: dict[str, Stage]) -> None:
    if word == "RUN":
        stage.run("sh", "-c", rest)
    elif word == "COPY":
        _copy(stage, rest.split(), stages)
    elif word == "ENV":
        stage.environment |= dict(pair.split("=", 1) for pair in shlex.split(rest))
    elif word == "WORKDIR":
        stage.folder = rest
        (stage.root / rest.lstrip("/")).mkdir(parents=True, exist_ok=True)
    elif word == "USER":
        stage.user = rest
    elif word in ("ENTRYPOINT", "CMD"):
        setattr(stage, "entrypoint" if word == "ENTRYPOINT" else "command", json.loads(rest))
    elif word == "HEALTHCHECK":
        stage.health = json.loads(rest.partition("CMD ")[2])
    else:
        assert word in ("VOLUME", "EXPOSE", "STOPSIGNAL"), f"{word} is not known here"


def _copy(stage: Stage, words: list[str], stages: dict[str, Stage]) -> None:
    source = ROOT
    if words[0].startswith("--from="):
        source = stages[words.pop(0).removeprefix("--from=")].root
    *names, target = words
    into = stage.root / os.path.join(stage.folder, target).lstrip("/")
    for name in names:
        origin = source / name.lstrip("/")
        if origin.is_dir():
            shutil.copytree(origin, into, symlinks=True, dirs_exist_ok=True)
        else:
            shutil.copy(origin, into)


def try_out(image: Stage) -> None:
    """Run it, in a network that has nobody else."""
    _call("ip", "link", "set", "lo", "up")
    node = image.start(*image.entrypoint, *image.command)
    assert node.stdout is not None
    said = []
    for line in node.stdout:
        said.append(line)
        if line.startswith("headrace ready: "):
            break
    else:
        sys.exit("".join(said))
    image.run(*image.health)
    told = image.run("sh", "-c", FIRST_RECORD)
    assert told.splitlines()[-1] == "hello", told
    assert _user_of(node.pid) == image.run("id", "-u").strip() != "0"
    node.terminate()
    rest, _ = node.communicate(timeout=SECONDS)
    assert node.returncode == 0, rest
    print("the image was built, it serves, is healthy and stops in order")


def _user_of(pid: int) -> str:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(line.split()[1] for line in lines if line.startswith("Uid:"))


def _call(*words: str) -> None:
    subprocess.run(words, check=True)


def main() -> None:
    folder = os.environ.get(ENTERED)
    if folder is None:
        folder = tempfile.mkdtemp(prefix="container-")
        # A mount namespace for the layers: they and all that is in them are gone when it ends. Nobody removes
        # files there, below which this machine's own are seen.
        command = ["unshare", "--mount", "--fork", "--kill-child", sys.executable, "-m", __spec__.name]
        done = subprocess.run(command, env=os.environ | {ENTERED: folder}, cwd=ROOT)
        os.rmdir(folder)
        sys.exit(done.returncode)
    _call("mount", "-t", "tmpfs", "layers", folder)
    image = build(Path(folder))
    _leave_network()  # only now: pip needed one
    try_out(image)


def _leave_network() -> None:
    """Python has os.unshare from 3.12 on."""
    import ctypes

    new_network = 0x40000000  # CLONE_NEWNET of <sched.h>
    if ctypes.CDLL(None, use_errno=True).unshare(new_network):
        raise OSError(ctypes.get_errno(), "unshare")


if __name__ == "__main__":
    main()
