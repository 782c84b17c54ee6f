"""`python tools/package.py [FOLDER]`: wheel, source archive, bill of materials, and their checksums.

The same commit gives the same bytes, wherever and whenever it is built: SOURCE_DATE_EPOCH is the time of the
commit unless it is set, and the bill of materials has no date of its own. That is CycloneDX 1.6, made of
requirements.lock: every package that `./run` installs, with version, marker and the hashes that pip checks.
"""

import hashlib
import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
LOCKED = re.compile(
    r"^(?P<name>[A-Za-z0-9._-]+)(?P<extras>\[[^]]*\])?==(?P<version>[^\s;\\]+)(?:\s*;\s*(?P<marker>[^\\\n]+?))?\s*\\?\n"
    r"(?P<hashes>(?:[ \t]+--hash=sha256:[0-9a-f]+[ \t]*\\?\n?)*)",
    re.MULTILINE,
)
HASH = re.compile(r"--hash=sha256:([0-9a-f]+)")


def project() -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return found


def bill_of_materials(lock: str) -> dict[str, Any]:
    """CycloneDX of a lock file's text."""
    own = project()
    name, version = own["name"], own["version"]
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": f"pkg:pypi/{name}@{version}",
                "name": name,
                "version": version,
                "description": own["description"],
                "licenses": [{"license": {"id": own["license"]}}],
                "purl": f"pkg:pypi/{name}@{version}",
            }
        },
        "components": [_component(found) for found in LOCKED.finditer(lock)],
    }


def _component(found: re.Match[str]) -> dict[str, Any]:
    purl = f"pkg:pypi/{re.sub('[-_.]+', '-', found['name']).lower()}@{found['version']}"
    component: dict[str, Any] = {
        "type": "library",
        "bom-ref": purl,
        "name": found["name"],
        "version": found["version"],
        "purl": purl,
    }
    if hashes := sorted(HASH.findall(found["hashes"])):
        # One of them is that of the file which is installed: they differ by platform.
        component["properties"] = [{"name": "headrace:sha256", "value": each} for each in hashes]
    if found["marker"]:
        component.setdefault("properties", []).append(
            {"name": "headrace:marker", "value": found["marker"].strip()}
        )
    return component


def build(folder: Path) -> list[Path]:
    """All files, with their checksums last."""
    folder.mkdir(parents=True, exist_ok=True)
    epoch = os.environ.get("SOURCE_DATE_EPOCH") or _time_of_commit()
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(folder.resolve())]
    subprocess.run(command, cwd=ROOT, check=True, env=os.environ | {"SOURCE_DATE_EPOCH": epoch})
    own = project()
    stem = f"{own['name']}-{own['version']}"
    bill = folder / f"{stem}.cdx.json"
    bill.write_text(json.dumps(bill_of_materials((ROOT / "requirements.lock").read_text()), indent=2) + "\n")
    files = [folder / f"{stem}-py3-none-any.whl", folder / f"{stem}.tar.gz", bill]
    sums = folder / "SHA256SUMS"
    sums.write_text(
        "".join(f"{hashlib.sha256(each.read_bytes()).hexdigest()}  {each.name}\n" for each in files)
    )
    return [*files, sums]


def _time_of_commit() -> str:
    """1980 in a tree without history, as the first time that a wheel can have."""
    command = ["git", "log", "-1", "--format=%ct"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    return done.stdout.strip() or "315532800"


if __name__ == "__main__":
    for path in build(Path(sys.argv[1] if len(sys.argv) > 1 else "dist")):
        print(path)
