"""Addresses of servers, as experiments give them; nothing here needs what speaks to servers."""

from __future__ import annotations

from urllib.parse import urlsplit

from specbench.errors import UsageError


def base_url(url: str) -> str:
    """The address without user, slash at its end and ``/v1``, to which paths are added.

    Raises:
        UsageError: it is none.
    """
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise UsageError(f"{url!r} is no address of a server", "write http://HOST:PORT")
    path = parts.path.rstrip("/").removesuffix("/v1").rstrip("/")
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{path}"
