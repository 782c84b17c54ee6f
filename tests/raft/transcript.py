"""Transcripts: text files of commands and what they answered, for cores.

A file is a sequence of blocks. A block is a command, a line of dashes, and the answer up to a blank line.
With REGENERATE=1 in the environment the answers are written anew, to be read as a diff before they are
committed.
"""

import os
from collections.abc import Callable
from pathlib import Path


def run_transcript(path: Path, answer: Callable[[str], str]) -> None:
    """Ask each command of the file in turn; fail where an answer differs from the one written down."""
    blocks = [block for block in path.read_text().split("\n\n") if block.strip()]
    written = []
    for block in blocks:
        if block.lstrip().startswith("#"):
            written.append(block.strip("\n"))
            continue
        command, _, _expected = block.strip("\n").partition("\n----")
        written.append(f"{command}\n----\n{answer(command)}".rstrip("\n"))
    text = "\n\n".join(written) + "\n"
    if os.environ.get("REGENERATE"):
        path.write_text(text)
    assert text == path.read_text()
