"""JSON as the package reads it: whole files and lines, with bounds on size, depth and numbers.

Every Python reader of JSON uses this one, so that a damaged or hostile file ends in one line that says where, not in a
traceback, an exhausted stack or an exhausted memory.
"""

from __future__ import annotations

import json
import re
import stat
from collections.abc import Iterator
from pathlib import Path

from .files import FileError

MAX_BYTES = 512 * 2**20  # of a file that is parsed as a whole
MAX_LINE_BYTES = 16 * 2**20  # of one line of a JSON-lines file; `ssa` writes some kilobytes
MAX_DEPTH = 64  # of lists and objects in each other; the files of `ssa` have fewer than 10
MAX_NUMBER = 1e100  # float32 ends at 3.4e38, its square at 1.2e77: larger numbers are damage, and overflow in sums

# Strings are skipped, brackets in them do not count. An unfinished string ends with the text: no search begins twice.
_BRACKETS = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"?|[\[{]|[\]}]', re.DOTALL)
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def _deepest(text: str) -> int:
    depth = deepest = 0
    for match in _BRACKETS.finditer(text):
        token = match[0]
        if token in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif token in "]}":
            depth -= 1
    return deepest


def _constant(text: str):
    raise ValueError(f"{text} is not JSON (numbers that are not finite are written as null)")


def _in_range(text: str, number: float) -> float:
    if not abs(number) <= MAX_NUMBER:
        shown = text if len(text) <= 24 else f"{text[:20]}…"
        raise ValueError(f"the number {shown} is out of range: at most {MAX_NUMBER:g} in size")
    return number


def _float(text: str) -> float:
    return _in_range(text, float(text))


def _integer(text: str) -> int:
    _in_range(text, float(text))  # before int(), whose time grows with the square of the digits
    return int(text)


def _check_unicode(value) -> None:
    """JSON may escape half a character: such a string cannot be written again."""
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            raise ValueError(
                f"the string {value.encode(errors='backslashreplace').decode()[:40]} is not Unicode"
            ) from None
    elif isinstance(value, list):
        for item in value:
            _check_unicode(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            _check_unicode(key)
            _check_unicode(item)


def parse_json(text: str, path: Path, line: int = 1):
    """The value in `text`, which begins at that line of the file.

    Raises FileError with one line, FILE:LINE first, for what is not JSON, deeper than MAX_DEPTH, or holds a number
    beyond MAX_NUMBER.
    """
    if _deepest(text) > MAX_DEPTH:
        raise FileError(f"{path}:{line}: lists and objects are nested deeper than {MAX_DEPTH}")
    try:
        value = json.loads(text, parse_constant=_constant, parse_float=_float, parse_int=_integer)
        if _SURROGATE.search(text):
            _check_unicode(value)
    except json.JSONDecodeError as error:
        raise FileError(f"{path}:{line + error.lineno - 1}: not valid JSON: {error.msg}") from None
    except (ValueError, OverflowError) as error:
        raise FileError(f"{path}:{line}: {error}") from None
    return value


def _open(path: Path):
    try:
        # A named pipe would wait for ever.
        if not stat.S_ISREG(path.stat().st_mode):
            raise FileError(f"{path}: is not a regular file")
        return path.open("rb")
    except FileNotFoundError:
        raise FileError(f"{path}: the file is missing") from None
    except (OSError, ValueError) as error:
        raise FileError(f"{path}: {getattr(error, 'strerror', None) or error}") from None


def _decoded(content: bytes, path: Path, before: int = 0) -> str:
    """UTF-8 without its byte order mark; `before`: bytes of the file in front of it."""
    mark = b"\xef\xbb\xbf"
    skipped = len(mark) if before == 0 and content.startswith(mark) else 0
    try:
        return content[skipped:].decode("utf-8")
    except UnicodeDecodeError as error:
        raise FileError(f"{path}: not UTF-8 at byte {before + skipped + error.start}") from None


def read_json(path: Path):
    """The value that a file holds. Raises FileError with one line."""
    with _open(path) as file:
        content = file.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise FileError(f"{path}: is larger than {MAX_BYTES // 2**20} MiB")
    return parse_json(_decoded(content, path), path)


def read_json_lines(path: Path) -> Iterator[tuple[int, object]]:
    """(line number from 1, value) of every line that is not blank, read one by one. Raises FileError with one line."""
    with _open(path) as file:
        number = position = 0
        while content := file.readline(MAX_LINE_BYTES + 1):
            number += 1
            if len(content) > MAX_LINE_BYTES:
                raise FileError(f"{path}:{number}: the line is longer than {MAX_LINE_BYTES // 2**20} MiB")
            text = _decoded(content, path, position).rstrip("\r\n")
            position += len(content)
            if text.strip():
                yield number, parse_json(text, path, number)
