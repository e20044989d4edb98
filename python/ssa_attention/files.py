"""Files that are whole or not there."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


class FileError(ValueError):
    """A file that cannot be read or written; the message names it."""

    def __init__(self, message: str):
        super().__init__(printable(message))


def printable(text: str) -> str:
    """Text for a terminal: what is not printable (line ends, escapes) as Python escapes it."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def write_text(path: Path, text: str) -> None:
    """write_bytes of the text in UTF-8."""
    write_bytes(path, text.encode())


def write_bytes(path: Path, content: bytes) -> None:
    """Under a temporary name beside it, synced, then renamed: never half a file. Through links, and only over files.
    Raises FileError."""
    if path.is_symlink():
        path = path.resolve()
    if path.exists() and not path.is_file():
        raise FileError(f"{path}: is not a file that could be replaced")
    try:
        descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    except OSError as error:
        raise FileError(f"{path}: cannot be written: {error.strerror}") from None
    try:
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(descriptor, 0o644)
            file.write(content)
            file.flush()
            os.fsync(descriptor)
        os.replace(temporary, path)
    except OSError as error:
        os.unlink(temporary)
        raise FileError(f"{path}: cannot be written: {error.strerror}") from None
