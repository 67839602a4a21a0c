"""What a sweep is asked for: lists, objectives, candidates, and what is refused."""

from __future__ import annotations

import pytest

from specbench.errors import UsageError
from specbench.experiment.schema import check
from specbench.experiment.sweep.asked import (
    alike,
    candidates,
    default_ks,
    objectives,
    scouts,
    whole_numbers,
)
from specbench.experiment.sweep.emit import server_arm
from specbench.experiment.sweep.steps import arm_of
from specbench.experiment.sweep.timing import confirm_limit, first_budget, out_of_time, time_left
from specbench.metrics.goodput import Objective
from specbench.results.sweep.candidates import named
from specbench.results.sweep.course import Step
from specbench.results.sweep.summary import Asked, SweepSummary

TREE = {"drafter": "eagle2", "k": 4, "options": {"model": "m", "top_k": 8}}
CHAIN = {"drafter": "draft_model", "k": 5, "options": {"model": "m"}}
NGRAM = {"drafter": "ngram", "k": 3, "options": {"max_n": 4, "occurrence": "first"}}


def experiment(engine="scripted", temperatures=(0.0,), **arms):
    data = {
        "schema_version": 1,
        "engine": engine,
        "target": {"model": "m"},
        "workload": {"suites": ["code"], "temperatures": list(temperatures)},
        "arm": arms or {"ngram": NGRAM},
    }
    return check(data, "test")


def test_lists_of_numbers():
    assert whole_numbers("4, 1,16", "--load") == (1, 4, 16)
    for text in ("", "1,,2", "1;2", "-1", "1.5", "a", "1,1", "0,1"):
        with pytest.raises(UsageError, match="--load"):
            whole_numbers(text, "--load")


def test_an_empty_draft_is_another_arm_than_plain():
    with pytest.raises(UsageError, match="another arm than plain"):
        whole_numbers("0,1,2", "--k")


def test_objectives():
    assert objectives("ttft=500ms, itl=0.05s") == (Objective("ttft", 500), Objective("itl", 50))
    assert objectives(None) == ()
    for text in ("ttft", "ttft=", "ttft=5", "ttft=0ms", "tfft=5ms", "ttft=1s,ttft=2s", "itl=5m"):
        with pytest.raises(UsageError, match="--slo"):
            objectives(text)


@pytest.mark.parametrize(
    ("longest", "ks"), [(0, ()), (1, (1,)), (2, (1, 2)), (5, (1, 2, 4, 5)), (8, (1, 2, 4, 8))]
)
def test_ks_double_up_to_the_arms_own(longest, ks):
    assert default_ks(longest) == ks


def test_candidates_are_arms_at_ks_and_sizes():
    both = experiment(a=NGRAM, b=CHAIN)
    assert [one.name for one in candidates(both)] == [
        *("a-k1", "a-k2", "a-k3"),
        *("b-k1", "b-k2", "b-k4", "b-k5"),
    ]
    assert [one.name for one in candidates(both, [7], arms=["b"])] == ["b-k7"]
    tree = experiment(e=TREE)
    found = candidates(tree, [2, 4], [8, 16])
    assert [one.name for one in found] == ["e-k2-n8", "e-k2-n16", "e-k4-n8", "e-k4-n16"]
    made = arm_of(tree, found[1])
    assert (made.k, made.options) == (2, {"model": "m", "top_k": 8, "nodes": 16})


@pytest.mark.parametrize(
    ("made", "options", "words"),
    [
        (experiment(temperatures=(0.0, 1.0)), {}, "one temperature"),
        (experiment(), {"arms": ["ngarm"]}, "did you mean ngram"),
        (experiment(), {"nodes": [8]}, "no dynamic tree"),
        (experiment(a={**NGRAM, "k": 0}), {}, "every arm has k = 0"),
        (experiment(e={**TREE, "options": {"model": "m", "tree": "2x2"}}), {"nodes": [8]}, "tree"),
    ],
)
def test_what_cannot_be_swept_is_refused(made, options, words):
    with pytest.raises(UsageError) as error:
        candidates(made, **options)
    assert words in str(error.value)


def test_only_chains_that_begin_alike_are_predicted():
    made = experiment(look=NGRAM, chain=CHAIN, tree=TREE)
    assert alike(made) == ("chain",)
    found = candidates(made)
    assert [one.name for one in scouts(found, alike(made))] == ["chain-k1", "chain-k5"]
    # Three K are measured as fast as they are predicted.
    assert scouts(candidates(made, [1, 2, 4]), alike(made)) == ()
    assert (
        alike(experiment("vllm", draft={"drafter": "draft_model", "options": CHAIN["options"]}))
        == ()
    )


def test_an_arm_of_this_process_as_one_of_a_server():
    arm, notes = server_arm(experiment(), named("ngram", 2), "vllm")
    assert (arm.drafter, arm.k, arm.rule, arm.drafter_options) == (
        "ngram",
        2,
        "rejection",
        {"max_n": 4},
    )
    assert notes == ["left out, vllm does not know it: occurrence = 'first'"]
    tree, notes = server_arm(experiment(e=TREE), named("e", 4, 16), "sglang")
    assert (tree.drafter, tree.drafter_options) == (
        "eagle",
        {"model": "m", "topk": 8, "tree_tokens": 16},
    )
    assert notes == ["measured under rule multi_round; sglang applies target_match"]
    with pytest.raises(UsageError, match="no drafter like layer_skip"):
        server_arm(
            experiment(a={"drafter": "layer_skip", "options": {"layers": 3}}),
            named("a", 2),
            "vllm",
        )


def state(minutes, loads=(1, 4), **seconds):
    """A sweep of some minutes in which the first rung of load 1 took some seconds."""
    taken = {f"load-1/{name}": s for name, s in seconds.items()}
    return SweepSummary("s", "t", "m", Asked(loads, (), 8, minutes), 0.0, seconds=taken)


def test_every_load_has_an_equal_share_of_the_time_that_is_left():
    assert time_left(state(None), 1) is None
    assert time_left(state(10), 1) == 300
    # A quarter of it for the first step.
    assert (first_budget(state(10), 1), first_budget(state(None), 1)) == (75, None)
    begun = state(10, **{"rung-1": 60})
    assert time_left(begun, 1) == 240
    # What load 1 did not take is load 4's.
    assert time_left(begun, 4) == 540


def test_a_rung_that_would_take_the_confirmations_time_is_not_run():
    begun = state(10, (1,), **{"rung-1": 120})
    # 4 arms on 8 prompts took 120 s: 3.75 s each; 480 s are left, 240 for the race.
    done = {"rung-1": 32}
    ks = tuple(named("a", k) for k in (1, 2, 4))
    assert out_of_time(begun, 1, Step("rung", 2, ks[:2], 16), done) == ""  # 180 s
    assert "8.0 minutes were left" in out_of_time(begun, 1, Step("rung", 2, ks, 17), done)  # 255 s
    assert out_of_time(begun, 1, Step("rung", 1, ks, 99), done) == ""
    # 480 s / 3.75 s / 3 arms.
    assert confirm_limit(begun, 1, Step("confirm", 0, ks[:2], None), done) == 42
    assert confirm_limit(begun, 1, Step("confirm", 0, ks[:2], 30), done) == 30
