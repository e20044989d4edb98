"""JSON files and their fields, checked: what is missing or malformed raises `ReportError` with one line that names the
file, the line and what would be right."""

from __future__ import annotations

from pathlib import Path

from ..files import FileError, printable
from ..json_files import read_json, read_json_lines

SCHEMA = 1
MAX_WHOLE = 2**53  # whole numbers beyond it are not exact in every JSON reader


class ReportError(Exception):
    """Bad input, told in one line. What stands in files is made printable: no line ends, no terminal escapes."""

    def __init__(self, message: str):
        super().__init__(printable(message))


def load_json(path: Path):
    try:
        return read_json(path)
    except FileError as error:
        raise ReportError(str(error)) from None


def load_lines(path: Path) -> list[tuple[str, dict]]:
    """[("FILE:LINE", object), …] of a JSON-lines file."""
    lines = []
    try:
        for number, line in read_json_lines(path):
            where = f"{path}:{number}"
            if not isinstance(line, dict):
                raise ReportError(f"{where}: expected an object, found {kind_of(line)}")
            lines.append((where, line))
    except FileError as error:
        raise ReportError(str(error)) from None
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
    if kind is int and abs(value) > MAX_WHOLE:
        raise ReportError(f'{where}: "{key}" is out of range: at most {MAX_WHOLE} in size')
    return value


def need_count(record, key: str, where: str) -> int:
    """record[key], which counts something."""
    number = need(record, key, int, where)
    if number < 0:
        raise ReportError(f'{where}: "{key}" must not be negative, found {number}')
    return number


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


def optional_count(record: dict, key: str, where: str) -> int | None:
    return need_count(record, key, where) if record.get(key) is not None else None


def optional_list(record: dict, key: str, where: str) -> list:
    """Empty where it is missing or null."""
    return need(record, key, list, where) if record.get(key) is not None else []


def need_figures(record: dict, key: str, where: str) -> dict[str, float | None]:
    """record[key], an object of numbers."""
    figures = need(record, key, dict, where)
    for name in figures:
        need(figures, name, float, where)
    return figures
