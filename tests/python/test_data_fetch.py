"""`ssa data fetch` against a local server with faults: what comes is whole and verified, or it is not there."""

import hashlib
import json
import os
import resource
import signal
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from ssa_attention.data import fetch as module
from ssa_attention.data.conversions import CONVERSIONS
from ssa_attention.data.fetch import main

CONTENT = bytes(range(256)) * 4096  # 1 MiB
SHA256 = hashlib.sha256(CONTENT).hexdigest()
BLOB = hashlib.sha1(b"blob %d\0" % len(CONTENT) + CONTENT).hexdigest()


class Server(ThreadingHTTPServer):
    """Serves `files`, with the faults of `faults`: {path: what the next requests for it meet, in order}."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.files, self.faults, self.requests = {}, {}, []
        self.etag, self.ranges = None, True
        self.url = f"http://127.0.0.1:{self.server_port}/"


class Handler(BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_GET(self):
        server, name = self.server, self.path.lstrip("/")
        asked = self.headers.get("Range")
        server.requests.append((name, asked))
        faults = server.faults.get(name, [])
        fault = faults.pop(0) if faults else None
        content = server.files.get(name)
        if isinstance(fault, int) or content is None:
            self.send_error(fault or 404)
            return
        start = int(asked.removeprefix("bytes=").removesuffix("-")) if asked and server.ranges else 0
        if self.headers.get("If-Range", server.etag) != server.etag:
            start = 0
        if start > len(content):
            self.send_error(416)
            return
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        if server.etag:
            self.send_header("ETag", server.etag)
        self.send_header("Content-Length", str(len(content) - start))
        self.end_headers()
        rest = content[start:]
        self.wfile.write(rest[: len(rest) // 2] if fault in ("cut", "hang") else rest)
        if fault == "hang":
            server.hanging.wait(30)


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setattr(module.time, "sleep", lambda _: None)
    monkeypatch.delenv("SSA_DATA", raising=False)
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    server = Server()
    server.files["file.bin"] = CONTENT
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def fetch(server, tmp_path, capsys):
    """fetch(pin, code=0): `ssa data fetch one` of a list with one file; what it printed, or its one line of error."""

    def run(pin, *more, code=0, item=None):
        item = item or {"from": [{"url": "file.bin", **pin}], "to": [{"path": "one/file.bin"}]}
        entry = {"about": "one file", "source": "here", "licence": "MIT", "base": server.url, "files": [item]}
        (tmp_path / "sets.json").write_text(json.dumps({"one": entry}))
        got = main(["one", "--sets", str(tmp_path / "sets.json"), "--out", str(tmp_path / "data"), *more])
        printed = capsys.readouterr()
        assert got == code, printed
        if code == 0:
            return printed.out
        assert printed.err.startswith("ssa: data fetch: ") and printed.err.count("\n") == 1
        return printed.err.removeprefix("ssa: data fetch: ").rstrip("\n")

    run.file = tmp_path / "data/one/file.bin"
    run.parts = tmp_path / "data/.fetch"
    return run


PINNED = {"size": len(CONTENT), "sha256": SHA256}


def whole(fetch):
    """The file is there, and nothing else is left."""
    return fetch.file.read_bytes() == CONTENT and not fetch.parts.exists()


def test_what_is_fetched_is_told_before_and_verified(fetch, server):
    told = fetch(PINNED)
    for text in ("source    here", "licence   MIT", "size      1 file, 1.0 MB", f"1.0 MB, SHA-256 {SHA256}"):
        assert text in told
    assert told.index(SHA256) < told.index("-> one/file.bin")
    assert whole(fetch)
    assert "one/file.bin: there already" in fetch(PINNED)
    assert server.requests == [("file.bin", None)]


@pytest.mark.parametrize("pin", [{"git_blob": BLOB}, {}], ids=["git blob", "nothing known"])
def test_the_hash_that_came_is_shown_where_none_was_known(fetch, pin):
    assert f"-> one/file.bin, SHA-256 {SHA256}" in fetch(pin)
    assert whole(fetch)


def test_a_missing_file(fetch, server):
    server.files.clear()
    assert fetch(PINNED, code=1) == f"{server.url}file.bin: 404 Not Found"
    assert not fetch.file.exists()


def test_a_file_that_is_cut_off_is_resumed(fetch, server):
    server.faults["file.bin"] = ["cut", 503, "cut"]
    fetch(PINNED)
    half, three_quarters = len(CONTENT) // 2, len(CONTENT) * 3 // 4
    assert [asked for _, asked in server.requests] == [
        None,
        f"bytes={half}-",
        f"bytes={half}-",
        f"bytes={three_quarters}-",
    ]
    assert whole(fetch)


def test_another_call_goes_on(fetch, server):
    server.faults["file.bin"] = ["cut"] + [503] * module.ATTEMPTS
    half = len(CONTENT) // 2
    assert fetch(PINNED, code=1) == (
        f"{server.url}file.bin: 503 Service Unavailable; {half} of {len(CONTENT)} bytes are kept, and the same command goes on"
    )
    assert not fetch.file.exists(), "half a file must not look like one"
    server.requests.clear()
    fetch(PINNED)
    assert server.requests == [("file.bin", f"bytes={half}-")]
    assert whole(fetch)


def test_a_server_without_ranges_sends_all_of_it_again(fetch, server):
    server.ranges = False
    server.faults["file.bin"] = ["cut"]
    fetch(PINNED)
    assert whole(fetch)


def test_a_part_longer_than_the_file(fetch, server):
    server.faults["file.bin"] = ["cut"] + [503] * module.ATTEMPTS
    fetch({"git_blob": BLOB}, code=1)
    (part,) = fetch.parts.iterdir()
    part.write_bytes(CONTENT + b"more")
    fetch({"git_blob": BLOB})
    assert whole(fetch)


@pytest.mark.parametrize("pin", [PINNED, {"git_blob": BLOB}], ids=["SHA-256", "git blob"])
def test_another_content_is_refused(fetch, server, pin):
    server.files["file.bin"] = CONTENT[:-1] + b"?"
    message = fetch(pin, code=1)
    assert message.startswith(f"{server.url}file.bin: ") and message.endswith(": not the pinned file")
    assert not fetch.file.exists() and not fetch.parts.exists()
    server.files["file.bin"] = CONTENT
    fetch(pin)
    assert whole(fetch)


@pytest.mark.parametrize("content", [CONTENT + b"?", CONTENT[:-1]], ids=["longer", "shorter"])
def test_another_size_is_refused(fetch, server, content):
    server.files["file.bin"] = content
    assert "expected" in fetch(PINNED, code=1) or not fetch.file.exists()
    assert not fetch.file.exists()
    server.files["file.bin"] = CONTENT
    fetch(PINNED)
    assert whole(fetch)


def test_a_file_that_no_hash_pins_is_not_put_together_of_two(fetch, server):
    server.etag = '"first"'
    server.faults["file.bin"] = ["cut"] + [503] * module.ATTEMPTS
    fetch({}, code=1)
    server.etag, server.files["file.bin"] = '"second"', CONTENT[::-1]
    fetch({})
    assert fetch.file.read_bytes() == CONTENT[::-1] and not fetch.parts.exists()


def test_a_file_of_another_content_stays_unless_told(fetch):
    fetch.file.parent.mkdir(parents=True)
    fetch.file.write_text("mine")
    assert fetch(PINNED, code=1) == (
        f"{fetch.file}: is there with another content: move it away, or --force replaces it"
    )
    assert fetch.file.read_text() == "mine"
    fetch(PINNED, "--force")
    assert whole(fetch)


def test_a_mirror(fetch, server):
    server.files = {"mirror/file.bin": CONTENT}
    fetch(PINNED, "--url", server.url + "mirror")
    assert server.requests == [("mirror/file.bin", None)]
    assert fetch(PINNED, "--url", "ftp://x", code=1).startswith("--url ftp://x: expected an address")


def test_conversions_are_verified(fetch, server):
    item = {
        "from": [{"url": "file.bin"}],
        "convert": "shares_80_10",
        "to": [{"path": "one/a"}, {"path": "one/file.bin"}],
    }
    server.files["file.bin"] = b"x\n" * 10
    fetch({}, item=item)
    assert fetch.file.read_bytes() == b"x\n"
    fetch.file.unlink()
    item["to"][1]["sha256"] = SHA256
    assert fetch({}, item=item, code=1).startswith("one/file.bin: its conversion has SHA-256 ")
    assert not fetch.file.exists()


@pytest.mark.parametrize("path", ["/etc/passwd", "../x"])
def test_a_list_cannot_lead_out_of_the_folder(fetch, path):
    item = {"from": [{"url": "file.bin"}], "to": [{"path": path}]}
    assert fetch({}, item=item, code=1).endswith(f'"{path}" leads out of the folder')


def test_names(capsys):
    assert main(["zoro"]) == 1
    assert capsys.readouterr().err.endswith("; did you mean zorro?\n")
    assert main([]) == 1
    assert "name a data set: zorro, blimp, " in capsys.readouterr().err
    assert main(["--list"]) == 0
    told = capsys.readouterr().out
    assert told.count("licence ") == told.count("source ") == len(module.read_sets(module.SETS))


def test_the_projects_list():
    sets = module.read_sets(module.SETS)
    paths = [output.path for one in sets.values() for item in one.items for output in item.outputs]
    assert len(paths) == len(set(paths)), "two data sets write the same file"
    for one in sets.values():
        assert one.about and one.source and one.licence and one.citation
        unpinned = [source for item in one.items for source in item.sources if source.pin.sha256 is None]
        assert bool(unpinned) == bool(one.note), f"{one.name}: the note says what is not pinned"
        for item in one.items:
            assert all(source.url.startswith("https://") for source in item.sources)
            assert item.convert is None or item.convert in CONVERSIONS


def test_zorro_as_the_evaluation_reads_it(real_data, server, tmp_path, capsys):
    """The project's own list, from a mirror made of the real files."""
    (entry,) = [one for one in module.read_sets(module.SETS, server.url).values() if one.name == "zorro"]
    for item in entry.items:
        content = (real_data / item.outputs[0].path).read_bytes()
        server.files[item.sources[0].url.removeprefix(server.url)] = content
    assert main(["zorro", "--url", server.url, "--out", str(tmp_path / "data")]) == 0
    names = sorted(path.name for path in (tmp_path / "data/zorro/sentences").iterdir())
    assert names == sorted(path.name for path in (real_data / "zorro/sentences").iterdir())
    assert capsys.readouterr().out.endswith(f"export SSA_DATA={tmp_path / 'data'}\n")


@pytest.fixture
def started(server, tmp_path):
    """started(**how): the program itself, fetching the one file; how: of subprocess.Popen."""
    entry = {"base": server.url, "files": [{"from": [{"url": "file.bin", **PINNED}], "to": [{"path": "file.bin"}]}]}
    (tmp_path / "sets.json").write_text(json.dumps({"one": entry}))

    def start(**how):
        command = [os.environ["SSA_BINARY"], "data", "fetch", "one", "--sets", "sets.json", "--out", "data"]
        environment = os.environ | {"SSA_PYTHON": sys.executable}
        return subprocess.Popen(
            command, cwd=tmp_path, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **how
        )

    return start


def test_a_full_disk(started, server, tmp_path):
    most = len(CONTENT) // 4

    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))

    process = started(preexec_fn=limit)
    _, error = process.communicate(timeout=300)
    assert process.returncode == 1
    assert "cannot be written: File too large; " in error and error.count("\n") == 1
    assert not (tmp_path / "data/file.bin").exists()
    assert started().wait(timeout=300) == 0
    assert (tmp_path / "data/file.bin").read_bytes() == CONTENT
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["file.bin"]


def test_an_interrupted_fetch_leaves_nothing_that_looks_like_the_file(started, server, tmp_path):
    server.hanging = threading.Event()
    server.faults["file.bin"] = ["hang"]
    process = started()
    parts = tmp_path / "data/.fetch"
    deadline = threading.Event()
    for _ in range(6000):
        if parts.exists() and any(part.stat().st_size == len(CONTENT) // 2 for part in parts.iterdir()):
            break
        deadline.wait(0.05)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=300)
    server.hanging.set()
    assert (process.returncode, error) == (130, "ssa: data fetch: stopped; the same command goes on\n")
    assert [path.name for path in (tmp_path / "data").iterdir()] == [".fetch"]
    assert started().wait(timeout=300) == 0
    assert (tmp_path / "data/file.bin").read_bytes() == CONTENT and not parts.exists()
    assert server.requests[-1][1] == f"bytes={len(CONTENT) // 2}-"
