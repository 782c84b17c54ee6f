"""Brings what the compatibility suite needs from other worlds: Apache Kafka's jars, and the client programs
in Java, Go and Node, each built once.

`python -m tests.compat.prepare` does all of it and says what cannot be had (`./test --all` calls it); a test
that needs one of them calls it too, so plain pytest works. Everything lands outside the checkout: jars in
PEERS_HOME (default ~/.cache/peers), programs in XDG_CACHE_HOME/headrace-tests (default ~/.cache), in a folder
named after the check sum of their sources. It appears there by one rename, so two runs cannot see each
other's halves.
"""

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

HERE = Path(__file__).parent
AXE_VERSION = "4.14.0"


class UnavailableError(Exception):
    """A tool is not on this machine, or what it should bring cannot be had; the text says which."""


def kafka_version() -> str:
    found = re.search(r"<kafka\.version>(.+)</kafka\.version>", (HERE / "java/pom.xml").read_text())
    assert found
    return found[1]


def kafka_libs() -> Path:
    """Apache Kafka's jars, from Maven Central."""
    _need("java", "a Java runtime, 17 or newer")
    home = Path(os.environ.get("PEERS_HOME") or Path.home() / ".cache/peers")
    libs = home / "kafka" / kafka_version() / "libs"
    if not (libs / f"kafka-tools-{kafka_version()}.jar").exists():
        _need("mvn", "Maven, which fetches Apache Kafka's jars")
        command = ["mvn", "-B", "-q", "-f", str(HERE / "java/pom.xml"), "dependency:copy-dependencies"]
        _build(libs, lambda work: _call([*command, f"-DoutputDirectory={work}"], HERE, "Maven Central"))
    return libs


def connector_libs() -> Path:
    """Spark's Kafka connector and what it needs, from Maven Central."""
    _need("java", "a Java runtime, 17 or newer")
    pom = HERE.parent / "spark/connector/pom.xml"
    libs = _program_folder("spark-connector", [pom])
    if not libs.exists():
        _need("mvn", "Maven, which fetches Spark's Kafka connector")
        command = ["mvn", "-B", "-q", "-f", str(pom), "dependency:copy-dependencies"]
        _build(libs, lambda work: _call([*command, f"-DoutputDirectory={work}"], HERE, "Maven Central"))
    return libs


def jars(name: str, *coordinates: str) -> Path:
    """Artifacts, as group:artifact:version or group:artifact:version:classifier, and what they need, from
    Maven Central."""
    _need("java", "a Java runtime, 17 or newer")
    pom = _pom(coordinates)
    libs = _folder_of(name, pom.encode())
    if not libs.exists():
        _need("mvn", "Maven, which fetches Java libraries")

        def fetch(work: Path) -> None:
            (work / "pom.xml").write_text(pom)
            command = ["mvn", "-B", "-q", "dependency:copy-dependencies", f"-DoutputDirectory={work}"]
            _call(command, work, "Maven Central")

        _build(libs, fetch)
    return libs


def _pom(coordinates: tuple[str, ...]) -> str:
    def dependency(group: str, artifact: str, version: str, classifier: str = "") -> str:
        names = f"<groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version>"
        names += f"<classifier>{classifier}</classifier>" if classifier else ""
        return f"<dependency>{names}</dependency>"

    return (
        "<project><modelVersion>4.0.0</modelVersion>"
        "<groupId>headrace.tests</groupId><artifactId>libraries</artifactId><version>1</version><dependencies>"
        + "".join(dependency(*each.split(":")) for each in coordinates)
        + "</dependencies></project>"
    )


def java_class(source: Path, libs: Path) -> Path:
    """A folder with the classes of one source, compiled against these jars."""
    _need("javac", "a Java development kit, 17 or newer")
    classes = _folder_of(source.stem, source.read_bytes() + libs.name.encode())
    if not classes.exists():
        command = ["javac", "-nowarn", "-cp", f"{libs}/*", str(source)]
        _build(classes, lambda work: _call([*command, "-d", str(work)], HERE, "javac"))
    return classes


def java_command(*flags: str, classes: Path | None = None) -> list[str]:
    """The start of a command line that runs a main class out of Kafka's jars."""
    path = f"{kafka_libs()}/*" if classes is None else f"{classes}:{kafka_libs()}/*"
    logging = f"-Dlog4j2.configurationFile={HERE / 'java/log4j2.properties'}"
    return [
        "java",
        *(flags or ("-Xmx256M", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")),
        logging,
        "-cp",
        path,
    ]


def java_program() -> Path:
    """A folder with the classes of java/*.java."""
    _need("javac", "a Java development kit, 17 or newer")
    sources = sorted((HERE / "java").glob("*.java"))
    classes = _program_folder("java", [*sources, HERE / "java/pom.xml"])
    if not classes.exists():
        command = ["javac", "-nowarn", "-cp", f"{kafka_libs()}/*"]
        _build(classes, lambda work: _call([*command, "-d", str(work), *map(str, sources)], HERE, "javac"))
    return classes


def go_program() -> Path:
    """The program of golang/, which holds every Go client."""
    _need("go", "Go, 1.26 or newer")
    folder = HERE / "golang"
    out = _program_folder("golang", [*sorted(folder.glob("*.go")), folder / "go.mod", folder / "go.sum"])
    if not out.exists():
        command = ["go", "build", "-mod=readonly", "-trimpath"]
        _build(
            out, lambda work: _call([*command, "-o", str(work / "clients"), "."], folder, "Go's module proxy")
        )
    return out / "clients"


def node_program() -> Path:
    """A folder with nodejs/ and its node_modules."""
    _need("node", "Node, 20 or newer")
    _need("npm", "npm")
    sources = [path for path in sorted((HERE / "nodejs").iterdir()) if path.is_file()]
    out = _program_folder("nodejs", sources)

    def install(work: Path) -> None:
        for source in sources:
            shutil.copy(source, work)
        _call(["npm", "ci", "--no-audit", "--no-fund"], work, "the npm registry")

    if not out.exists():
        _build(out, install)
    return out


def prometheus() -> Path:
    """A folder with Debian's `prometheus` and `promtool`: the system's, or its package unpacked beside it,
    which starts no service."""
    found = shutil.which("prometheus")
    if found is not None and shutil.which("promtool") is not None:
        return Path(found).parent
    _need("apt-get", "Debian or what is made from it, for its Prometheus; or `prometheus` on the PATH")
    _need("dpkg-deb", "dpkg")
    out = _folder_of("prometheus", b"debian")
    if not out.exists():
        _build(out, lambda work: _unpack(work, ["prometheus"]))
    return out / "usr/bin"


def chromium() -> tuple[Path, dict[str, str]]:
    """Debian's Chromium and what it needs in its environment: the system's, or its packages, and those of
    libraries that this machine does not have, unpacked beside it."""
    found = shutil.which("chromium")
    if found is not None:
        return Path(found), {}
    _need("apt-get", "Debian or what is made from it, for its Chromium; or `chromium` on the PATH")
    _need("dpkg-deb", "dpkg")
    out = _folder_of("chromium", b"debian")
    if not out.exists():
        _build(out, lambda work: _unpack(work, _missing_packages("chromium", work)))
    libraries = [path for path in (out / "usr/lib").glob("*-linux-gnu*") if path.is_dir()]
    libraries += [path / "pulseaudio" for path in libraries]  # where Debian has a part of a library
    return out / "usr/lib/chromium/chromium", {"LD_LIBRARY_PATH": ":".join(map(str, libraries))}


def kerberos() -> tuple[str, dict[str, str]]:
    """Where Debian's KDC and its tools lie, for a PATH, and their environment's variables: the system's,
    or its packages unpacked beside it, which start no service."""
    path = f"{os.environ.get('PATH', '')}:/usr/sbin"
    if shutil.which("krb5kdc", path=path) is not None and shutil.which("kadmin.local", path=path) is not None:
        return path, {}
    _need(
        "apt-get", "Debian or what is made from it, for its KDC; or `krb5kdc` and `kadmin.local` on the PATH"
    )
    _need("dpkg-deb", "dpkg")
    out = _folder_of("kerberos", b"debian")
    if not out.exists():
        _build(out, lambda work: _unpack(work, _missing_packages("krb5-admin-server", work)))
    libraries = [path for path in (out / "usr/lib").glob("*-linux-gnu*") if path.is_dir()]
    return str(out / "usr/sbin"), {"LD_LIBRARY_PATH": ":".join(map(str, libraries))}


def _missing_packages(name: str, folder: Path) -> list[str]:
    """A package and all it needs that is not installed; nothing is installed by asking."""
    command = ["apt-get", "install", "--print-uris", "-qq", "--no-install-recommends", name]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if done.returncode or not done.stdout.strip():
        _call(["apt-get", "update"], folder, "Debian's archive")  # it may know of no packages yet
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    # Lines are 'address' name_version_kind.deb bytes checksum.
    names = [line.split()[1].partition("_")[0] for line in done.stdout.splitlines() if line.startswith("'")]
    if not names:
        raise UnavailableError(f"apt-get knows no package {name}:\n{done.stderr[-1000:]}")
    return names


def _unpack(work: Path, packages: list[str]) -> None:
    """Debian's packages, unpacked and not installed: no service starts."""
    download = ["apt-get", "download", *packages]
    try:
        _call(download, work, "Debian's archive")
    except UnavailableError:
        _call(["apt-get", "update"], work, "Debian's archive")  # it may know of no packages yet
        _call(download, work, "Debian's archive")
    for package in work.glob("*.deb"):
        _call(["dpkg-deb", "-x", str(package), str(work)], work, "dpkg")
        package.unlink()


def axe() -> Path:
    """The script by which Deque's axe looks at a page's accessibility, from the npm registry."""
    return node_package("axe-core", AXE_VERSION) / "node_modules/axe-core/axe.min.js"


def node_package(name: str, version: str) -> Path:
    """A folder with a package in its node_modules, and what it needs, from the npm registry."""
    _need("node", "Node, 20 or newer")
    _need("npm", "npm")
    out = _folder_of(name, version.encode())
    if not out.exists():
        command = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", f"{name}@{version}"]
        _build(out, lambda work: _call(command, work, "the npm registry"))
    return out


def _program_folder(name: str, sources: list[Path]) -> Path:
    return _folder_of(name, b"\0".join(path.read_bytes() for path in sources))


def _folder_of(name: str, content: bytes) -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "headrace-tests" / f"{name}-{hashlib.sha256(content).hexdigest()[:16]}"


def _need(command: str, what: str) -> None:
    if shutil.which(command) is None:
        raise UnavailableError(f"`{command}` is not on the PATH (needed: {what})")


def _build(out: Path, fill: Callable[[Path], None]) -> None:
    out.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=f"{out.name}.", dir=out.parent))
    try:
        fill(work)
        if not out.exists():
            work.rename(out)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _call(command: list[str], folder: Path, source: str) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if done.returncode:
        last_lines = "\n".join((done.stdout + done.stderr).splitlines()[-15:])
        raise UnavailableError(f"`{' '.join(command[:2])}` failed ({source} out of reach?):\n{last_lines}")


def main() -> None:
    # These build on this module.
    from tests.compat.streams_groups.instances import smoke_jars
    from tests.tiered.servers import azurite, hdfs_jars, s3_jars

    steps: dict[str, Callable[[], Path]] = {
        f"Apache Kafka {kafka_version()} (tests marked java)": kafka_libs,
        "the Java client": java_program,
        "Kafka Streams and its smoke test": smoke_jars,
        "Spark's Kafka connector": connector_libs,
        "an S3 server": s3_jars,
        "Azure's blob server": azurite,
        "Hadoop's HDFS": hdfs_jars,
        "Debian's Prometheus (tests marked prometheus)": prometheus,
        "Debian's Chromium (tests marked chromium)": lambda: chromium()[0],
        "Debian's KDC (tests marked kerberos)": lambda: Path(kerberos()[0]),
        "axe, which looks at pages' accessibility": axe,
        "the Go clients (tests marked golang)": go_program,
        "the Node clients (tests marked nodejs)": node_program,
    }
    for name, step in steps.items():
        started = time.monotonic()
        try:
            step()
        except UnavailableError as reason:
            print(f"test: skipped: {name}: {reason}", flush=True)
        else:
            print(f"test: ready: {name}, {time.monotonic() - started:.1f} s", flush=True)


if __name__ == "__main__":
    main()
