"""What FlashInfer's wrappers compute, score by score in float64, and what they refuse.

Written from the library's documentation (``BatchDecodeWithPagedKVCacheWrapper``,
``BatchPrefillWithPagedKVCacheWrapper``, ``BatchPrefillWithRaggedKVCacheWrapper``, ``merge_state``),
apart from the code that calls it.
"""

import itertools
import math
import types

import torch

from tests.models import fake_flashinfer_sampling


def spans(indptr):
    assert (indptr.dtype, indptr.device.type) == (torch.int32, "cpu")
    ends = indptr.tolist()
    assert ends[0] == 0
    return list(itertools.pairwise(ends))


def attended(query, keys, values, seen, scale):
    """[n, Hq, D] and base-2 logs [n, Hq]; keys [rows, Hkv, D], seen bool [n, rows]."""
    groups = query.shape[1] // keys.shape[1]
    keys, values = (x.double().repeat_interleave(groups, 1) for x in (keys, values))
    scores = torch.einsum("nhd,rhd->nhr", query.double(), keys) * scale
    scores = scores.masked_fill(~seen[:, None], -math.inf)
    logs = scores.logsumexp(-1)
    weights = (scores - logs[..., None]).exp().nan_to_num(0.0)
    return torch.einsum("nhr,rhd->nhd", weights, values), logs / math.log(2)


def causal(count, rows, left):
    """Aligned at the bottom right; ``left`` rows before a token's own are seen, -1 = all."""
    own = torch.arange(rows - count, rows)[:, None]
    row = torch.arange(rows)[None]
    return (row <= own) & ((row >= own - left) if left >= 0 else torch.tensor(True))


class Buffer:
    """Where graph mode keeps a part of a plan; its shape never changes."""

    def __init__(self, name, tensor):
        assert tensor.dtype == (torch.uint8 if name == "custom_mask_buf" else torch.int32)
        self.name = name
        self.tensor = tensor

    def put(self, part):
        if self.name == "custom_mask_buf":
            # Bits, every request padded to whole bytes: here it is enough that they fit.
            assert len(part) <= 8 * len(self.tensor)
            return part
        if "indices" in self.name:
            assert len(part) <= len(self.tensor)
        else:
            # The number of requests is that of the capture.
            assert len(part) == len(self.tensor)
        self.tensor[: len(part)] = part
        return self.tensor[: len(part)].clone()


class Wrapper:
    def __init__(self, workspace, kv_layout, use_cuda_graph=False, **buffers):
        assert workspace.dtype == torch.uint8
        assert kv_layout == "HND"
        assert bool(buffers) is use_cuda_graph
        self.planned = None
        self.buffers = {name: Buffer(name, tensor) for name, tensor in buffers.items()}
        library.made.append(self)

    def keep(self, **parts):
        """In graph mode a plan lives in the buffers and nowhere else; gives what is read there."""
        if not self.buffers:
            return parts
        return {name: self.buffers[name].put(part) for name, part in parts.items()}

    def remember(self, **planned):
        for name in ("q_data_type", "kv_data_type"):
            # The default is float16, whatever the data are.
            assert isinstance(planned[name], torch.dtype), name
        mask = planned["mask"]
        assert mask is None or (mask.dtype, mask.dim()) == (torch.bool, 1)
        self.planned = planned
        library.plans.append(type(self).__name__)

    def every(self, query, rows_of, return_lse):
        """Output of all requests; ``rows_of(request)`` gives its keys and values."""
        plan = self.planned
        assert query.dtype == plan["q_data_type"]
        assert query.shape[1:] == (plan["heads"], plan["size"])
        out = torch.zeros(query.shape, dtype=torch.float64)
        logs = torch.zeros(query.shape[:2], dtype=torch.float64)
        at = 0
        for request, (first, last) in enumerate(plan["queries"]):
            keys, values = rows_of(request)
            count, rows = last - first, len(keys)
            if plan["mask"] is not None:
                seen = plan["mask"][at : at + count * rows].view(count, rows)
                at += count * rows
            elif plan["causal"]:
                seen = causal(count, rows, plan["left"])
            else:
                assert plan["left"] == -1
                seen = torch.ones(count, rows, dtype=torch.bool)
            part = attended(query[first:last], keys, values, seen, plan["scale"])
            out[first:last], logs[first:last] = part
        assert plan["mask"] is None or at == len(plan["mask"])
        out = out.to(query.dtype)
        return (out, logs) if return_lse else out


class Paged(Wrapper):
    def rows(self, caches, request):
        """Rows of a request in the order of its pages, [rows, Hkv, D] of keys and of values."""
        plan = self.planned
        keys, values = caches
        assert keys.stride() == values.stride()
        assert keys.stride(-1) == 1
        assert keys.shape[1:] == (plan["kv_heads"], plan["page"], plan["size"])
        first, last = plan["pages"][request]
        numbers = plan["indices"][first:last].long()
        if not len(numbers):
            return (keys.new_zeros(0, plan["kv_heads"], plan["size"]),) * 2
        end = int(plan["last"][request])
        assert 1 <= end <= plan["page"]
        length = (len(numbers) - 1) * plan["page"] + end
        return tuple(
            cache[numbers].transpose(1, 2).flatten(0, 1)[:length] for cache in (keys, values)
        )

    def run(self, query, caches, return_lse=False):
        return self.every(query, lambda request: self.rows(caches, request), return_lse)


class BatchDecodeWithPagedKVCacheWrapper(Paged):
    def plan(
        self,
        indptr,
        indices,
        last_page_len,
        num_qo_heads,
        num_kv_heads,
        head_dim,
        page_size,
        *,
        window_left=-1,
        q_data_type=torch.float16,
        kv_data_type=None,
        sm_scale=None,
    ):
        kept = self.keep(
            paged_kv_indptr_buffer=indptr,
            paged_kv_indices_buffer=indices,
            paged_kv_last_page_len_buffer=last_page_len,
        )
        indptr, indices, last_page_len = kept.values()
        pages = spans(indptr)
        self.remember(
            queries=[(i, i + 1) for i in range(len(pages))],
            pages=pages,
            indices=indices,
            last=last_page_len,
            heads=num_qo_heads,
            kv_heads=num_kv_heads,
            size=head_dim,
            page=page_size,
            mask=None,
            causal=True,
            left=window_left,
            scale=sm_scale,
            q_data_type=q_data_type,
            kv_data_type=kv_data_type,
        )


class BatchPrefillWithPagedKVCacheWrapper(Paged):
    def plan(
        self,
        qo_indptr,
        paged_kv_indptr,
        paged_kv_indices,
        paged_kv_last_page_len,
        num_qo_heads,
        num_kv_heads,
        head_dim_qk,
        page_size,
        *,
        custom_mask=None,
        causal=False,
        sm_scale=None,
        window_left=-1,
        q_data_type=torch.float16,
        kv_data_type=None,
    ):
        kept = self.keep(
            qo_indptr_buf=qo_indptr,
            paged_kv_indptr_buf=paged_kv_indptr,
            paged_kv_indices_buf=paged_kv_indices,
            paged_kv_last_page_len_buf=paged_kv_last_page_len,
        )
        qo_indptr, paged_kv_indptr, paged_kv_indices, paged_kv_last_page_len = kept.values()
        if custom_mask is not None:
            self.keep(custom_mask_buf=custom_mask, mask_indptr_buf=qo_indptr)
        self.remember(
            queries=spans(qo_indptr),
            pages=spans(paged_kv_indptr),
            indices=paged_kv_indices,
            last=paged_kv_last_page_len,
            heads=num_qo_heads,
            kv_heads=num_kv_heads,
            size=head_dim_qk,
            page=page_size,
            mask=custom_mask,
            causal=causal,
            left=window_left,
            scale=sm_scale,
            q_data_type=q_data_type,
            kv_data_type=kv_data_type,
        )


class BatchPrefillWithRaggedKVCacheWrapper(Wrapper):
    def plan(
        self,
        qo_indptr,
        kv_indptr,
        num_qo_heads,
        num_kv_heads,
        head_dim_qk,
        *,
        custom_mask=None,
        causal=False,
        sm_scale=None,
        window_left=-1,
        q_data_type=torch.float16,
        kv_data_type=None,
    ):
        self.remember(
            queries=spans(qo_indptr),
            rows=spans(kv_indptr),
            heads=num_qo_heads,
            kv_heads=num_kv_heads,
            size=head_dim_qk,
            mask=custom_mask,
            causal=causal,
            left=window_left,
            scale=sm_scale,
            q_data_type=q_data_type,
            kv_data_type=kv_data_type,
        )

    def run(self, query, keys, values, return_lse=False):
        assert keys.is_contiguous()
        assert values.is_contiguous()

        def rows(request):
            first, last = self.planned["rows"][request]
            return keys[first:last], values[first:last]

        return self.every(query, rows, return_lse)


def merge_state(value_a, log_a, value_b, log_b):
    """Two attentions over disjoint rows as one; logs are base 2."""
    top = torch.maximum(log_a, log_b)
    a, b = torch.exp2(log_a - top)[..., None], torch.exp2(log_b - top)[..., None]
    merged = (a * value_a + b * value_b) / (a + b)
    return merged.to(value_a.dtype), top + torch.log2((a + b).squeeze(-1))


library = types.SimpleNamespace(
    BatchDecodeWithPagedKVCacheWrapper=BatchDecodeWithPagedKVCacheWrapper,
    BatchPrefillWithPagedKVCacheWrapper=BatchPrefillWithPagedKVCacheWrapper,
    BatchPrefillWithRaggedKVCacheWrapper=BatchPrefillWithRaggedKVCacheWrapper,
    merge_state=merge_state,
    sampling=fake_flashinfer_sampling.library,
    made=[],
    plans=[],
)
"""What stands for the module ``flashinfer``; it records its wrappers and their plans."""
