"""The walls, tried from inside. Programs are written for these tests; none needs much time."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from specbench.errors import PrerequisiteError
from specbench.quality.sandbox import Sandbox, open_sandbox
from specbench.quality.sandbox_outcome import Limits, Outcome, Ran

ROOT = Path(__file__).resolve().parents[2]


def limited(sandbox, **limits):
    return replace(sandbox, limits=replace(sandbox.limits, **limits))


@pytest.mark.parametrize(
    ("program", "outcome", "detail"),
    [
        ("assert 1 + 1 == 2", Outcome.PASSED, ""),
        ("assert 1 == 2, 'not two'", Outcome.FAILED, "AssertionError: not two"),
        ("1 / 0", Outcome.ERROR, "ZeroDivisionError: division by zero"),
        ("def f(:", Outcome.ERROR, "SyntaxError: invalid syntax"),
        ("x = '\ud800'", Outcome.ERROR, "UnicodeDecodeError"),
        ("raise SystemExit(0)", Outcome.ERROR, "SystemExit: 0"),
        ("import os; os._exit(0)", Outcome.ERROR, "ended by exit code 0 before the tests were"),
        ("import os; os.abort()", Outcome.ERROR, "ended by signal 6 before the tests were over"),
        ("bytearray(1 << 31)", Outcome.MEMORY, ""),
        ("import sys; assert sys.stdin.read() == ''", Outcome.PASSED, ""),
        ("if __name__ == '__main__': 1 / 0", Outcome.PASSED, ""),
        ("print('ä')", Outcome.PASSED, "ä"),
    ],
)
def test_outcomes(sandbox, program, outcome, detail):
    found = sandbox.run(program)
    assert found.outcome is outcome, found
    assert detail in found.detail


def test_equal_programs_behave_equally(sandbox):
    program = "print([hash(str(n)) for n in range(3)])"
    assert sandbox.run(program) == sandbox.run(program)


@pytest.mark.parametrize(
    ("limits", "program"),
    [
        ({"cpu_s": 1}, "while True: pass"),
        ({"wall_s": 0.5}, "import time; time.sleep(600)"),
        ({"wall_s": 0.5}, "import signal, time\nfor s in range(1, 32):\n    try:\n"
                          "        signal.signal(s, signal.SIG_IGN)\n    except OSError:\n"
                          "        pass\ntime.sleep(600)"),
    ],
)  # fmt: skip
def test_time_runs_out(sandbox, limits, program):
    assert limited(sandbox, **limits).run(program).outcome is Outcome.TIMEOUT


def test_nothing_is_left_behind(sandbox):
    # a daemon that holds the output open; the run would end as a timeout if it lived on
    program = """
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(600)
    os._exit(0)
"""
    assert sandbox.run(program).outcome is Outcome.PASSED


def test_a_fork_bomb_is_contained(sandbox):
    program = """
import errno, os, time
started = 0
try:
    while True:
        if os.fork() == 0:
            time.sleep(600)
        started += 1
except OSError as error:
    assert error.errno == errno.EAGAIN
    print(started)
"""
    found = limited(sandbox, processes=4).run(program)
    assert (found.outcome, found.detail) == (Outcome.PASSED, "3")
    bomb = "import os\nwhile True:\n    try:\n        os.fork()\n    except OSError:\n        pass"
    assert limited(sandbox, processes=4, wall_s=1.0).run(bomb).outcome is Outcome.TIMEOUT


def test_no_network(sandbox):
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0)
        program = f"""
import socket
for address in (("127.0.0.1", {server.getsockname()[1]}), ("192.0.2.1", 80)):
    try:
        socket.create_connection(address, timeout=1)
    except OSError:
        continue
    assert False, address
"""
        assert sandbox.run(program) == Ran(Outcome.PASSED, "")
        with pytest.raises(BlockingIOError):
            server.accept()


def test_the_files_of_the_host_are_out_of_reach(sandbox, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("keep")
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(tmp_path / "service"))
    listening.listen()
    program = f"""
import os, socket
for path in ({str(secret)!r}, {str(ROOT)!r}, "/proc", "/sys", "/run", "/etc/passwd", "/home"):
    assert not os.path.exists(path), path
try:
    socket.socket(socket.AF_UNIX).connect({str(tmp_path / "service")!r})
except FileNotFoundError:
    pass
for folder in ("/", "/dev", "/usr", "/usr/lib", os.path.dirname(os.__file__)):
    try:
        open(os.path.join(folder, "new"), "w")
    except OSError:
        continue
    assert False, folder
"""
    with listening:
        assert sandbox.run(program) == Ran(Outcome.PASSED, "")
    assert secret.read_text() == "keep"


def test_an_empty_folder_and_an_empty_environment(sandbox):
    program = """
import os
assert os.listdir() == []
assert os.getcwd() == os.environ["HOME"] == "/tmp"
assert set(os.environ) <= {"HOME", "PYTHONHASHSEED", "LC_CTYPE"}
open("mine", "w").write("x")
try:
    import numpy
except ImportError:
    pass
else:
    assert False, "a package of the host"
"""
    for _ in range(2):  # and what one program leaves the next does not find
        assert sandbox.run(program) == Ran(Outcome.PASSED, "")


@pytest.mark.parametrize(
    ("program", "detail"),
    [
        ("open('f', 'wb').write(b'x' * (2 << 20))", "File too large"),
        ("for n in range(40): open(f'{n}', 'wb').write(b'x' * (1 << 20))", "No space left"),
        ("held = [open('/dev/null') for _ in range(100)]", "Too many open files"),
    ],
)
def test_files_are_limited(sandbox, program, detail):
    found = sandbox.run(program)
    assert found.outcome is Outcome.ERROR
    assert detail in found.detail


def test_output_is_capped(sandbox):
    found = limited(sandbox, output_bytes=1000).run("print('x' * (4 << 20))")
    assert (found.outcome, len(found.output)) == (Outcome.PASSED, 1000)


def test_no_privileges(sandbox):
    program = """
import ctypes, errno, os
assert 0 not in os.getresuid() + os.getresgid()
library = ctypes.CDLL(None, use_errno=True)
for name, arguments in {
    "unshare": (0x10000000,),
    "mount": (b"tmpfs", b"/tmp", b"tmpfs", 0, None),
    "chroot": (b"/tmp",),
    "setuid": (0,),
    "sethostname": (b"x", 1),
}.items():
    assert getattr(library, name)(*arguments) == -1, name
    assert ctypes.get_errno() in (errno.EPERM, errno.EINVAL), name
"""
    assert sandbox.run(program) == Ran(Outcome.PASSED, "")


def test_a_wall_that_cannot_be_built(sandbox):
    found = replace(sandbox, see=("/no/such/folder",)).run("print('ran')")
    assert found.outcome is Outcome.REFUSED
    assert "/no/such/folder" in found.detail
    assert found.output == ""


def test_other_systems_are_refused(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(PrerequisiteError, match="made for Linux, this is darwin") as caught:
        open_sandbox()
    assert caught.value.exit_code == 3
    assert "leave code unscored" in caught.value.hint


@pytest.mark.parametrize("outcome", [Outcome.REFUSED, Outcome.FAILED])
def test_walls_with_a_hole_are_refused(monkeypatch, outcome):
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(Sandbox, "run", lambda self, program: Ran(outcome, "a way to 192.0.2.1"))
    with pytest.raises(PrerequisiteError, match="cannot do that: a way to 192"):
        open_sandbox(Limits(cpu_s=1))


def script(*lines, **options):
    """Run lines of Python in a process of their own; no bytecode is written."""
    command = [options.pop("python", sys.executable), "-B", "-c", "\n".join(lines)]
    environment = {"PYTHONPATH": str(ROOT), "PATH": os.defpath}
    return subprocess.run(command, env=environment, capture_output=True, text=True, **options)


only_superuser = pytest.mark.skipif(os.geteuid() != 0, reason="takes a superuser to try")


@only_superuser
def test_a_superuser_without_the_right_to_cut_the_network_is_refused():
    done = script(
        "import ctypes",
        "from specbench.quality.sandbox import open_sandbox",
        "drop_from_bounding_set, sys_admin = 24, 21",
        "assert ctypes.CDLL(None).prctl(drop_from_bounding_set, sys_admin, 0, 0, 0) == 0",
        "open_sandbox()",
    )
    assert "PrerequisiteError: model-written code is run only where it can be cut" in done.stderr
    assert "cannot do that: unshare: Operation not permitted" in done.stderr


@only_superuser
def test_a_user_gets_the_same_walls(sandbox):
    python = shutil.which("python3", path=os.defpath)
    user = {"python": python, "user": 12345, "group": 12345, "extra_groups": []}
    if python is None or script("import specbench.quality.sandbox", **user).returncode != 0:
        pytest.skip("no interpreter that another user can start")
    forks = """
import os, time
started = 0
try:
    while True:
        if os.fork() == 0:
            time.sleep(600)
        started += 1
except OSError:
    print(started)
"""
    unshare = "import ctypes; assert ctypes.CDLL(None).unshare(0x10000000) == -1"
    programs = [forks, unshare, "open('/usr/new', 'w')", "assert False"]
    done = script(
        "from specbench.quality.sandbox import open_sandbox",
        "from specbench.quality.sandbox_outcome import Limits",
        "sandbox = open_sandbox(Limits(processes=4))",
        f"for program in {programs!r}:",
        "    ran = sandbox.run(program)",
        "    print(ran.outcome, ran.detail)",
        **user,
    )
    assert done.stdout.splitlines() == [
        "passed 3",
        "passed ",
        "error OSError: [Errno 30] Read-only file system: '/usr/new'",
        "failed AssertionError",
    ], done.stderr
