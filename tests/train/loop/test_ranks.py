"""A process among others: where it trains, and what it tells them."""

import pytest
import torch

from specbench.errors import UsageError
from specbench.train.loop import ranks as module
from specbench.train.loop.ranks import Ranks, device_of, joined


def test_each_process_takes_a_device_of_its_own(monkeypatch):
    assert device_of("cuda:1") == "cuda:1"
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("LOCAL_RANK", "1")
    assert device_of("cuda") == "cuda:1"
    assert device_of("cpu") == "cpu"
    with pytest.raises(UsageError, match="'cuda:0' with 2 processes"):
        device_of("cuda:0")


def test_joining_waits_for_days_and_uses_the_devices_backend(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    asked = []
    fake = type(
        "Distributed",
        (),
        {
            "init_process_group": staticmethod(lambda kind, timeout: asked.append((kind, timeout))),
            "get_rank": staticmethod(lambda: 1),
            "get_world_size": staticmethod(lambda: 2),
            "destroy_process_group": staticmethod(lambda: asked.append("left")),
        },
    )
    monkeypatch.setattr(module, "distributed", fake)
    monkeypatch.setattr(torch.cuda, "set_device", asked.append)
    for device, backend in (("cpu", "gloo"), ("cuda:1", "nccl")):
        asked.clear()
        with joined(torch.device(device)) as ranks:
            assert ranks == Ranks(1, 2, torch.device(device))
        kind, timeout = asked[-2]
        assert (kind, asked[-1]) == (backend, "left")
        assert timeout.days >= 7


def test_what_is_told_lies_on_the_device(monkeypatch):
    seen = []
    fake = type(
        "Distributed",
        (),
        {
            "broadcast": staticmethod(lambda tensor, source: seen.append(tensor.device.type)),
            "all_reduce": staticmethod(lambda tensor: seen.append(tensor.device.type)),
        },
    )
    monkeypatch.setattr(module, "distributed", fake)
    # Without a graphics card "meta" stands for one.
    ranks = Ranks(0, 2, torch.device("meta"))
    with pytest.raises(Exception, match="meta"):
        ranks.told(1)
    ranks.mean(torch.ones(2))
    assert seen == ["meta", "meta"]


def test_a_process_alone():
    assert Ranks().told(2) == 2
    assert Ranks().mean(torch.tensor([3.0])).tolist() == [3.0]
    with joined(torch.device("cpu")) as ranks:
        assert (ranks.first, ranks.size) == (True, 1)
