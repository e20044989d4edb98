"""Fetches the data sets of sets.json: resumed where it was cut off, verified, whole or not there. `ssa data fetch` becomes
`python -m ssa_attention.data.fetch` with the same arguments.

    ssa data fetch --list
    ssa data fetch zorro blimp --out data
"""

from __future__ import annotations

import argparse
import difflib
import fcntl
import hashlib
import http.client
import json
import os
import re
import shutil
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ..files import FileError, printable, write_bytes
from .conversions import CONVERSIONS

SETS = Path(__file__).with_name("sets.json")
PIECE = 1 << 20
TIMEOUT = 60  # seconds without a byte
ATTEMPTS = 5  # in a row without a byte
PARTS = ".fetch"  # the folder of what is not whole yet: nothing else looks there


class FetchError(ValueError):
    """What went wrong, in one line that names the file or address."""

    def __init__(self, message: str):
        super().__init__(printable(message))


@dataclass(frozen=True)
class Pin:
    """What is known of a file's content before it comes."""

    size: int | None = None
    sha256: str | None = None
    git_blob: str | None = None  # SHA-1 of git's "blob SIZE\\0" and the content

    @property
    def known(self) -> bool:
        return self.sha256 is not None or self.git_blob is not None

    def text(self) -> str:
        size = "size not known" if self.size is None else megabytes(self.size)
        if self.sha256 is not None:
            return f"{size}, SHA-256 {self.sha256}"
        return f"{size}, {'hash not known' if self.git_blob is None else 'git blob ' + self.git_blob}"

    def require(self, file: Path, what: str) -> str:
        """The SHA-256 of the file. FetchError where it is not the one that is pinned."""
        size = file.stat().st_size
        found, blob = hashlib.sha256(), hashlib.sha1(b"blob %d\0" % size)
        with file.open("rb") as content:
            while piece := content.read(PIECE):
                found.update(piece)
                blob.update(piece)
        if self.size is not None and size != self.size:
            raise FetchError(f"{what}: {size} bytes came, {self.size} were expected: not the pinned file")
        for name, value, wanted in (
            ("SHA-256", found.hexdigest(), self.sha256),
            ("git blob", blob.hexdigest(), self.git_blob),
        ):
            if wanted is not None and value != wanted:
                raise FetchError(f"{what}: {name} {value}, expected {wanted}: not the pinned file")
        return found.hexdigest()

    def is_of(self, file: Path) -> bool:
        try:
            self.require(file, "")
        except FetchError:
            return False
        return True


@dataclass(frozen=True)
class Source:
    url: str
    pin: Pin


@dataclass(frozen=True)
class Output:
    path: str
    pin: Pin


@dataclass(frozen=True)
class Item:
    """Files that are made together: one as it comes, or what `convert` makes of one or several."""

    sources: list[Source]
    convert: str | None
    outputs: list[Output]


@dataclass(frozen=True)
class DataSet:
    name: str
    about: str
    source: str
    licence: str
    citation: str
    note: str
    items: list[Item]

    def size(self) -> str:
        pins = [source.pin for item in self.items for source in item.sources]
        known = megabytes(sum(pin.size or 0 for pin in pins))
        unknown = sum(pin.size is None for pin in pins)
        files = f"{len(pins)} file{'s' * (len(pins) != 1)}"
        if unknown == len(pins):
            return f"{files}, size not known"
        return f"{files}, {known}" + (f" and {unknown} of unknown size" if unknown else "")

    def describe(self) -> str:
        rows = [
            ("source", self.source), ("licence", self.licence), ("citation", self.citation), ("note", self.note),
            ("size", self.size()),
        ]  # fmt: skip
        return "\n".join([f"{self.name}: {self.about}"] + [f"  {name:<9} {text}" for name, text in rows if text])


def megabytes(size: float) -> str:
    return f"{size / 1e6:.1f} MB" if size >= 1e5 else f"{size / 1e3:.1f} kB"


def read_sets(file: Path, base: str | None = None) -> dict[str, DataSet]:
    """The data sets of the list; `base` in the place of the one that their addresses begin with."""

    def pin(entry: dict) -> Pin:
        return Pin(entry.get("size"), entry.get("sha256"), entry.get("git_blob"))

    def item(entry: dict, base: str) -> Item:
        sources = [Source(urllib.parse.urljoin(base, one["url"]), pin(one)) for one in entry["from"]]
        convert = entry.get("convert")
        if convert is not None and convert not in CONVERSIONS:
            raise ValueError(f'there is no conversion "{convert}"')
        if convert is None and (len(sources) != 1 or len(entry["to"]) != 1):
            raise ValueError("a file without conversion has one source and one path")
        outputs = [Output(one["path"], pin(one) if convert else sources[0].pin) for one in entry["to"]]
        for output in outputs:
            if Path(output.path).is_absolute() or ".." in Path(output.path).parts:
                raise ValueError(f'"{output.path}" leads out of the folder')
        return Item(sources, convert, outputs)

    sets = {}
    try:
        for name, entry in json.loads(file.read_text(encoding="utf-8")).items():
            facts = [entry.get(key, "") for key in ("about", "source", "licence", "citation", "note")]
            root = base or entry["base"]
            root += "" if root.endswith("/") else "/"
            sets[name] = DataSet(name, *facts, [item(one, root) for one in entry["files"]])
    except OSError as error:
        raise FetchError(f"{file}: cannot be read: {error.strerror}") from None
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise FetchError(f"{file}: not a list of data sets (docs/formats.md): {error}") from None
    return sets


class Progress:
    """A line that is drawn again on a terminal; nothing elsewhere."""

    def __init__(self):
        self.on = sys.stderr.isatty() and os.environ.get("TERM", "dumb") != "dumb"
        self.next = 0.0

    def show(self, text: str) -> None:
        if self.on and time.monotonic() >= self.next:
            self.next = time.monotonic() + 0.1
            print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)

    def clear(self) -> None:
        if self.on:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
            self.next = 0.0


@contextmanager
def writing(part: Path, more: Callable[[], str] = str) -> Iterator[None]:
    """Whatever fails in it is FetchError, whose message ends with `more`."""
    try:
        yield
    except OSError as error:
        raise FetchError(f"{part}: cannot be written: {error.strerror}{more()}") from None


def open_from(url: str, start: int, etag: str) -> http.client.HTTPResponse:
    headers = {"User-Agent": "ssa", "Accept-Encoding": "identity"}
    if start > 0:
        headers["Range"] = f"bytes={start}-"
        if etag:
            headers["If-Range"] = etag
    return urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=TIMEOUT)


def goes_on_at(response: http.client.HTTPResponse, start: int) -> bool:
    """Whether what comes is the rest; a server that knows no ranges sends all."""
    match = re.match(r"bytes (\d+)-", response.headers.get("Content-Range", ""))
    return response.status == 206 and match is not None and int(match[1]) == start


def download(source: Source, part: Path, progress: Progress) -> None:
    """All of the file in `part`, from where the part ends. FetchError where it cannot be had: what has come stays, so
    that the next call goes on."""
    url, size = source.url, source.pin.size
    etag_file = etag_of(part)
    failures, why = 0, ""
    with writing(part):
        file = part.open("ab")
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise FetchError(f"{part}: another fetch is writing it") from None
        done = os.fstat(file.fileno()).st_size

        def kept() -> str:
            of = "" if size is None else f" of {size}"
            return f"; {done}{of} bytes are kept, and the same command goes on"

        while failures < ATTEMPTS:
            if failures > 0:
                time.sleep(0.5 * 2 ** (failures - 1))
            failures += 1
            if size is not None and done == size:
                return
            etag = etag_file.read_text(encoding="utf-8") if etag_file.exists() else ""
            if done > 0 and not source.pin.known and not etag:
                done = 0  # it may have become another file meanwhile
            try:
                response = open_from(url, done, etag)
            except urllib.error.HTTPError as error:
                why = f"{error.code} {error.reason}"
                if error.code == 416:  # the part is longer than the file
                    done = 0
                elif error.code < 500 and error.code not in (408, 429):
                    raise FetchError(f"{url}: {why}") from None
                continue
            except (OSError, http.client.HTTPException) as error:
                why = str(getattr(error, "reason", error)) or type(error).__name__
                continue
            with response:
                if not goes_on_at(response, done):
                    done = 0
                with writing(part, kept):
                    file.truncate(done)
                    if not source.pin.known and response.headers.get("ETag"):
                        etag_file.write_text(response.headers["ETag"], encoding="utf-8")
                left = response.headers.get("Content-Length", "")
                total = done + int(left) if left.isdigit() else None
                while True:
                    try:
                        piece = response.read1(PIECE)
                    except (OSError, http.client.HTTPException) as error:
                        why = str(error) or type(error).__name__
                        break
                    if not piece:
                        why = "cut off"
                        break
                    failures = 0
                    if size is not None and done + len(piece) > size:
                        raise FetchError(f"{url}: more than the {size} bytes that were expected: not the pinned file")
                    with writing(part, kept):
                        file.write(piece)
                        file.flush()
                    done += len(piece)
                    of = "" if total is None else f" of {megabytes(total)}"
                    progress.show(f"{Path(urllib.parse.urlsplit(url).path).name}: {megabytes(done)}{of}")
            if done == total or (total is None and why == "cut off"):
                return
        raise FetchError(f"{url}: {why}{kept()}")


def etag_of(part: Path) -> Path:
    """The server's mark of the content, of files that no hash pins: is it still the same one?"""
    return part.with_name(part.name + ".etag")


def part_of(source: Source, folder: Path) -> Path:
    """Where what has come of it lies: by what it is to be, wherever it comes from."""
    key = source.pin.sha256 or source.pin.git_blob or hashlib.sha256(source.url.encode()).hexdigest()
    return folder / PARTS / f"{key[:16]}.part"


def drop(part: Path) -> None:
    for file in (part, etag_of(part)):
        file.unlink(missing_ok=True)


def get(source: Source, folder: Path, progress: Progress) -> tuple[Path, str]:
    """The part that holds all of it, and its SHA-256."""
    part = part_of(source, folder)
    download(source, part, progress)
    progress.clear()
    try:
        return part, source.pin.require(part, source.url)
    except FetchError:
        drop(part)
        raise


def place(part: Path, path: Path) -> None:
    try:
        with part.open("rb") as file:
            os.fsync(file.fileno())
        os.replace(part, path)
        drop(part)
    except OSError as error:
        raise FetchError(f"{path}: cannot be written: {error.strerror}") from None


def there(output: Output, folder: Path, force: bool) -> bool:
    """Whether the file is there already. FetchError where another one is in its place."""
    path = folder / output.path
    if force or not (path.exists() or path.is_symlink()):
        return False
    if not path.is_file():
        raise FetchError(f"{path}: is in the way, and no file")
    if not output.pin.is_of(path):
        raise FetchError(f"{path}: is there with another content: move it away, or --force replaces it")
    return True


def fetch_item(item: Item, folder: Path, force: bool, progress: Progress) -> None:
    present = [there(output, folder, force) for output in item.outputs]
    if all(present):
        for output in item.outputs:
            print(f"  {output.path}: there already")
        return
    for source in item.sources:
        print(f"  {source.url}: {source.pin.text()}", flush=True)
    for output in item.outputs:
        try:
            (folder / output.path).parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise FetchError(f"{(folder / output.path).parent}: cannot be made: {error.strerror}") from None
    parts = [get(source, folder, progress) for source in item.sources]
    if item.convert is None:
        (part, found), (output,) = parts[0], item.outputs
        place(part, folder / output.path)
        print(f"  -> {output.path}" + ("" if item.sources[0].pin.sha256 else f", SHA-256 {found}"), flush=True)
        return
    contents = CONVERSIONS[item.convert](*(part.read_bytes() for part, _ in parts))
    for output, content in zip(item.outputs, contents, strict=True):
        found = hashlib.sha256(content).hexdigest()
        if output.pin.sha256 not in (None, found):
            raise FetchError(
                f"{output.path}: its conversion has SHA-256 {found}, expected {output.pin.sha256}: not written"
            )
        write_bytes(folder / output.path, content)
        print(f"  -> {output.path}" + ("" if output.pin.sha256 else f", SHA-256 {found}"), flush=True)
    for part, _ in parts:
        drop(part)


def require_space(data_set: DataSet, folder: Path) -> None:
    needed = sum(source.pin.size or 0 for item in data_set.items for source in item.sources)
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise FetchError(f"{folder}: {data_set.name} takes {megabytes(needed)}, but {megabytes(free)} are free")


def fetch(data_set: DataSet, folder: Path, force: bool = False) -> None:
    """Every file of the data set below the folder. What is there already stays. Raises FetchError, FileError."""
    try:
        (folder / PARTS).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FetchError(f"{folder}: cannot be made: {error.strerror}") from None
    require_space(data_set, folder)
    progress = Progress()
    try:
        for item in data_set.items:
            fetch_item(item, folder, force, progress)
    finally:
        progress.clear()
        if not any((folder / PARTS).iterdir()):
            (folder / PARTS).rmdir()


def chosen_sets(sets: dict[str, DataSet], names: list[str]) -> list[DataSet]:
    for name in names:
        if name not in sets:
            near = difflib.get_close_matches(name, sets, 1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise FetchError(f"{name}: no such data set; there are {', '.join(sets)}{hint}")
    return [sets[name] for name in names]


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="ssa data fetch",
        description="Fetches public data sets: shows source, licence, size and hash, goes on where it was cut off, and "
        "verifies what came.",
        epilog="Example: ssa data fetch zorro blimp --out data",
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="data sets of --list")
    parser.add_argument("--list", action="store_true", help="show the data sets (with names: those) and fetch nothing")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="where they go (default: SSA_DATA, else data)")
    parser.add_argument(
        "--url", metavar="BASE", help="a mirror: what addresses begin with instead of the source's base"
    )
    parser.add_argument("--sets", type=Path, default=SETS, metavar="FILE", help="another list of data sets (JSON)")
    parser.add_argument("--force", action="store_true", help="replace files that are there with another content")
    return parser.parse_args(arguments)


def run(options: argparse.Namespace) -> None:
    if options.url and urllib.parse.urlsplit(options.url).scheme not in ("http", "https"):
        raise FetchError(f"--url {options.url}: expected an address that begins with http:// or https://")
    sets = read_sets(options.sets, options.url)
    if options.list:
        print("\n\n".join(one.describe() for one in chosen_sets(sets, options.names or list(sets))))
        return
    if not options.names:
        raise FetchError(f"name a data set: {', '.join(sets)} (--list shows more)")
    chosen = chosen_sets(sets, options.names)
    folder = options.out or Path(os.environ.get("SSA_DATA") or "data")
    for data_set in chosen:
        print(data_set.describe(), flush=True)
        fetch(data_set, folder, options.force)
    known = os.environ.get("SSA_DATA")
    if not known or Path(known).resolve() != folder.resolve():
        print(f"Configs and evaluations find them there after: export SSA_DATA={folder.resolve()}")


def main(arguments: list[str] | None = None) -> int:
    options = parse(arguments)
    try:
        run(options)
    except (FetchError, FileError) as error:
        print(f"ssa: data fetch: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("ssa: data fetch: stopped; the same command goes on", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
