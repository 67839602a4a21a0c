"""Locks: between processes, and released with the process that held one."""

import subprocess
import sys

import pytest

from specbench.errors import UsageError
from specbench.results.lock import written_alone

HOLD = """
import sys
from pathlib import Path
from specbench.results.lock import written_alone
with written_alone(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_another_process_holds_it_until_it_is_killed(tmp_path):
    path = tmp_path / "new" / "data.json"
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert holder.stdout.readline() == b"held\n"
        with (
            pytest.raises(UsageError, match="is being written by another process") as refused,
            written_alone(path),
        ):
            pass
        assert refused.value.message.startswith(str(path))
        assert refused.value.hint.startswith("wait for it to end, or stop it")
    finally:
        holder.kill()
        holder.communicate()
    with written_alone(path):
        assert not path.exists()


def test_what_fails_inside_lets_go(tmp_path):
    path = tmp_path / "data.json"
    with pytest.raises(KeyboardInterrupt), written_alone(path):
        raise KeyboardInterrupt
    with written_alone(path):
        pass


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"), written_alone(tmp_path / "file" / "data.json"):
        pass
