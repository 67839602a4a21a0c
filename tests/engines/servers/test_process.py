"""A child that gets ready, dies, hangs, ignores SIGTERM, leaves children, or loses its parent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress

import pytest

from specbench.engines.servers import process
from specbench.errors import PrerequisiteError
from tests.engines.servers.children import BUSY, Fake, plan, script

pytestmark = pytest.mark.skipif(os.name != "posix", reason="process groups are POSIX")


def gone(pid, within=10.0):
    """Whether a process that is not ours ends within that many seconds."""
    end = time.monotonic() + within
    while time.monotonic() < end:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        # An orphan may stay a zombie where nothing reaps it.
        with suppress(FileNotFoundError), open(f"/proc/{pid}/stat") as stat:
            if stat.read().rpartition(")")[2].split()[0] == "Z":
                return True
        time.sleep(0.02)
    return False


def test_ready_facts_and_stop(tmp_path):
    asked = plan(env={"MINE": "2", "MY_TOKEN": "hush"})
    log = tmp_path / "log.txt"
    running = process.start(Fake(script()), asked, log)
    assert running.url == f"http://127.0.0.1:{asked.port}"
    assert running.alive()
    assert running.answers()
    assert running.ended() == ""
    assert running.facts["version"] == "1.2.3"
    assert running.facts["files"] == {"notes.yaml": "x: 1\n"}
    assert running.facts["environment"] == {
        "FROM_LAUNCHER": "1", "SOME_API_KEY": "***", "MINE": "2", "MY_TOKEN": "***",
    }  # fmt: skip
    assert str(asked.port) in running.facts["command"]
    assert 0 <= running.facts["seconds_to_ready"] < 60
    running.stop()
    running.stop()
    assert not running.alive()
    assert "SIGTERM" in running.ended()
    assert gone(running.pid)
    assert log.read_text() == "booting\n"


def test_the_child_sees_files_and_variables(tmp_path):
    before = (
        "import os; print(open(sys.argv[2]).read().strip(), os.environ['MINE'],"
        " os.environ['FROM_LAUNCHER'], flush=True)"
    )
    with process.start(Fake(script(before=before)), plan(env={"MINE": 7})) as running:
        assert running.log_tail() == ["booting", "x: 1 7 1"]


def test_a_child_that_dies_shows_its_last_words():
    text = "import sys; print('one'); print('two', file=sys.stderr); sys.exit(3)"
    with pytest.raises(PrerequisiteError) as caught:
        process.start(Fake(text), plan())
    assert "arm a: the server's process ended (exit code 3)" in str(caught.value)
    assert {"    one", "    two"} <= set(str(caught.value).splitlines())
    assert "started with" in caught.value.hint


def test_a_program_that_is_not_there():
    launcher = Fake("")
    launcher.command = lambda plan: ["no-such-program", "--port", "1"]
    with pytest.raises(PrerequisiteError, match=r"exit code 127(.|\n)*no program no-such-program"):
        process.start(launcher, plan())


@pytest.mark.parametrize("answer", [BUSY, "time.sleep(60)"])
def test_a_child_that_is_never_ready(answer, monkeypatch):
    monkeypatch.setattr(process, "PROBE_S", 0.1)
    seconds = iter(range(0, 10_000, 20))
    with pytest.raises(PrerequisiteError, match="not ready after 100 s") as caught:
        process.start(
            Fake(script(answer=answer)),
            plan(),
            timeout_s=100,
            clock=lambda: next(seconds),
            sleep=lambda s: time.sleep(0.01),
        )
    assert "it last printed" in str(caught.value)


def test_a_child_that_dies_or_hangs_later_is_noticed():
    answer = (
        "hang = self.server.__dict__.setdefault('hang', []);"
        "hang and time.sleep(30); hang.append(1);"
        "self.send_response(200); self.end_headers()"
    )
    with process.start(Fake(script(answer=answer)), plan()) as running:
        assert running.alive()
        assert not running.answers(timeout_s=0.2)
        os.kill(running.pid, signal.SIGKILL)
        running._child.process.wait(10)
        assert not running.alive()
        assert not running.answers()
        assert running.ended() == "the server's process ended (signal SIGKILL)"


STUBBORN = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)"


def test_stop_kills_what_ignores_the_polite_signal():
    running = process.start(Fake(script(before=STUBBORN)), plan())
    running.stop(grace_s=0.2)
    assert "SIGKILL" in running.ended()


def test_an_interrupt_while_it_waits_kills_at_once(monkeypatch):
    running = process.start(Fake(script(before=STUBBORN)), plan())
    child = running._child.process
    wait, unregistered = child.wait, []
    monkeypatch.setattr(process.atexit, "unregister", unregistered.append)

    def interrupted(timeout=None):
        child.wait = wait
        raise KeyboardInterrupt

    child.wait = interrupted
    with pytest.raises(KeyboardInterrupt):
        running.stop(grace_s=60)
    assert gone(running.pid)
    assert "SIGKILL" in running.ended()
    # What was left undone is still due, now or at the end of this process.
    assert os.path.exists(running._folder.name)
    assert unregistered == []
    running.stop()
    assert not os.path.exists(running._folder.name)
    assert unregistered == [running.stop]


def test_an_interrupt_before_the_kill_leaves_it_to_the_next_stop():
    running = process.start(Fake(script(before=STUBBORN)), plan())
    send = running._child._signal

    def interrupted(number):
        if number == signal.SIGKILL:
            running._child._signal = send
            raise KeyboardInterrupt
        send(number)

    running._child._signal = interrupted
    with pytest.raises(KeyboardInterrupt):
        running.stop(grace_s=0.1)
    assert running.alive()
    running.stop(grace_s=0.1)
    assert gone(running.pid)


def test_stop_ends_grandchildren_that_outlive_their_parent():
    before = (
        "import subprocess; p = subprocess.Popen([sys.executable, '-c',"
        " 'import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)'"
        "]); time.sleep(0.3); print(p.pid, flush=True)"
    )
    running = process.start(Fake(script(before=before)), plan())
    grandchild = int(running.log_tail()[-1])
    os.kill(grandchild, 0)
    running.stop()
    assert gone(grandchild)


PARENT = """
import sys
from specbench.engines.servers import process
from tests.engines.servers.children import Fake, plan, script
running = process.start(Fake(script()), plan())
print(running.pid, flush=True)
{then}
"""


def started_by_another(then):
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT.format(then=then)],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(p or "." for p in sys.path)},
    )
    return parent, int(parent.stdout.readline())


@pytest.mark.skipif(sys.platform != "linux", reason="PR_SET_PDEATHSIG is Linux")
def test_a_killed_parent_leaves_no_server():
    parent, server = started_by_another("import time; time.sleep(600)")
    os.kill(server, 0)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    assert gone(server)


@pytest.mark.parametrize("then", ["", "raise SystemExit(4)", "raise KeyboardInterrupt"])
def test_a_parent_that_ends_without_stopping_leaves_no_server(then):
    parent, server = started_by_another(then)
    parent.wait()
    parent.stdout.close()
    assert gone(server)


def test_a_server_outlives_the_thread_that_asked_for_it():
    import threading

    found = []
    thread = threading.Thread(target=lambda: found.append(process.start(Fake(script()), plan())))
    thread.start()
    thread.join()
    time.sleep(0.2)
    with found[0] as running:
        assert running.alive()


def test_another_server_on_the_port_is_not_taken_for_ours():
    with process.start(Fake(script()), (first := plan())) as running:
        with pytest.raises(PrerequisiteError, match="something else listens"):
            process.start(Fake("import sys; sys.exit(1)"), first)
        assert running.answers()
