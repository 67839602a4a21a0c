"""Relaxed acceptance: which drafts are near enough, what it does to the law, when it is on."""

from itertools import product

import pytest
import torch

from specbench.core.request import Sampling
from specbench.decoding.laws import DenseLaws, OneHotLaws
from specbench.decoding.protocols import BONUS, RECOVERED, Lossless, Uniforms
from specbench.decoding.rows import TargetRows
from specbench.decoding.tree import TrialKind, chain, chain_trials
from specbench.errors import UsageError
from specbench.verify.relaxed import RULE
from tests.tables import PlannedDrafter, decode
from tests.toys import request

BEGIN, END = 4, 5
MARKED = {"think_begin": BEGIN, "think_end": END}
TARGET = [[0.4, 0.3, 0.2, 0.1], [0.1, 0.35, 0.3, 0.25], [0.05, 0.15, 0.2, 0.6]]
DRAFT = [[0.1, 0.2, 0.3, 0.4], [0.3, 0.3, 0.2, 0.2]]


def target_rows(lines, temperature=0.0, batch=1):
    """The same rows for each of a batch of chains."""
    logits = torch.tensor(lines).log().repeat(batch, 1)
    index = torch.arange(len(logits)).view(batch, -1)
    return TargetRows(logits, index, [Sampling(temperature)] * len(logits))


def judge(options, lines, ids, states=(True,), temperature=0.0, counts=None):
    """Path, next token, kind and state of each chain ids[b] on the same target rows."""
    tree = chain(torch.tensor(ids), counts or tuple(map(len, ids)))
    nothing = torch.zeros(len(ids), dtype=torch.float64)
    table = torch.zeros(len(ids), len(ids[0]) + 1, dtype=torch.float64)
    verdict, after = RULE.configure(options)(
        tree,
        chain_trials(tree, TrialKind.ONE_HOT),
        target_rows(lines, temperature, len(ids)),
        OneHotLaws(),
        list(states),
        Uniforms(table[:, :-1], nothing, nothing, table),
    )
    paths = [p[:n] for p, n in zip(verdict.path.tolist(), verdict.n_accepted.tolist(), strict=True)]
    return paths, verdict.next_token.tolist(), verdict.kind.tolist(), list(after)


def kept(options, line, temperature=0.0):
    """Ids that are accepted as the only draft on a row."""
    size = len(line)
    paths, _, _, _ = judge(
        options, [line, line], [[x] for x in range(size)], [True] * size, temperature
    )
    return [token for token, path in enumerate(paths) if path]


NEAREST = [
    ({}, [0.4, 0.3, 0.2, 0.1], [0]),
    ({"top_n": 2}, [0.4, 0.3, 0.2, 0.1], [0]),  # delta 0: as likely as the first
    ({"top_n": 2, "delta": 0.15}, [0.4, 0.3, 0.2, 0.1], [0, 1]),
    ({"top_n": 2, "delta": 1}, [0.4, 0.3, 0.2, 0.1], [0, 1]),
    ({"top_n": 3, "delta": 0.15}, [0.4, 0.3, 0.2, 0.1], [0, 1]),
    ({"top_n": 3, "delta": 0.25}, [0.4, 0.3, 0.2, 0.1], [0, 1, 2]),
    ({"top_n": 99, "delta": 0.25}, [0.1, 0.2, 0.4, 0.3], [1, 2, 3]),
    ({"top_n": 10, "delta": 0.6}, [0.75, 0.25, 0.0, 0.0], [0, 1]),  # the published recipe
    ({"top_n": 4, "delta": 1}, [0.5, 0.5, 0.0, 0.0], [0, 1]),  # impossible is never near
    ({"top_n": 2, "delta": 0.25}, [0.2, 0.4, 0.2, 0.2], [0, 1, 2, 3]),  # all tie for second
    ({"top_n": 2}, [0.2, 0.4, 0.4], [1, 2]),
    ({"top_n": 1, "delta": 1}, [0.2, 0.4, 0.4], [1]),  # the argmax, not its equals
]
"""Parameters, a target row, and the drafts that are near enough on it."""


@pytest.mark.parametrize("temperature", [0.0, 0.3, 1.0, 2.0])
@pytest.mark.parametrize(("options", "line", "near"), NEAREST)
def test_drafts_near_the_first_choice_are_kept_at_every_temperature(
    options, line, near, temperature
):
    assert kept(options, line, temperature) == near


@pytest.mark.parametrize(("options", "line", "near"), NEAREST)
def test_the_law_keeps_the_same_drafts(options, line, near):
    draft = torch.ones(1, len(line)) / len(line)
    law = RULE.configure(options).output_law(
        target_rows([line], 1.0), torch.tensor([0]), draft, [True]
    )
    expected = [1 / len(line) if token in near else 0.0 for token in range(len(line))]
    expected[line.index(max(line))] += 1 - sum(expected)
    assert law[0].tolist() == pytest.approx(expected, abs=1e-6)


def test_the_argmax_follows_what_is_kept():
    options = {"top_n": 2, "delta": 0.12}
    # Position 1 keeps 0 and 1, position 2 keeps 1 and 2, and the last argmax is 3.
    assert judge(options, TARGET, [[1, 2]]) == ([[0, 1]], [3], [BONUS], [True])
    assert judge(options, TARGET, [[1, 3]]) == ([[0]], [1], [RECOVERED], [True])
    assert judge(options, TARGET, [[2, 1]]) == ([[]], [0], [RECOVERED], [True])


@pytest.mark.parametrize("strange", [-1, 4, 99])
def test_holes_and_ids_out_of_range_are_never_kept(strange):
    options = {"top_n": 4, "delta": 1}
    assert judge(options, TARGET, [[strange, 0]]) == ([[]], [0], [RECOVERED], [True])
    assert judge(options, TARGET, [[1, strange]]) == ([[0]], [1], [RECOVERED], [True])
    assert judge(options, TARGET, [[1, -1]], counts=(1,)) == ([[0]], [1], [BONUS], [True])


def enumerated(options, states):
    """Law of the first token, and of the second behind each kept first one, over all drafts."""
    size = len(TARGET[0])
    drafts = [list(ids) for ids in product(range(size), repeat=2)]
    mass = [DRAFT[0][a] * DRAFT[1][b] for a, b in drafts]
    paths, following, _, _ = judge(options, TARGET, drafts, states * len(drafts), 1.0)
    first, second = [0.0] * size, [0.0] * size
    for ids, weight, path, token in zip(drafts, mass, paths, following, strict=True):
        emitted = [*ids[: len(path)], token]
        first[emitted[0]] += weight
        if path:
            second[emitted[1]] += weight
    total = sum(second)
    return first, [part / total for part in second]


def formula(options, line, draft):
    """Draft mass on the near tokens stays, all other goes to the argmax; written anew."""
    n, delta = options.get("top_n", 1), options.get("delta", 0.0)
    nth = sorted(line, reverse=True)[min(n, len(line)) - 1]
    near = [p >= max(nth, max(line) - delta) and p > 0 for p in line]
    law = [q if ok else 0.0 for q, ok in zip(draft, near, strict=True)]
    law[line.index(max(line))] += 1 - sum(law)
    return law


ACTIVE = [
    ({}, [1.0, 0.0, 0.0, 0.0]),
    ({"top_n": 3, "delta": 0.15}, [0.8, 0.2, 0.0, 0.0]),
    ({"top_n": 3, "delta": 1}, [0.5, 0.2, 0.3, 0.0]),
    ({"top_n": 2, "delta": 0.12}, [0.8, 0.2, 0.0, 0.0]),
    ({"top_n": 4, "delta": 1}, DRAFT[0]),
]


@pytest.mark.parametrize(("options", "first"), ACTIVE)
def test_the_law_is_what_the_rule_does(options, first):
    found = enumerated(options, [True])
    expected = [formula(options, TARGET[i], DRAFT[i]) for i in range(2)]
    assert expected[0] == pytest.approx(first)
    law = RULE.configure(options).output_law(
        target_rows(TARGET, 1.0), torch.tensor([0, 1]), torch.tensor(DRAFT), [True, True]
    )
    for i in range(2):
        assert found[i] == pytest.approx(expected[i], abs=1e-12)
        assert law[i].tolist() == pytest.approx(expected[i], abs=1e-6)


@pytest.mark.parametrize(("options", "first"), ACTIVE)
def test_while_inactive_the_law_is_the_argmax(options, first):
    options = options | {"think_begin": 98, "think_end": 99}
    one_hot = [[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0]]
    found = enumerated(options, [False])
    law = RULE.configure(options).output_law(
        target_rows(TARGET, 1.0), torch.tensor([0, 1]), torch.tensor(DRAFT), [False, False]
    )
    for i in range(2):
        assert found[i] == pytest.approx(one_hot[i])
        assert law[i].tolist() == one_hot[i]


def test_the_law_takes_each_position_by_its_own_state():
    rule = RULE.configure({"top_n": 4, "delta": 1, "think_begin": 98, "think_end": 99})
    places, draft = torch.tensor([0, 0, 1]), torch.tensor([DRAFT[0], DRAFT[0], DRAFT[1]])
    law = rule.output_law(target_rows(TARGET, 1.0), places, draft, [False, True, True])
    expected = [[1.0, 0.0, 0.0, 0.0], DRAFT[0], DRAFT[1]]
    torch.testing.assert_close(law, torch.tensor(expected))


def test_without_a_draft_the_law_is_the_argmax():
    rule = RULE.configure({"top_n": 4, "delta": 1})
    law = rule.output_law(target_rows(TARGET, 1.0), torch.tensor([0, 2]), None, [True, True])
    assert law.tolist() == [[1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0]]


@pytest.mark.parametrize(
    ("tokens", "active"),
    [
        ([0, 1, 2], False),
        ([0, BEGIN, 2], True),
        ([0, 1, BEGIN], True),  # the first output token counts
        ([BEGIN, 1, END], False),
        ([BEGIN, END, 1], False),
        ([END, BEGIN, 1], True),
        ([BEGIN, END, BEGIN], True),
    ],
)
def test_the_last_marker_of_the_prompt_decides(tokens, active):
    assert RULE.configure(MARKED).admit(tokens) is active
    assert RULE.configure({}).admit(tokens) is True


# Six ids, the same row everywhere; 4 begins and 5 ends. Near: 0, 1, 4 and 5, not 2 and 3.
FLAT = [[0.21, 0.2, 0.1, 0.1, 0.2, 0.19]] * 4
NEAR = {"top_n": 4, "delta": 0.05}


@pytest.mark.parametrize(
    ("before", "ids", "path", "after"),
    [
        (True, [1, 1, 1], 3, True),
        (True, [1, END, 1], 3, False),  # what follows the end in the same step is still relaxed
        (True, [END, BEGIN, 1], 3, True),
        (True, [BEGIN, END, 1], 3, False),
        (True, [1, 2, END], 1, True),  # an end that is not kept does not count
        (True, [2, END, END], 0, True),
        (False, [1, 1, 1], 0, False),
        (False, [BEGIN, 1, 1], 0, False),  # greedy before: the argmax is 0
        (False, [0, 1, 1], 1, False),
    ],
)
def test_the_flag_changes_after_the_whole_step(before, ids, path, after):
    paths, _, _, states = judge(NEAR | MARKED, FLAT, [ids], [before])
    assert len(paths[0]) == path
    assert states == [after]


@pytest.mark.parametrize(("token", "after"), [(BEGIN, True), (END, False)])
@pytest.mark.parametrize("before", [True, False])
def test_the_token_after_the_drafts_counts(token, after, before):
    line = [0.1] * 6
    line[token] = 0.5
    for ids, size in ([[token]], 1), ([[0]], 0):
        paths, following, _, states = judge(NEAR | MARKED, [line, line], ids, [before])
        assert (len(paths[0]), following, states) == (size, [token], [after])


def test_rows_of_a_batch_have_flags_of_their_own_and_arguments_are_left_alone():
    states = [True, False, True]
    ids = [[1, 1, 1], [1, 1, 1], [END, 1, 2]]
    paths, _, _, after = judge(NEAR | MARKED, FLAT, ids, states)
    assert [len(path) for path in paths] == [3, 0, 2]
    assert (states, after) == ([True, False, True], [True, False, False])


def test_an_empty_draft_emits_the_argmax_and_keeps_the_flag():
    tree = chain(torch.empty(2, 0, dtype=torch.int64), (0, 0))
    zero, none = torch.zeros(2, dtype=torch.float64), torch.zeros(2, 0, dtype=torch.float64)
    uniforms = Uniforms(none, zero, zero, torch.zeros(2, 1, dtype=torch.float64))
    verdict, after = RULE.configure(NEAR | MARKED)(
        tree,
        chain_trials(tree, TrialKind.IID),
        target_rows(FLAT[:1], 1.0, 2),
        DenseLaws(torch.empty(2, 0, 6)),
        [True, False],
        uniforms,
    )
    assert verdict.n_accepted.tolist() == [0, 0]
    assert verdict.next_token.tolist() == [0, 0]
    assert verdict.kind.tolist() == [BONUS, BONUS]
    assert after == [True, False]


# Through the loop: the argmax is 0, close to it comes 1; the markers are sure at places 3 and 8.
MARKERS = {3: BEGIN, 8: END}


def script(tokens):
    """Logits by length alone: .5, .4 and .1 for 0, 1 and 2, or one marker."""
    sure = MARKERS.get(len(tokens))
    line = [0.0, -0.2231, -1.6094, -1e9, -1e9, -1e9]
    return line if sure is None else [0.0 if token == sure else -1e9 for token in range(6)]


def planned(tokens):
    """Drafts 1 everywhere, and the markers where they are due."""
    return [MARKERS.get(len(tokens) + ahead, 1) for ahead in range(2)]


def decoded(options, prompts, temperature=0.0, count=12):
    asked = [request(p, count, temperature=temperature, seed=s) for s, p in enumerate(prompts)]
    rule = RULE.configure({"top_n": 2, "delta": 0.15} | options)
    return decode(asked, script, lambda pool: PlannedDrafter(planned), rule, 2)


THINKING = [0, BEGIN, 0, 1, 1, 0, END, 1, 0, 0, 0]
"""From the second token: greedy until BEGIN's step is over, then 1s until END's step is over."""


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_thinking_begins_and_ends_behind_the_step_that_emits_the_marker(temperature):
    (row,) = decoded(MARKED, [[0]], temperature)
    assert row.trace.output_ids[1:] == THINKING
    assert row.trace.steps.accepted == [0, 1, 2, 2, 0, 0]
    assert row.rule_state is False


def test_a_prompt_that_begins_thinking_relaxes_the_first_step():
    plain, thinking = decoded(MARKED, [[0], [BEGIN]])
    assert plain.trace.output_ids[1:] == THINKING
    # Places 2, 3 and 4 in one step: 1 and BEGIN kept, then the argmax; then as above.
    assert thinking.trace.output_ids == [0, 1, BEGIN, 0, 1, 1, 0, END, 1, 0, 0, 0]
    assert thinking.trace.steps.accepted == [2, 2, 2, 0, 0]


def test_without_markers_the_rule_is_always_active():
    (row,) = decoded({}, [[0]])
    assert row.trace.output_ids == [0, 1, BEGIN, 0, 1, 1, 0, END, 1, 0, 1, 0]
    assert row.trace.steps.accepted == [2, 2, 2, 1]


def test_the_recorded_price_knows_when_the_rule_was_active():
    (row,) = decoded(MARKED, [[0]], 1.0)
    # At 1.0 the target is .5, .4, .1. Off: all mass on 0, distance .5. On: all on the draft 1,
    # distance .6; without a draft on the argmax. At the markers the target itself is one-hot.
    off, on, sure = 0.5, 0.6, 0.0
    expected = [off, sure, off, on, on, off, sure, on, off, off, off]
    assert row.trace.evidence.rule_tv[1:] == pytest.approx(expected, abs=1e-4)


def test_it_is_lossy_whatever_its_parameters():
    for options in ({}, {"top_n": 1, "delta": 0}, {"top_n": 10, "delta": 0.6}):
        assert RULE.info.lossless_with(options) is Lossless.LOSSY
    assert RULE.info.stateful


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"top_n": 0}, r"top_n = 0 is out of range"),
        ({"top_n": 1.5}, r"top_n = 1.5 is out of range"),
        ({"delta": 1.1}, r"delta = 1.1 is out of range"),
        ({"delta": -0.1}, r"delta = -0.1 is out of range"),
        ({"think_begin": 7}, r"think_begin = 7 is set, think_end is not\s+add think_end = "),
        ({"think_end": 7}, r"think_end = 7 is set, think_begin is not\s+add think_begin = "),
        ({"think_begin": 7, "think_end": 7}, r"the same token, 7\s+give two different"),
        ({"topk": 3}, r"no parameter 'topk'"),
    ],
)
def test_bad_parameters_are_refused_by_name(options, message):
    with pytest.raises(UsageError, match=message):
        RULE.configure(options)
