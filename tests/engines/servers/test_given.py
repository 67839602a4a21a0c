"""An arm's own command, interpreter, variables; secrets; shell text to paste."""

from __future__ import annotations

import shlex
import subprocess
import sys

import pytest

from specbench.core.arm import ArmSpec
from specbench.engines.servers import given, installed, sglang, trtllm, vllm
from specbench.engines.servers.paste import pasteable
from specbench.engines.servers.protocol import ServerPlan
from specbench.errors import PrerequisiteError, UsageError


def plan(drafter="none", k=0, options=None, **server):
    arm = ArmSpec("a", drafter, k, drafter_options=options or {}, server=server)
    return ServerPlan(arm, "my model", 8123, context=64, concurrency=2, seed=5, dtype="float16")


def test_placeholders_are_filled_and_json_is_left_alone():
    asked = plan(
        "eagle3",
        3,
        {"model": "org/head"},
        command=[
            "serve", "{target}", "--at={host}:{port}", '{"method": "x", "k": {k}}', "{draft}",
            "{context}/{concurrency}/{seed}/{dtype}",
        ],
        args_extra=["--more"],
    )  # fmt: skip
    assert given.own_command(asked) == [
        "serve", "my model", "--at=127.0.0.1:8123", '{"method": "x", "k": 3}', "org/head",
        "64/2/5/float16", "--more",
    ]  # fmt: skip
    assert given.own_command(plan()) is None


@pytest.mark.parametrize("launcher", [vllm.LAUNCHER, sglang.LAUNCHER, trtllm.LAUNCHER])
def test_every_launcher_takes_a_command_of_its_own(launcher):
    asked = plan("unknown", 2, command=["serve", "{port}"])
    launcher.check(asked.arm)
    assert launcher.command(asked) == ["serve", "8123"]
    assert launcher.files(asked) == {}


@pytest.mark.parametrize(
    ("server", "message"),
    [
        ({"command": ["serve"]}, r"where \{port\} goes"),
        ({"command": ["serve", "{port}", "{modle}"]}, r"unknown placeholder \{modle\}"),
        ({"command": "serve --port {port}"}, "is not a list"),
    ],
)
def test_commands_that_cannot_be_right(server, message):
    with pytest.raises(UsageError, match=message):
        given.own_command(plan(**server))


def test_variables_must_be_a_table():
    assert given.variables(plan(env={"A": 1}).arm) == {"A": "1"}
    with pytest.raises(UsageError, match="is not a table"):
        given.variables(plan(env=["A=1"]).arm)


def test_secrets_are_hidden_and_nothing_else():
    line = shlex.split(
        "serve --api-key k1 --api_key=k2 --hf-token k3 --max-num-batched-tokens 5 --password"
        " k4 --seed 1 --tokenizer t --speculative-num-draft-tokens 3 --api-key k5"
    )
    shown = given.without_secrets(line)
    assert " ".join(shown) == (
        "serve --api-key *** --api_key=*** --hf-token *** --max-num-batched-tokens 5 --password"
        " *** --seed 1 --tokenizer t --speculative-num-draft-tokens 3 --api-key ***"
    )
    variables = {"HF_TOKEN": "s", "VLLM_API_KEY": "s", "TOKENIZERS_PARALLELISM": "false"}
    assert given.open_variables(variables) == {
        "HF_TOKEN": "***", "VLLM_API_KEY": "***", "TOKENIZERS_PARALLELISM": "false",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ([], None),
        (["--api-key", "k"], "--api-key"),
        (["--seed", "1", "--hf-token=k"], "--hf-token"),
        (["env", "MY_KEY=k", "serve"], "MY_KEY"),
        (["sh", "-c", "'HF_TOKEN=k serve'"], "HF_TOKEN"),
        (["sh", "-c", 'serve --api-key "$KEY"'], None),
        (["serve", "--tokenizer", "t", "--max-num-batched-tokens=5", "key", "token"], None),
    ],
)
def test_secrets_among_words(words, found):
    assert given.secret_in(words) == found


def test_secrets_among_fields():
    assert given.secret_field({"a": [{"b": {"accessToken": "k"}}]}) == "a.b.accessToken"
    assert given.secret_field({"pad_token": 0, "max_tokens": "5", "key": None}) is None


def test_version_of_an_installed_package():
    assert installed.package_version(sys.executable, "pytest", "x") == pytest.__version__
    with pytest.raises(PrerequisiteError, match=r"no-such is not installed(.|\n)*type: this"):
        installed.package_version(sys.executable, "no-such", "type: this")
    with pytest.raises(PrerequisiteError, match="cannot run /no/python"):
        installed.package_version("/no/python", "pytest", "x")


def test_the_interpreter_of_a_program_is_in_its_first_line(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    plain = ArmSpec("plain")
    assert installed.python_of(plain, "some-server") == sys.executable
    python = tmp_path / "python3.99"
    python.symlink_to(sys.executable)
    program = tmp_path / "some-server"
    program.write_text(f"#!{python}\nprint(1)\n")
    program.chmod(0o755)
    assert installed.python_of(plain, "some-server") == str(python)
    assert installed.python_of(ArmSpec("a", server={"python": "/mine"}), "some-server") == "/mine"
    program.write_text("#!/bin/sh\n")
    assert installed.python_of(plain, "some-server") == sys.executable


def test_text_to_paste():
    arms = [ArmSpec("plain"), ArmSpec("spec", "ngram", 3)]
    first, second = pasteable(vllm.LAUNCHER, "org/m odel", arms, dtype="bfloat16", context=4096)
    assert first == (
        "vllm serve 'org/m odel' \\\n  --host 127.0.0.1 \\\n  --port 8000 \\\n"
        "  --dtype bfloat16 \\\n  --max-model-len 4096 \\\n  --max-num-seqs 1 \\\n  --seed 1 \\\n"
        "  --generation-config vllm \\\n  --enable-prompt-tokens-details \\\n"
        "  --no-enable-prefix-caching"
    )
    assert second.startswith(first.replace("8000", "8001"))
    assert '--speculative-config \'{"method": "ngram"' in second
    (third,) = pasteable(sglang.LAUNCHER, "m", [ArmSpec("plain", server={"env": {"A": "b c"}})])
    assert third.startswith("A='b c' python -m sglang.launch_server \\\n  --model-path m")
    with pytest.raises(UsageError, match="no drafter"):
        pasteable(vllm.LAUNCHER, "m", [ArmSpec("a", "tree", 3)])


def test_pasted_text_writes_the_file_and_runs_the_words_of_the_command(tmp_path):
    arm = ArmSpec("a", "ngram", 3, "target_match")
    (text,) = pasteable(trtllm.LAUNCHER, "org/m", [arm])
    program = tmp_path / "trtllm-serve"
    program.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    program.chmod(0o755)
    done = subprocess.run(
        ["bash", "-c", text],
        cwd=tmp_path,
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    asked = ServerPlan(arm, "org/m", 8000)
    assert done.stdout.splitlines() == trtllm.LAUNCHER.command(asked)[1:]
    assert (tmp_path / "trtllm.yaml").read_text() == trtllm.LAUNCHER.files(asked)["trtllm.yaml"]
