"""`headrace doctor`: what is wrong with a node or a cluster, and what to do about it."""

import logging
import sys
from typing import Final

import click

from headrace.cli.connecting import bootstrap_option, open_admin, timeout_option
from headrace.cli.doctor_findings import Finding, print_findings, worst_first
from headrace.cli.options import examples, json_option
from headrace.cli.output import print_json

PATIENCE_MS: Final = 5_000
"""How long a broker or the quorum may take: whoever does not answer then is a finding."""

NO_START: Final = "correct it: the node does not start with it"


@click.command(
    epilog=examples(
        "headrace doctor                                  # the cluster at localhost:9092",
        "headrace doctor -b kafka.example:9092 --json     # another one, for scripts",
        "headrace doctor --data data                      # a node's folder and files",
        "headrace doctor --config server.properties       # its settings too",
    )
)
@click.option("--data", "-d", metavar="DIR", help="Look at the folder of a node, which need not run.")
@click.option(
    "--config", "-c", "file", type=click.Path(), metavar="FILE", help="Look at a node's settings and folders."
)
@bootstrap_option
@timeout_option
@json_option
def doctor(
    data: str | None, file: str | None, bootstrap: str, request_timeout_ms: int, as_json: bool
) -> None:
    """Say what is wrong, and what to do about it.

    Of a node: damaged files, room on disks, descriptors, clock, settings without effect. Of a cluster:
    brokers that are fenced or cannot be reached where they say, folders that are offline or full,
    partitions without a leader or with too few replicas in sync. Nothing is changed. The exit code is 1
    where there are errors.
    """
    if data is not None or file is not None:
        from headrace.cli.doctor_node import look_at_node, told_of_settings
        from headrace.log.system_disk import SystemDisk
        from headrace.node.config import load
        from headrace.settings.definition import SettingError

        warnings: list[str] = []
        own = {} if file is not None else _identity(data)
        try:
            config = load(file, own, None, data, warn=warnings.append)
        except SettingError as error:
            findings = [
                *told_of_settings(warnings),
                Finding("error", file or "settings", str(error), NO_START),
            ]
            looked_at = f"the settings in {file}"
        else:
            findings = worst_first(look_at_node(SystemDisk(), config, warnings))
            looked_at = f"node {config.node_id} in {', '.join(config.log_dirs)}"
    else:
        from headrace.cli.doctor_cluster import look_at_cluster

        # What clients tell of brokers that are down is among the findings.
        logging.getLogger("headrace.clients").setLevel(logging.ERROR)
        with open_admin(bootstrap, min(request_timeout_ms, PATIENCE_MS)) as admin:
            findings = worst_first(look_at_cluster(admin, bootstrap))
        looked_at = f"the cluster at {bootstrap}"
    if as_json:
        print_json([each._asdict() for each in findings])
    else:
        print_findings(findings, looked_at)
    sys.exit(int(any(each.level == "error" for each in findings)))


def _identity(data: str | None) -> dict[str, str]:
    """Without settings, the folder says which node it belongs to."""
    from headrace.base.errors import InvalidBytesError
    from headrace.log.meta_properties import decode_meta_properties

    try:
        with open(f"{data}/meta.properties", "rb") as file:
            return {"node.id": str(decode_meta_properties(file.read()).node_id)}
    except (OSError, InvalidBytesError):
        return {}
