"""The first program in a sandbox: looks for holes in its walls, and fails where it finds one."""

from __future__ import annotations

import errno
import os
import socket

_UNREACHABLE = (errno.ENETUNREACH, errno.EADDRNOTAVAIL, errno.ENETDOWN)


def look() -> None:
    """AssertionError: a network, a place to write to, the host's processes, or privileges."""
    # The last two addresses are for documentation; connecting a datagram socket sends nothing.
    for address in ("127.0.0.1", "192.0.2.1", "2001:db8::1"):
        assert not _can_reach(address), f"a way to {address}"
    for folder in ("/", "/usr", os.path.dirname(os.__file__)):
        assert not _can_write(folder), f"{folder} can be written"
    assert _can_write("."), "the working folder cannot be written"
    assert not os.path.exists("/proc"), "the host's processes can be seen"
    assert 0 not in (*os.getresuid(), *os.getresgid()), "a superuser"


def _can_reach(address: str) -> bool:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as outside:
            return outside.connect_ex((address, 9)) not in _UNREACHABLE
    except OSError as error:
        return error.errno != errno.EAFNOSUPPORT


def _can_write(folder: str) -> bool:
    path = os.path.join(folder, "probe")
    try:
        with open(path, "w", encoding="ascii"):
            pass
    except OSError:
        return False
    os.unlink(path)
    return True


if __name__ == "answer":
    look()
