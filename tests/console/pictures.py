"""python -m tests.console.pictures FOLDER [--url URL] [--pages PATH ...]: the console's pages, to look at.

Each page of a cluster at URL (http://127.0.0.1:8080/cluster), as wide as a desk's screen and as a phone's,
light and dark. `--window` takes what a window of 1440 by 900 shows instead of whole pages: docs/images has
such ones of `./run`.
"""

import argparse
import json
import tempfile
from pathlib import Path

from tests.compat import prepare
from tests.console.chromium import Chromium, Tab

PAGES = (
    "",
    "topics",
    "groups",
    "pipelines",
    "brokers",
    "brokers/1",
    "moves",
    "transactions",
    "schemas",
    "access/acls",
    "access/users",
    "access/tokens",
    "access/quotas",
)
OF_TOPIC = ("messages", "partitions", "groups", "settings", "keys")
LOOKS = ((1440, "light"), (1440, "dark"), (390, "light"), (390, "dark"))


def pages_of(tab: Tab, url: str) -> list[str]:
    """All pages, those of the first topic with a group and of the first group among them."""
    root, _, cluster = url.rpartition("/")
    found = {
        table: tab.js(f"fetch({json.dumps(f'{root}/api/clusters/{cluster}/{table}')}).then(r => r.json())")
        for table in ("topics", "groups")
    }
    topics = sorted(found["topics"]["topics"], key=lambda each: (each["internal"], -each["groups"]))
    names = [each["name"] for each in topics[:1]]
    groups = [each["group"] for each in found["groups"]["groups"][:1]]
    return [
        *PAGES,
        *(f"topics/{name}/{tab_name}" for name in names for tab_name in OF_TOPIC),
        *(f"groups/{name}" for name in groups),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--url", default="http://127.0.0.1:8080/cluster")
    parser.add_argument("--pages", nargs="*")
    parser.add_argument("--window", action="store_true")
    parser.add_argument("--width", type=int, choices=sorted({width for width, _ in LOOKS}))
    parser.add_argument("--scheme", choices=("light", "dark"))
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    program, environment = prepare.chromium()
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,
        Chromium(program, Path(folder), environment) as browser,
    ):
        for width, scheme in LOOKS:
            if options.width not in (None, width) or options.scheme not in (None, scheme):
                continue
            tab = browser.tab(width=width, scheme=scheme, height=900 if width > 600 else 844)
            tab.go(options.url)
            tab.until("Boolean(document.querySelector('main h1'))")
            for page in pages_of(tab, options.url) if options.pages is None else options.pages:
                tab.go(f"{options.url}/{page}")
                tab.until("Boolean(document.querySelector('main h1'))")
                tab.until("document.querySelector('main [role=status]')?.textContent !== 'Looking…'")
                name = page.replace("/", "-") or "overview"
                tab.picture(options.folder / f"{name}-{width}-{scheme}.png", is_whole=not options.window)
            for problem in tab.problems:
                print(f"{width} {scheme}: {problem}")


if __name__ == "__main__":
    main()
