"""Folders whose names survive a power cut: what is synced inside of a folder is lost if the folder itself is."""

from headrace.log.disk import Disk


def make_durable_folder(disk: Disk, path: str) -> None:
    """Make a folder and the parents it lacks, and sync the name of each. Blocks."""
    made = []
    missing = path.rstrip("/")
    while missing and not disk.exists(missing):
        made.append(missing)
        missing = missing.rpartition("/")[0]
    disk.make_folder(path)
    for folder in made:
        disk.sync_folder(folder.rpartition("/")[0] or ("/" if folder.startswith("/") else "."))
