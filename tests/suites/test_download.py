"""Downloads from a server of our own on this machine; http is allowed there by an argument."""

from __future__ import annotations

import json
import threading
from functools import partial
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from specbench.errors import PrerequisiteError, UsageError
from specbench.suites import hub, source
from specbench.suites.definition import definition
from specbench.suites.download import DownloadFailed, download
from specbench.suites.loader import load_suite

HERE = ("127.0.0.1",)
ROW = {"question_id": 7, "category": "rag", "turns": ["U"], "reference": ["R"]}
DATA = (json.dumps(ROW) + "\n").encode()


class Answers(BaseHTTPRequestHandler):
    def do_GET(self):
        status, headers, body = self.server.pages[self.path]
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *parts):
        pass


@pytest.fixture
def address(monkeypatch, tmp_path):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setenv("SPECBENCH_CACHE", str(tmp_path))
    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    server.pages = {
        "/good": (200, {"Content-Length": str(len(DATA))}, DATA),
        "/open": (200, {}, DATA),
        "/short": (200, {"Content-Length": str(len(DATA) + 1)}, DATA),
        "/gone": (404, {}, b""),
        "/moved": (302, {"Location": "/good"}, b""),
        "/ftp": (302, {"Location": "ftp://127.0.0.1/good"}, b""),
        "/file": (302, {"Location": "file:///etc/hostname"}, b""),
        "/plain": (302, {"Location": "http://localhost.invalid/good"}, b""),
    }
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize("page", ["good", "open", "moved"])
def test_all_bytes_come(address, page):
    assert download(f"{address}/{page}", plain_hosts=HERE) == DATA


@pytest.mark.parametrize(
    ("page", "part"),
    [
        ("short", f"{len(DATA)} of {len(DATA) + 1} bytes came"),
        ("gone", "HTTP 404"),
        ("ftp", "ftp in .*only https"),
        ("file", "HTTP 302 .*not allowed"),
        ("plain", "http in .*only https"),
    ],
)
def test_less_is_refused(address, page, part):
    with pytest.raises(DownloadFailed, match=part):
        download(f"{address}/{page}", plain_hosts=HERE)


@pytest.mark.parametrize(("page", "part"), [("good", "bytes, allowed are 9"), ("open", "than 9")])
def test_a_large_file_is_refused(address, page, part):
    with pytest.raises(DownloadFailed, match=part):
        download(f"{address}/{page}", plain_hosts=HERE, most_bytes=9)


def test_a_slow_file_is_given_up(address):
    times = iter([0.0, 5.1])
    with pytest.raises(DownloadFailed, match="before the deadline"):
        download(f"{address}/good", plain_hosts=HERE, deadline_s=5, clock=lambda: next(times))


@pytest.mark.parametrize("url", ["http://127.0.0.1:9/a", "file:///etc/hostname", "no-address"])
def test_only_https_is_asked(url):
    with pytest.raises(DownloadFailed, match="only https"):
        download(url)


def test_a_server_that_is_not_there(address):
    with pytest.raises(DownloadFailed, match="refused"):
        download("http://127.0.0.1:9/a", plain_hosts=HERE)


@pytest.fixture
def spec_bench(address, monkeypatch):
    """Let the definition name a page of the server."""
    monkeypatch.setattr(source, "download", partial(download, plain_hosts=HERE))

    def at(page):
        found = definition("spec-bench")
        place = found.source.model_copy(update={"url": f"{address}/{page}"})
        new = found.model_copy(update={"source": place})
        monkeypatch.setattr(hub, "definition", lambda name: new)

    return at


def test_a_set_at_an_address_becomes_a_suite_without_datasets(spec_bench, monkeypatch):
    def absent(name):
        raise ImportError(name)

    monkeypatch.setattr(source, "import_module", absent)
    spec_bench("good")
    made = hub.fetch("spec-bench", offline=False)
    digest = sha256(DATA).hexdigest()
    assert json.loads((made.folder / "origin.json").read_text())["origin"]["sha256"] == digest
    suite = load_suite("spec-bench")
    assert suite.version == f"file-{digest[:12]}"
    assert [(p.id, p.reference) for p in suite.prompts] == [("question-7", "R")]


def test_a_failed_download_says_what_to_type_and_writes_nothing(spec_bench, tmp_path):
    spec_bench("short")
    with pytest.raises(PrerequisiteError) as caught:
        hub.fetch("spec-bench", offline=False)
    assert "bytes came" in str(caught.value)
    assert "specbench suites fetch spec-bench --file FILE" in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_an_address_has_no_revision_and_offline_no_socket(spec_bench):
    spec_bench("good")
    with pytest.raises(UsageError, match="--revision applies to the hub, and spec-bench"):
        hub.fetch("spec-bench", revision="main", offline=False)
    with pytest.raises(PrerequisiteError, match="this is offline"):
        hub.fetch("spec-bench", offline=True)
