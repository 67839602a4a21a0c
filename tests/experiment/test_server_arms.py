"""Arms that are servers: attached by address, or started here."""

from __future__ import annotations

import pytest

from specbench import catalog
from specbench.core.arm import PLAIN
from specbench.errors import UsageError
from specbench.experiment.load import Flags, load_experiment
from specbench.experiment.schema import check
from specbench.experiment.server_arms import CLAIMED, CLAIMS, server_factors

BASE = {"schema_version": 1, "target": {"model": "m"}, "workload": {"suites": ["code"]}}


def arms(engine="openai", **tables):
    return check({**BASE, "engine": engine, **tables}, "here").arms()


def test_an_address_alone_is_one_arm_that_nobody_described():
    (arm,) = arms(server={"url": "http://127.0.0.1:1/"})
    assert (arm.name, arm.drafter, arm.rule, arm.k) == ("server", "unknown", "unknown", 0)
    assert arm.server == {"url": "http://127.0.0.1:1", "metrics_urls": []}
    factors = server_factors(arm)
    assert (factors.lossless, factors.rule) == ("unknown", "unknown")


def test_a_plain_address_makes_the_plain_arm():
    plain, arm = arms(server={"url": "http://h:1", "plain_url": "https://h:2"})
    assert plain.name == PLAIN
    assert plain.plain
    assert plain.server["url"] == "https://h:2"
    assert not arm.plain


def test_the_one_described_arm_takes_the_address():
    (arm,) = arms(
        server={"url": "http://h:1", "metrics_urls": ["http://h:1/metrics"]},
        arm={"eagle": {"drafter": "eagle3", "k": 4, "rule": "rejection"}},
    )
    assert (arm.name, arm.drafter, arm.k, arm.rule) == ("eagle", "eagle3", 4, "rejection")
    assert arm.server["url"] == "http://h:1"
    assert server_factors(arm).lossless == CLAIMED


def test_every_arm_beside_an_attached_one_needs_its_address():
    with pytest.raises(UsageError, match=r"arm b has no address.*\n.*\[arm.b.server\] url"):
        arms(arm={"a": {"drafter": "x", "server": {"url": "http://h:1"}}, "b": {"drafter": "x"}})


def test_an_engine_that_cannot_be_started_asks_for_an_address():
    with pytest.raises(UsageError, match="engine openai cannot be started here"):
        arms()


@pytest.mark.parametrize(
    ("server", "text"),
    [
        ({"url": "h:1"}, "not an address"),
        ({"url": "http://me:secret@h:1"}, "user name or a password"),
        ({"url": "http://h:1?api_key=x"}, "holds a query or a fragment"),
        ({"url": "http://h:1/v1#x"}, "holds a query or a fragment"),
        ({"metrics_urls": ["http://h:1/metrics?token=x"]}, "holds a query or a fragment"),
        ({"env": {"HF_TOKEN": "x"}}, "HF_TOKEN looks like a secret"),
        ({"env": {"AWS_SECRET_ACCESS_KEY": "x"}}, "set it in the environment of specbench"),
        ({"args_extra": ["--api-key", "sk-1"]}, "the value of --api-key looks like a secret"),
        ({"args_extra": ["--hf-token=x"]}, "set it in the environment of specbench"),
        ({"command": ["env", "OPENAI_API_KEY=x", "serve"]}, "the value of OPENAI_API_KEY"),
        ({"command": ["sh", "-c", "serve --port {port} --api-key sk-1"]}, "value of --api-key"),
        ({"extra_body": {"api_key": "x"}}, "name that with api_key_env"),
        ({"extra_body": {"a": [{"authorization": "Bearer x"}]}}, "a.authorization looks like"),
        ({"api_key_env": "sk-123"}, "not the name of an environment variable"),
        ({"retries": -1}, "write a whole number of at least 0"),
        ({"prefix_cache": "hot"}, '"off", "cold" or "warm"'),
        ({"urls": "x"}, "did you mean url"),
    ],
)
def test_wrong_values_say_what_to_write(server, text):
    with pytest.raises(UsageError) as error:
        arms(server=server)
    assert text in str(error.value)


def test_secrets_of_an_arm_are_refused_too():
    with pytest.raises(UsageError, match=r"arm\.a\.server\.args_extra.*the value of --api-key"):
        arms("vllm", arm={"a": {"drafter": "ngram", "server": {"args_extra": ["--api-key", "x"]}}})


def test_what_only_sounds_like_a_secret_is_taken():
    server = {
        "env": {"TOKENIZERS_PARALLELISM": "false", "KEYBOARD": "us"},
        "args_extra": ["--max-num-batched-tokens", "5", "--tokenizer", "t"],
        "command": ["sh", "-c", "serve --port {port} --api-key $MY_KEY"],
        "extra_body": {"max_tokens": 5, "eos_token": 2, "tokens": "a"},
        "api_key_env": "MY_KEY",
    }
    (arm,) = arms("vllm", server=server)
    assert arm.server["env"] == server["env"]
    assert arm.server["args_extra"] == server["args_extra"]
    assert arm.server["command"] == server["command"]


def test_started_arms_share_and_extend_what_starts_servers():
    plain, arm = arms(
        "vllm",
        server={"env": {"A": "1", "B": "1"}, "args_extra": ["--x"], "python": "py"},
        arm={"n": {"drafter": "ngram", "server": {"env": {"B": "2"}, "args_extra": ["--y"]}}},
    )
    assert plain.server == {
        "python": "py",
        "env": {"A": "1", "B": "1"},
        "command": [],
        "args_extra": ["--x"],
    }
    assert arm.server["env"] == {"A": "1", "B": "2"}
    assert arm.server["args_extra"] == ["--x", "--y"]
    assert "url" not in plain.server


def test_flags_attach():
    flags = Flags(engine="openai", url="http://h:1", suites=("code",), metrics_urls=("http://h/m",))
    experiment = load_experiment(None, flags).experiment
    (arm,) = experiment.arms()
    assert arm.server == {"url": "http://h:1", "metrics_urls": ["http://h/m"]}


def test_what_is_claimed_agrees_with_the_rules_themselves():
    for rule, claim in CLAIMS.items():
        if rule == "unknown":
            continue
        declared = str(catalog.resolve("rules", rule).info.lossless)
        assert claim == (CLAIMED if declared == "proven" else declared), rule


def test_files_of_engines_that_are_no_servers_say_nothing_of_servers():
    resolved = check({**BASE, "arm": {"n": {"drafter": "ngram"}}}, "here").resolved()
    assert "server" not in resolved
    assert "server" not in resolved["arm"]["n"]
    assert "arrival" not in resolved["workload"]


def test_how_a_server_is_started_distinguishes_arms_and_where_it_is_does_not():
    quantised = arms("vllm", server={"args_extra": ["--quantization", "fp8"]})[0]
    assert server_factors(quantised).server == {"args_extra": ["--quantization", "fp8"]}
    assert server_factors(arms("vllm")[0]).server == {}
    assert server_factors(arms(server={"url": "http://h:1"})[0]).server == {}
