"""Stand-ins with the signatures of engines' samplers: right, or broken on request."""

from types import ModuleType

import torch

from tests.laws import samplers


def module(name, **members):
    """A module with these members, and its parent packages."""
    parts = name.split(".")
    names = [".".join(parts[:count]) for count in range(1, len(parts) + 1)]
    found = {whole: ModuleType(whole) for whole in names}
    vars(found[name]).update(members)
    return found


def vllm(broken=False, logits=False):
    """vllm.v1.sample.rejection_sampler: flat tensors, the bonus drawn outside.

    ``broken`` recovers from the target; ``logits`` takes target logits, as later versions do.
    """

    def with_probs(ids, counts, longest, ends, draft, target_probs, bonus, metadata):
        assert ids.dtype == bonus.dtype == ends.dtype == torch.int32
        assert ends.tolist() == torch.tensor(counts).cumsum(0).tolist()
        assert target_probs.shape == draft.shape == (len(ids), target_probs.shape[-1])
        assert metadata.all_random
        assert not metadata.all_greedy
        assert metadata.temperature.tolist() == [1.0] * len(counts)
        batch, size, generator = len(counts), target_probs.shape[-1], metadata.generators[0]
        drafted = torch.arange(longest) < torch.tensor(counts)[:, None]
        chains = torch.full((batch, longest), -1)
        chains[drafted] = ids.long()
        drafts = torch.zeros(batch, longest, size)
        drafts[drafted] = draft
        targets = torch.zeros(batch, longest + 1, size)
        targets[:, :-1][drafted] = target_probs
        targets[torch.arange(batch), torch.tensor(counts)] = torch.eye(size)[bonus[:, 0].long()]
        accept = torch.rand(batch, longest, generator=generator, dtype=torch.float64)
        last = torch.rand(batch, generator=generator, dtype=torch.float64)
        return samplers.rejection(targets, drafts, chains, accept, last, subtract=not broken).int()

    def with_logits(ids, counts, longest, ends, draft, target_logits, bonus, metadata):
        probs = target_logits.softmax(-1)
        return with_probs(ids, counts, longest, ends, draft, probs, bonus, metadata)

    function = with_logits if logits else with_probs
    return module("vllm.v1.sample.rejection_sampler", rejection_sample=function)


def flashinfer(broken=False):
    """flashinfer.sampling; ``broken`` takes -1 for the first id of the vocabulary."""

    def chain_speculative_sampling(
        draft_probs,
        draft_token_ids,
        target_probs,
        maybe_output_accepted_token_num=None,
        maybe_output_emitted_draft_token_num=None,
        deterministic=True,
        generator=None,
        seed=None,
        offset=None,
    ):
        assert draft_token_ids.dtype == torch.int32
        ids = draft_token_ids.long().clamp(min=0 if broken else -1)
        tokens = samplers.from_generator(target_probs, draft_probs, ids, generator)
        emitted = (tokens >= 0).sum(1) - 1
        return tokens.int(), emitted.int(), emitted.int()

    return module("flashinfer.sampling", chain_speculative_sampling=chain_speculative_sampling)
