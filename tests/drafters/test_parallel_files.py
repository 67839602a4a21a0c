"""Heads that know their target, through every file layout: all is accepted, and little if misread.

The target counts upwards; head i says which token is i + 2 places on. Output never shows a misread
head, acceptance does.
"""

from dataclasses import replace

import pytest
import torch

from specbench.decoding.shapes.shape import TreeShape
from specbench.drafters.parallel import line
from specbench.models.heads.configs import HeadCheckpoint, MedusaConfig, TargetShape
from specbench.models.heads.read import read_head
from specbench.models.heads.write import write_head
from specbench.models.locate import Location
from specbench.verify.greedy import RULE as GREEDY
from tests.drafters.parallel_loops import decode_markov
from tests.toys import request

pytestmark = pytest.mark.usefixtures("one_thread")

SIZE, HEADS, LENGTH = 16, 3, 25
UP = torch.eye(SIZE).roll(1, 1)
"""Row t has all mass on t + 1; behind the last token comes the first."""
TARGET = TargetShape(SIZE, 2, SIZE, "llama")
SHUFFLED = [(5 * i + 3) % SIZE for i in range(SIZE)]


def counting(projection, target_ids=None):
    """Heads that count; of one projection for all, the blocks do the counting."""
    tensors = {}
    for head in range(HEADS):
        # Entry (token, state) of the projection: the state names the token before the newest.
        ahead = torch.linalg.matrix_power(UP, head + 2).T
        if projection == "own":
            block = torch.zeros(SIZE, SIZE)
            rows = ahead if target_ids is None else ahead[target_ids]
            tensors[f"heads.{head}.projection.weight"] = rows.contiguous()
        else:
            block = 10 * ahead
        tensors[f"heads.{head}.blocks.0.weight"] = block
    if projection == "one":
        tensors["projection.weight"] = torch.eye(SIZE)
    if target_ids is not None:
        tensors["target_ids"] = torch.tensor(target_ids)
    rows = SIZE if target_ids is None else len(target_ids)
    config = MedusaConfig(SIZE, SIZE, rows, HEADS, 1, projection, False)
    return HeadCheckpoint("medusa", "made here", config, tensors)


def accepted(made, shape):
    """Accepted tokens of every step of every request; outputs count upwards whatever is drafted."""
    asked = [request([i % SIZE], LENGTH, item=f"i{i}") for i in range(4)]
    rows = decode_markov(asked, UP, made, shape, GREEDY)
    for i, row in enumerate(rows):
        assert row.trace.output_ids == [(i + 1 + n) % SIZE for n in range(LENGTH)]
    return [row.trace.steps.accepted for row in rows]


def counted(start, known):
    """What heads accept that count and know some tokens: up to the first that they do not know."""
    newest, left, steps = start + 1, LENGTH - 1, []
    while left:
        right = [(newest + n) % SIZE in known for n in range(1, min(HEADS, left - 1) + 1)]
        steps.append([*right, False].index(False))
        newest, left = newest + steps[-1] + 1, left - steps[-1] - 1
    return steps


SHAPES = [line(HEADS), TreeShape.from_paths([[0], [1], [0, 0], [0, 1], [1, 0], [0, 0, 0]])]


@pytest.mark.parametrize("shape", SHAPES, ids=["chain", "tree"])
@pytest.mark.parametrize(
    ("layout", "pickled", "made"),
    [
        ("v1", False, counting("own")),
        ("v1", True, counting("own")),
        ("vllm", False, counting("own")),
        ("vllm", False, counting("one")),
        ("vllm", False, counting("own", SHUFFLED)),
        ("vllm", False, counting("own", list(range(3, SIZE)))),
    ],
    ids=["v1", "v1.pt", "vllm", "vllm-one", "vllm-shuffled", "vllm-fewer"],
)
def test_heads_from_files_are_accepted_as_far_as_they_reach(tmp_path, layout, pickled, made, shape):
    folder = write_head(made, tmp_path / "heads", layout, pickled=pickled)
    where = Location("folder", str(folder), None, folder, "")
    read = read_head(where, families=("medusa",), target=TARGET, dtype="float32")
    assert read.config.heads == HEADS
    known = made.tensors.get("target_ids", torch.arange(SIZE)).tolist()
    assert accepted(read, shape) == [counted(start, known) for start in range(4)]


def renamed(made, change):
    """The checkpoint with heads in another order, or another map."""
    return replace(made, tensors=change(dict(made.tensors)))


def one_too_far(tensors):
    """Head 0 is taken for the target's own, as where heads are counted from 1."""
    return {
        f"heads.{(int(name[6]) - 1) % HEADS}{name[7:]}": tensor for name, tensor in tensors.items()
    }


def without_map(tensors):
    """Rows of the projection are taken for the target's ids."""
    return {**tensors, "target_ids": torch.arange(SIZE)}


@pytest.mark.parametrize("shape", SHAPES, ids=["chain", "tree"])
@pytest.mark.parametrize(
    ("made", "change"),
    [(counting("own"), one_too_far), (counting("own", SHUFFLED), without_map)],
    ids=["off by one", "map unapplied"],
)
def test_misread_heads_are_not(made, change, shape):
    right = sum(map(sum, accepted(made, shape)))
    assert right == sum(sum(counted(start, range(SIZE))) for start in range(4))
    assert sum(map(sum, accepted(renamed(made, change), shape))) < right / 4
