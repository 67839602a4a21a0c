"""Which route prompts take."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from specbench.engines.http.address import base_url
from specbench.engines.http.routes import usable_routes
from specbench.errors import UsageError

FULL = SimpleNamespace(name="vllm", routes=("ids", "text", "chat"))
STANDARD = SimpleNamespace(name="openai", routes=("chat", "text"))


@pytest.mark.parametrize(
    ("dialect", "tokenizer", "template", "routes"),
    [
        (FULL, True, None, ("ids", "text", "chat")),
        (FULL, False, None, ("chat",)),
        (FULL, True, "chat.jinja", ("ids", "text")),
        (FULL, False, "none", ("text",)),
        (STANDARD, True, None, ("chat", "text")),
        (STANDARD, False, "none", ("text",)),
    ],
)
def test_what_can_be_used(dialect, tokenizer, template, routes):
    assert usable_routes(dialect, "auto", tokenizer, template) == routes


def test_a_named_route_is_the_only_one():
    assert usable_routes(FULL, "chat", True, None) == ("chat",)


@pytest.mark.parametrize(
    ("dialect", "asked", "tokenizer", "template", "told"),
    [
        (STANDARD, "ids", True, None, "no route 'ids'"),
        (FULL, "ids", False, None, "needs a tokenizer"),
        (FULL, "chat", True, "none", "applies the server's template"),
        (FULL, "auto", False, "chat.jinja", "no route can be used"),
    ],
)
def test_what_cannot_be_used(dialect, asked, tokenizer, template, told):
    with pytest.raises(UsageError, match=told):
        usable_routes(dialect, asked, tokenizer, template)


@pytest.mark.parametrize(
    ("asked", "template", "typed"),
    [("chat", "none", "--set server.route=auto"), ("ids", None, "--set server.route=chat")],
)
def test_what_to_type_instead(asked, template, typed):
    with pytest.raises(UsageError) as caught:
        usable_routes(FULL, asked, asked == "chat", template)
    assert typed in caught.value.hint


@pytest.mark.parametrize(
    ("given", "used"),
    [
        ("http://h:1", "http://h:1"),
        ("http://h:1/", "http://h:1"),
        ("https://h/v1", "https://h"),
        ("http://h/some/path/v1/", "http://h/some/path"),
        ("http://user:word@h:1/v1", "http://h:1"),
        ("http://[::1]:8000/v1", "http://[::1]:8000"),
    ],
)
def test_the_base_of_an_address(given, used):
    assert base_url(given) == used


@pytest.mark.parametrize("given", ["h:8000", "ftp://h", "http://", "http://h:99999", "http://[::1"])
def test_what_is_no_address(given):
    with pytest.raises(UsageError, match="no address"):
        base_url(given)
