"""Puts a program behind the walls of ``sandbox``: namespaces, an empty root, limits.

Runs as a script of its own under ``python -I -S``, so that nothing of specbench is in the process.
Three processes: this one leaves the namespaces of the host; its child is process 1 of the new
ones, builds the root and outlives the program; the child's child becomes the program. When
process 1 ends the kernel kills whatever the program left behind.

Linux only: user_namespaces(7), pid_namespaces(7), mount_setattr(2), chroot(2), setrlimit(2).
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

NOBODY = 65534
UNUSED, HOW_MANY = 60706, 478
"""Users whom systemd leaves unused: they own nothing, and no service runs as one of them."""

WORK, PROGRAM, STARTER = "/tmp", "/program.py", "/starter.py"

_NEW_MOUNTS, _NEW_UTS, _NEW_IPC = 0x00020000, 0x04000000, 0x08000000
_NEW_USERS, _NEW_PIDS, _NEW_NET = 0x10000000, 0x20000000, 0x40000000
_NOSUID, _NODEV, _BIND, _REC, _PRIVATE = 0x2, 0x4, 0x1000, 0x4000, 0x40000
_ATTR_READONLY, _ATTR_NOSUID, _ATTR_NODEV = 0x1, 0x2, 0x4
_MOUNT_SETATTR, _AT_FDCWD, _AT_RECURSIVE = 442, -100, 0x8000
_DEATH_SIGNAL, _NO_NEW_PRIVILEGES = 1, 38


class _Attributes(ctypes.Structure):
    """struct mount_attr of mount_setattr(2)."""

    _fields_ = (
        ("set", ctypes.c_uint64),
        ("clear", ctypes.c_uint64),
        ("propagation", ctypes.c_uint64),
        ("userns_fd", ctypes.c_uint64),
    )


def main() -> None:
    """Read the plan from the command line and the program from standard input, and run it.

    The plan: ``root`` (an empty folder), ``see`` (paths to show), ``python``, ``starter`` (what
    runs the program), ``limits`` and ``report``, the descriptor that takes one JSON object per
    line: ``refused``, or ``status`` (exit code, or minus the signal) and ``cpu_s``.
    """
    plan = json.loads(sys.argv[1])
    os.set_inheritable(plan["report"], False)
    program = sys.stdin.buffer.read()
    # A superuser is exempt from the limit on processes; runs side by side must not share a user,
    # because the limit counts the processes of one.
    become = UNUSED + os.getpid() % HOW_MANY if os.geteuid() == 0 else None
    with _refusals(plan["report"]):
        _leave(superuser=become is not None)
        child = os.fork()
        if child == 0:
            with _refusals(plan["report"]):
                _first_process(plan, program, become)
            os._exit(0)
    os.waitpid(child, 0)


@contextmanager
def _refusals(report: int) -> Iterator[None]:
    """Turn a wall that could not be built into the report, and end the process."""
    try:
        yield
    except OSError as error:
        step = f"{error.filename}: " if error.filename else ""
        _say(report, {"refused": f"{step}{error.strerror}"})
        os._exit(1)
    except Exception as error:
        _say(report, {"refused": str(error)})
        os._exit(1)


def _say(report: int, words: dict[str, object]) -> None:
    os.write(report, json.dumps(words).encode() + b"\n")


def _leave(*, superuser: bool) -> None:
    """Leave the host's network, processes, mounts and, unless superuser, its users."""
    spaces = _NEW_MOUNTS | _NEW_UTS | _NEW_IPC | _NEW_PIDS | _NEW_NET
    if superuser:
        _call("unshare", spaces)
        return
    user, group = os.geteuid(), os.getegid()
    _call("unshare", spaces | _NEW_USERS)
    # Nobody, not root: without a user 0 the program loses every capability when it is started.
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{NOBODY} {user} 1"),
        ("gid_map", f"{NOBODY} {group} 1"),
    ):
        with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
            file.write(text)


def _first_process(plan: dict[str, Any], program: bytes, become: int | None) -> None:
    _call("prctl", _DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
    # The program may signal process 1; without a handler the kernel drops such signals.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    _build_root(plan, program)
    child = os.fork()
    if child == 0:
        with _refusals(plan["report"]):
            _start(plan, become)
    while True:
        ended, status, used = os.wait4(-1, 0)
        if ended == child:
            break
    code = os.waitstatus_to_exitcode(status)
    _say(plan["report"], {"status": code, "cpu_s": used.ru_utime + used.ru_stime})


def _build_root(plan: dict[str, Any], program: bytes) -> None:
    """A root that holds the interpreter, read-only, and one small folder in memory to write to.

    A root of its own also hides the sockets of the host's services, which a read-only file system
    would leave open. The end is ``chroot``: in it the kernel makes no further user namespaces.
    """
    root = plan["root"]
    _mount(None, "/", None, _REC | _PRIVATE, None)
    _mount("tmpfs", root, "tmpfs", _NOSUID | _NODEV, "size=8m,nr_inodes=4096,mode=755")
    os.mkdir(root + WORK)
    size = f"size={plan['limits']['disk_bytes']},nr_inodes=1024,mode=1777"
    _mount("tmpfs", root + WORK, "tmpfs", _NOSUID | _NODEV, size)
    for path in plan["see"]:
        _show(path, root + path)
    os.mkdir(f"{root}/dev")
    _touch(f"{root}/dev/null")
    _mount("/dev/null", f"{root}/dev/null", None, _BIND, None)
    for path, content in ((PROGRAM, program), (STARTER, plan["starter"].encode())):
        with open(root + path, "wb") as file:
            file.write(content)
    _read_only(root, recursive=False)
    os.chroot(root)
    os.chdir(WORK)


def _show(path: str, place: str) -> None:
    """Make a file or folder of the host visible, read-only, where it stands on the host."""
    os.makedirs(os.path.dirname(place), exist_ok=True)
    if os.path.islink(path):
        os.symlink(os.readlink(path), place)
        return
    if os.path.isdir(path):
        os.makedirs(place, exist_ok=True)
    else:
        _touch(place)
    _mount(path, place, None, _BIND | _REC, None)
    _read_only(place, recursive=True)


def _touch(path: str) -> None:
    with open(path, "wb"):
        pass


def _start(plan: dict[str, Any], become: int | None) -> NoReturn:
    limits = plan["limits"]
    null = os.open("/dev/null", os.O_RDONLY)
    os.dup2(null, 0)
    if become is not None:
        os.setgroups([])
        os.setresgid(become, become, become)
        os.setresuid(become, become, become)
    _call("prctl", _NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    # In a user namespace the two processes above the program count as processes of its user.
    processes = limits["processes"] + (2 if become is None else 0)
    for what, most in (
        (resource.RLIMIT_CPU, limits["cpu_s"]),
        (resource.RLIMIT_AS, limits["memory_bytes"]),
        (resource.RLIMIT_FSIZE, limits["file_bytes"]),
        (resource.RLIMIT_NOFILE, limits["open_files"]),
        (resource.RLIMIT_NPROC, processes),
        (resource.RLIMIT_CORE, 0),
    ):
        _limit(what, most)
    # A fixed hash seed: equal programs must give equal verdicts. That rules out -I (it ignores the
    # variable), whose other effects the empty environment, -s and -P have.
    words = [plan["python"], "-s", "-S", "-P", "-B", "-X", "utf8", STARTER, PROGRAM]
    os.execve(words[0], words, {"HOME": WORK, "PYTHONHASHSEED": "0"})


def _limit(what: int, most: int) -> None:
    """Set a limit, or keep the host's where that is lower; processor time ends in SIGXCPU first."""
    _, hard = resource.getrlimit(what)
    soft = most if hard == resource.RLIM_INFINITY else min(most, hard)
    spare = 1 if what == resource.RLIMIT_CPU and soft != hard else 0
    resource.setrlimit(what, (soft, soft + spare))


def _mount(
    source: str | None, target: str, kind: str | None, flags: int, options: str | None
) -> None:
    names = [None if word is None else word.encode() for word in (source, target, kind)]
    data = None if options is None else options.encode()
    _call("mount", *names, ctypes.c_ulong(flags), data, step=f"mount {target}")


def _read_only(target: str, *, recursive: bool) -> None:
    asked = _Attributes(set=_ATTR_READONLY | _ATTR_NOSUID | _ATTR_NODEV)
    flags = _AT_RECURSIVE if recursive else 0
    _call(
        "syscall",
        ctypes.c_long(_MOUNT_SETATTR),
        _AT_FDCWD,
        target.encode(),
        flags,
        ctypes.byref(asked),
        ctypes.c_size_t(ctypes.sizeof(asked)),
        step=f"make {target} read-only",
    )


def _call(name: str, *arguments: object, step: str = "") -> None:
    """Call the C library; OSError names the step that failed."""
    library = ctypes.CDLL(None, use_errno=True)
    if getattr(library, name)(*arguments) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), step or name)


if __name__ == "__main__":
    main()
