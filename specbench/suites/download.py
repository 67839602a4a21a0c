"""One file from an https address into memory: with a limit, a deadline and nothing half-read."""

from __future__ import annotations

import http.client
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from time import monotonic
from typing import IO
from urllib.parse import urlsplit

from specbench.errors import PrerequisiteError

MOST_BYTES = 64 * 2**20
TIMEOUT_S = 30.0
DEADLINE_S = 300.0
_PIECE = 2**16


class DownloadFailed(PrerequisiteError):
    """A file that cannot be had; the message is the reason alone, without the address."""


def download(
    url: str,
    *,
    plain_hosts: Sequence[str] = (),
    most_bytes: int = MOST_BYTES,
    timeout_s: float = TIMEOUT_S,
    deadline_s: float = DEADLINE_S,
    clock: Callable[[], float] = monotonic,
) -> bytes:
    """The bytes at an address; all of them or none.

    Args:
        url: https; a redirect must lead to https too. Proxies of the environment are used.
        plain_hosts: hosts that may be asked over http; none but for a server on this machine.
        most_bytes: a larger file is refused, before it is read where its size is announced.
        timeout_s: longest wait for a connection and for each piece.
        deadline_s: longest time for the whole file, on ``clock`` (seconds).

    Raises:
        DownloadFailed: another scheme, no answer, a status that is no success, or a file that is
            too large, too slow or shorter than announced.
    """
    _require_allowed(url, plain_hosts)
    end = clock() + deadline_s
    opener = urllib.request.build_opener(_Redirects(plain_hosts))
    request = urllib.request.Request(url, headers={"User-Agent": "specbench"})
    try:
        with opener.open(request, timeout=timeout_s) as answer:
            announced = int(answer.headers.get("Content-Length") or -1)
            if announced > most_bytes:
                raise DownloadFailed(f"{announced} bytes, allowed are {most_bytes}")
            data = _read(answer, most_bytes, end, clock)
    except urllib.error.HTTPError as error:
        error.close()
        raise DownloadFailed(f"HTTP {error.code} {error.reason}") from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        raise DownloadFailed(str(reason) or type(reason).__name__) from None
    # The standard library takes a connection that closed early for the end of the file.
    if announced >= 0 and len(data) != announced:
        raise DownloadFailed(f"{len(data)} of {announced} bytes came")
    return data


def _read(answer: IO[bytes], most: int, end: float, clock: Callable[[], float]) -> bytes:
    data = bytearray()
    while piece := answer.read(_PIECE):
        data += piece
        if len(data) > most:
            raise DownloadFailed(f"more than {most} bytes")
        if clock() > end:
            raise DownloadFailed(f"only {len(data)} bytes came before the deadline")
    return bytes(data)


def _require_allowed(url: str, plain_hosts: Sequence[str]) -> None:
    parts = urlsplit(url)
    if parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in plain_hosts):
        return
    raise DownloadFailed(f"{parts.scheme or 'no scheme'} in {url}: only https is read")


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects to allowed addresses only; the standard one follows http and ftp too."""

    def __init__(self, plain_hosts: Sequence[str]) -> None:
        self._plain_hosts = plain_hosts

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        _require_allowed(newurl, self._plain_hosts)
        return super().redirect_request(req, fp, code, msg, headers, newurl)
