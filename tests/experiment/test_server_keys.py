"""Keys about servers that nothing would read, and what is asked before a server is started."""

from __future__ import annotations

import pytest

from specbench import catalog
from specbench.core.manifest import UNKNOWN
from specbench.errors import PrerequisiteError, UsageError
from specbench.experiment.load import Flags, load_experiment
from specbench.experiment.schema import check
from specbench.experiment.server_arms import CLAIMED, require_installed, server_factors

BASE = {"schema_version": 1, "target": {"model": "m"}, "workload": {"suites": ["code"]}}
URL = "http://h:1"


def arms(engine="vllm", **tables):
    named = {} if engine is None else {"engine": engine}
    return check({**BASE, **named, **tables}, "here").arms()


def drafts(**server):
    return {"n": {"drafter": "ngram", "server": server}}


@pytest.mark.parametrize("value", [["x", "{port}"], "py", {"A": "1"}, 2, False])
@pytest.mark.parametrize("url", [{"url": URL}, {"plain_url": URL}])
def test_what_starts_a_server_is_refused_beside_an_address(value, url):
    by_kind = {list: "command", str: "python", dict: "env", int: "starts", bool: "together"}
    key = by_kind[type(value)]
    with pytest.raises(UsageError, match=rf"server\.{key} is for servers that are started here"):
        arms(server={**url, key: value})


@pytest.mark.parametrize(
    ("server", "arm", "message"),
    [
        ({"url": URL}, {"args_extra": ["--x"]}, r"arm\.n\.server\.args_extra is for servers"),
        ({}, {"url": URL, "python": "py"}, r"arm\.n\.server\.python is for servers"),
        ({"env": {"A": "1"}}, {"url": URL}, r"server\.env is for servers that are started"),
        ({"metrics_urls": [URL]}, {}, r"server\.metrics_urls is for attached servers, but no url"),
        ({}, {"metrics_urls": [URL]}, r"arm\.n\.server\.metrics_urls is for attached servers"),
        ({"url": URL, "plain_metrics_urls": [URL]}, {}, r"without server\.plain_url"),
        ({"url": URL}, {"url": "http://h:2"}, r"server\.url = http://h:1 is no arm's"),
    ],
)
def test_keys_that_nothing_would_read_are_refused(server, arm, message):
    with pytest.raises(UsageError, match=message):
        arms(server=server, arm=drafts(**arm))


@pytest.mark.parametrize(
    "tables",
    [
        {"server": {"url": URL, "plain_url": "http://h:2"}},
        {"server": {"starts": 3}, "arm": drafts(args_extra=["--x"])},
        {"server": {"plain_url": "http://h:2"}, "arm": drafts(url=URL)},
    ],
)
def test_the_file_of_a_run_with_every_key_says_the_same(tables):
    experiment = check({**BASE, "engine": "vllm", **tables}, "here")
    assert check(experiment.resolved(), "run").arms() == experiment.arms()


@pytest.mark.parametrize(
    ("engine", "tables", "message"),
    [
        (None, {"server": {"url": URL}}, r'server\.url is set.*engine = "vllm" is missing'),
        (None, {"arm": drafts(url=URL)}, r'arm\.n\.server\.url is set.*engine = "vllm" is'),
        ("native", {"server": {"retries": 0}}, r"server\.retries is for engines that are servers"),
        ("vlm", {"server": {"url": URL}}, r"unknown engine 'vlm'\n.*did you mean vllm"),
    ],
)
def test_server_tables_need_an_engine_that_is_one(engine, tables, message):
    with pytest.raises(UsageError, match=message):
        arms(engine, **tables)


@pytest.mark.parametrize("plain", ["http://h:1", "http://H:1/", "http://h:1/v1"])
def test_one_server_cannot_be_plain_and_another_arm(plain):
    with pytest.raises(UsageError, match=r"plain and arm server are the same server: http://h:1"):
        arms(server={"url": URL, "plain_url": plain})
    with pytest.raises(UsageError, match=r"plain and arm n are the same server"):
        arms(server={"plain_url": plain}, arm=drafts(url=URL))


def test_ports_hosts_and_paths_tell_servers_apart():
    for plain in ("http://h:2", "http://g:1", "http://h:1/other", "http://h"):
        assert len(arms(server={"url": URL, "plain_url": plain})) == 2
    local = {"url": "http://localhost:80", "plain_url": "http://127.0.0.1"}
    with pytest.raises(UsageError, match="the same server"):
        arms(server=local)


def test_an_attached_arm_without_a_rule_claims_nothing():
    (arm,) = arms(server={"url": URL}, arm=drafts())
    factors = server_factors(arm)
    assert (arm.rule, factors.lossless) == (UNKNOWN, UNKNOWN)
    (named,) = arms(server={"url": URL}, arm={"n": {"drafter": "ngram", "rule": "rejection"}})
    assert server_factors(named).lossless == CLAIMED
    _, started = arms(arm=drafts())
    assert (started.rule, server_factors(started).lossless) == ("rejection", CLAIMED)


def test_drafters_of_attached_servers_are_names_that_servers_know():
    def attached(engine, drafter):
        return arms(engine, server={"url": URL}, arm={"a": {"drafter": drafter}})[0]

    with pytest.raises(UsageError, match=r"arm a: unknown drafter 'eagel3'\n.*did you mean eagle3"):
        server_factors(attached("vllm", "eagel3"))
    # How somebody started it is not limited to what our own command lines offer.
    for engine, drafter in (("vllm", "eagle3"), ("llamacpp", "medusa"), ("vllm", UNKNOWN)):
        assert server_factors(attached(engine, drafter)).drafter == drafter
    assert server_factors(attached("openai", "whatever")).drafter == "whatever"


def test_a_key_for_all_arms_in_the_table_of_one_says_where_it_belongs():
    with pytest.raises(UsageError, match=r"arm\.n\.server\.retries = 3: belongs in \[server\]"):
        arms(arm=drafts(retries=3))
    with pytest.raises(UsageError, match=r"arm\.n\.server\.urls = 'x'.*did you mean url"):
        arms(arm=drafts(urls="x"))


class Absent:
    """A launcher whose package is not installed; remembers who was asked."""

    def __init__(self):
        self.asked = []

    def python(self, arm):
        return str(arm.server.get("python") or "own")

    def version(self, python):
        self.asked.append(python)
        if python == "bad":
            raise PrerequisiteError("it is not installed", "type: pip install it")
        return "1"


def test_every_interpreter_is_asked_once_for_the_engine(monkeypatch):
    absent = Absent()
    found = arms(
        arm={
            "a": {"drafter": "ngram"},
            "b": {"drafter": "ngram", "server": {"python": "other"}},
            "c": {"drafter": "ngram", "server": {"python": "bad", "command": ["x", "{port}"]}},
        }
    )
    bad, elsewhere = arms(arm=drafts(python="bad")), arms(server={"url": URL})
    monkeypatch.setattr("specbench.experiment.server_arms.launcher_of", lambda engine: absent)
    require_installed(found)
    assert absent.asked == ["own", "other"]
    with pytest.raises(PrerequisiteError, match="not installed"):
        require_installed(bad)
    asked = len(absent.asked)
    require_installed(elsewhere)
    assert len(absent.asked) == asked


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"url": URL}, "--url needs --engine NAME"),
        ({"url": URL, "engine": "vlm"}, r"unknown engine 'vlm'\n.*did you mean vllm"),
        ({"url": URL, "engine": "native"}, "--url needs an engine that is a server, not native"),
        ({"plain_url": URL, "engine": "vllm"}, "--plain-url without --url"),
        ({"plain_url": URL, "engine": "vllm", "target": "m"}, "--plain-url without --url"),
    ],
)
def test_flags_of_servers_say_what_is_missing(flags, message):
    with pytest.raises(UsageError, match=message):
        load_experiment(None, Flags(suites=("code",), **flags))


def test_a_plain_address_may_be_added_to_a_file_with_an_address(tmp_path):
    path = tmp_path / "e.toml"
    head = 'schema_version = 1\nengine = "vllm"\n[target]\nmodel = "m"\n'
    path.write_text(f'{head}[workload]\nsuites = ["code"]\n[server]\nurl = "{URL}"\n')
    found = load_experiment(str(path), Flags(plain_url="http://h:2")).experiment
    assert [arm.name for arm in found.arms()] == ["plain", "server"]
    path.write_text(f'{head}[workload]\nsuites = ["code"]\n')
    with pytest.raises(UsageError, match="--plain-url without --url"):
        load_experiment(str(path), Flags(plain_url="http://h:2"))


def test_a_tokenizer_in_a_folder_is_kept_by_its_full_path(tmp_path, monkeypatch):
    (tmp_path / "tok").mkdir()
    monkeypatch.chdir(tmp_path)

    def kept(name):
        flags = Flags(engine="vllm", url=URL, suites=("code",), tokenizer=name)
        return load_experiment(None, flags).experiment.server.tokenizer

    assert kept("tok") == str(tmp_path.resolve() / "tok")
    assert kept("org/model") == "org/model"


def test_every_server_but_the_attached_only_one_can_be_asked_for():
    assert [name for name, place in catalog.SERVERS.items() if not place] == ["openai"]
