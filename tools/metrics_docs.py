"""Writes the table of docs/monitoring.md from the catalogue of metrics: `python tools/metrics_docs.py [--check]`.

What stands around the table is written by hand. `--check` writes nothing and fails where the table is not what
the code says.
"""

import sys
from itertools import groupby
from pathlib import Path
from typing import Final

from headrace.telemetry.metrics.catalogue import METRICS

PATH: Final = Path(__file__).resolve().parents[1] / "docs/monitoring.md"
BEGIN: Final = "<!-- Written by tools/metrics_docs.py from src/headrace/telemetry/metrics/catalogue.py. -->\n"
END: Final = "<!-- The end of what is written. -->\n"


def table() -> str:
    lines = []
    for section, specs in groupby(METRICS.values(), key=lambda spec: spec.section):
        lines += [f"### {section}", "", "| metric | kind | labels | meaning |", "|---|---|---|---|"]
        for spec in specs:
            kind = "gauge (untyped)" if spec.kind == "number" else spec.kind
            labels = ", ".join(f"`{label}`" for label in spec.labels)
            lines.append(f"| `{spec.name}` | {kind} | {labels} | {spec.text} |")
        lines.append("")
    return "\n".join(lines) + "\n"


def page() -> str:
    before, rest = PATH.read_text().split(BEGIN)
    return before + BEGIN + "\n" + table() + END + rest.split(END)[1]


def main() -> int:
    wanted = page()
    if "--check" not in sys.argv[1:]:
        PATH.write_text(wanted)
        return 0
    if PATH.read_text() == wanted:
        return 0
    print(f"{PATH.name} is not what the code says: run python tools/metrics_docs.py", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
