"""JSON files and their fields, checked: what is missing or malformed raises `ReportError` with one line that names the
file, the line and what would be right."""

from __future__ import annotations

import json
from pathlib import Path

SCHEMA = 1


class ReportError(Exception):
    """Bad input, told in one line."""


def _no_constants(text: str):
    raise ValueError(f"{text} is not JSON (numbers that are not finite are written as null)")


def _parse(text: str, where: str):
    try:
        return json.loads(text, parse_constant=_no_constants)
    except json.JSONDecodeError as error:
        path, _, line = where.rpartition(":")
        line = f"{int(line) + error.lineno - 1}" if line else line
        raise ReportError(f"{path}:{line}: not valid JSON: {error.msg}") from None
    except ValueError as error:
        raise ReportError(f"{where}: {error}") from None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ReportError(f"{path}: the file is missing") from None
    except UnicodeDecodeError as error:
        raise ReportError(f"{path}: not UTF-8 at byte {error.start}") from None
    except OSError as error:
        raise ReportError(f"{path}: {error.strerror}") from None


def load_json(path: Path):
    return _parse(_text(path), f"{path}:1")


def load_lines(path: Path) -> list[tuple[str, dict]]:
    """[("FILE:LINE", object), …] of a JSON-lines file."""
    lines = []
    for number, text in enumerate(_text(path).split("\n"), start=1):
        if not text.strip():
            continue
        where = f"{path}:{number}"
        line = _parse(text, where)
        if not isinstance(line, dict):
            raise ReportError(f"{where}: expected an object, found {kind_of(line)}")
        lines.append((where, line))
    return lines


_KINDS = {
    dict: "an object",
    list: "a list",
    str: "a string",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    type(None): "null",
}


def kind_of(value) -> str:
    return _KINDS[type(value)]


def need(record, key: str, kind: type, where: str):
    """record[key], which must be of that kind (float: any number or null)."""
    if not isinstance(record, dict):
        raise ReportError(f"{where}: expected an object, found {kind_of(record)}")
    if key not in record:
        raise ReportError(f'{where}: "{key}" is missing')
    value = record[key]
    allowed = (float, int, type(None)) if kind is float else (kind,)
    if type(value) not in allowed:
        raise ReportError(f'{where}: "{key}" must be {_KINDS[kind]}, found {kind_of(value)}')
    return value


def check_schema(record, where: str) -> None:
    schema = need(record, "schema", int, where)
    if schema != SCHEMA:
        raise ReportError(f"{where}: schema {schema} is unknown; this version reads schema {SCHEMA}")


def need_numbers(record: dict, key: str, where: str, length: int | None = None) -> list:
    numbers = need(record, key, list, where)
    if not all(type(n) in (int, float, type(None)) for n in numbers) or length not in (None, len(numbers)):
        count = f"{length} numbers" if length is not None else "numbers"
        raise ReportError(f'{where}: "{key}" must be a list of {count}')
    return numbers


def optional(record: dict, key: str, kind: type, where: str):
    return need(record, key, kind, where) if record.get(key) is not None else None
