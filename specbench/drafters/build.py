"""What a drafter may use while it is built: the loaded target, a second model, an early exit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

import torch

from specbench.decoding.kernels.protocol import Kernels
from specbench.decoding.kernels.with_torch import TORCH
from specbench.drafters.draft_rows import DraftRows
from specbench.errors import PrerequisiteError, UsageError
from specbench.models import selfcheck, vocabulary
from specbench.models.compiled import compile_layers
from specbench.models.early_exit import early_exit
from specbench.models.heads.build import build_feature_head
from specbench.models.heads.configs import HeadCheckpoint, TargetShape
from specbench.models.heads.made_for import other_target
from specbench.models.heads.new import untrained
from specbench.models.heads.packed import FeatureHead, PackedHead
from specbench.models.heads.read import read_head
from specbench.models.linear import pack_linears
from specbench.models.load import LoadedModel, load_model
from specbench.models.locate import UNTRAINED, locate
from specbench.models.opened import model_facts
from specbench.models.packed import PackedModel
from specbench.models.parallel.shard import shard_head
from specbench.models.quant.apply import quantise_head
from specbench.models.quant.settings import quant_of

if TYPE_CHECKING:
    from specbench.models.heads.made_for import MadeFor
    from specbench.models.kv_pool import KVPool, LayerGeometry


class Packed(Protocol):
    """What keeps KV in the pool under an owner's name."""

    owner: str

    def geometry(self) -> list[LayerGeometry]: ...

    def use(self, pool: KVPool) -> None: ...

    def forget(self) -> None: ...


@dataclass(frozen=True, slots=True)
class LoadedDraft:
    """Something loaded for an arm.

    Attributes:
        facts: name, hash, format and switches, for the manifest.
        weight_bytes: bytes in memory that are not the target's.
        kv_bytes: bytes of keys and values per token.
    """

    facts: Mapping[str, object]
    weight_bytes: int
    kv_bytes: int


_NARROWEST = 2
"""Rows that any draft feeds at once: its last accepted token and the next."""
_OTHER = "name another draft model"
_EXACTER = "name another draft model, or set another dtype or quant for this one"
_NARROWER = "set a narrower tree, another dtype or quant for the draft, or name another draft model"
"""What to do about a draft that is refused: for the target it would be another engine."""


@dataclass(slots=True)
class BuildContext:
    """One arm's view of the native engine.

    Attributes:
        arm: the arm's name; it also names the draft's KV owner.
        target: the loaded target.
        target_model: its packed forward.
        vocabulary: rows of the target's logits.
        prepack: whether CPU linears are packed.
        overlapped: whether nobody waits for a draft, see ``decoding.schedule``.
        compiled: whether the layers of draft models are compiled.
        kernels: what applies sampling settings, to drafts as to the target.
        loaded: what was loaded for this arm, for memory and the manifest.
    """

    arm: str
    target: LoadedModel
    target_model: PackedModel
    vocabulary: int
    prepack: bool
    overlapped: bool = False
    compiled: bool = False
    kernels: Kernels = TORCH
    loaded: list[LoadedDraft] = field(default_factory=list)
    models: list[Packed] = field(default_factory=list)
    _owners: list[Callable[[KVPool], None]] = field(default_factory=list)
    _checked: list[tuple[PackedModel, str]] = field(default_factory=list)
    _width: int = _NARROWEST

    def own_model(
        self, options: dict[str, object], suffix: str = ""
    ) -> tuple[PackedModel, LoadedModel]:
        """Load the draft that ``options`` name; it gets KV of its own.

        Args:
            suffix: tells the drafts of an arm with several apart.

        Raises:
            UsageError: no model named, or a tokenizer that differs from the target's.
            PrerequisiteError: a model whose packed forward would be wrong; its drafts would only be
                accepted less often, which no comparison of outputs can see.
        """
        name = options.get("model")
        if not isinstance(name, str):
            raise UsageError(
                f"arm {self.arm}: the drafter needs a model",
                f"set arm.{self.arm}.options.model, or pass --draft NAME",
            )
        revision = options.get("revision")
        loaded = load_model(
            locate(name, revision=str(revision) if revision else None),
            dtype=str(options.get("dtype") or str(self.target.dtype).removeprefix("torch.")),
            device=str(self.target.device),
            quant=quant_of(options, f"arm {self.arm}"),
        )
        selfcheck.refuse_configuration(loaded.config, name, _OTHER)
        rows = loaded.model.get_input_embeddings().num_embeddings
        match = vocabulary.compare(
            self.target.tokenizer,
            loaded.tokenizer,
            target_rows=self.vocabulary,
            draft_rows=rows,
        )
        if self.prepack and loaded.device.type == "cpu":
            pack_linears(loaded.model)
        model = PackedModel(
            loaded.model,
            f"draft:{self.arm}{suffix}",
            vocabulary.padding_mask(rows, match.real_ids, loaded.device),
            self.target_model.attention,
            self.target_model.graphs,
        )
        if self.compiled:
            compile_layers(loaded.model)
        selfcheck.check(model, name, _NARROWEST, _EXACTER)
        self._checked.append((model, name))
        self._own(model, loaded.dtype)
        self.loaded.append(LoadedDraft(model_facts(loaded), loaded.weight_bytes, model.kv_bytes))
        return model, loaded

    def draft_rows(self) -> DraftRows:
        """What makes the draft's logits ready to choose from."""
        return DraftRows(self.vocabulary, self.overlapped, self.kernels)

    def check_width(self, rows: int) -> None:
        """Check the loaded drafts at the width of their own forwards, once that is known.

        Levels of a tree, and tokens that another draft proposed, are fed in one forward.

        Args:
            rows: of one request in the widest forward after its prompt, ``Drafter.feeds``.

        Raises:
            PrerequisiteError: a draft whose rows depend on how many there are.
        """
        if rows > self._width:
            for model, name in self._checked:
                selfcheck.verify_error(model, name, rows, _NARROWER)
            self._width = rows

    def early_exit(self, layers: int) -> PackedModel:
        """The target's first layers as a draft that aliases its KV.

        Raises:
            PrerequisiteError: several processes share them.
        """
        owner = f"exit:{self.arm}"
        if self.target_model.group is not None:
            raise PrerequisiteError(
                f"arm {self.arm}: layers that are shared by several processes have no early exit",
                "leave target.tensor_parallel out, or name another drafter",
            )
        # The padding mask is the target's own: the exit has the same head.
        whole = self.target_model
        short = early_exit(self.target.model, layers)
        model = PackedModel(short, owner, whole.padding, whole.attention, whole.graphs)
        self._owners.append(lambda pool: pool.alias(owner, whole.owner, layers))
        self.models.append(model)
        return model

    def own_head(self, options: dict[str, object], checkpoint: HeadCheckpoint) -> PackedHead:
        """A head with KV of its own; see ``models.heads``.

        Args:
            options: the arm's.
            checkpoint: from ``checkpoint``, its switches as they are to run.

        Raises:
            PrerequisiteError: tensors that are missing or do not fit the target.
        """
        quant = quant_of(options, f"arm {self.arm}")
        prepack = self.prepack and not quant.on
        # A layer like the target's own is shared like them; other heads are small and gain nothing.
        group = self.target_model.group if checkpoint.family == "mtp" else None

        def split(whole: FeatureHead) -> None:
            if group is not None:
                shard_head(whole, self.target.config, group, checkpoint.name)

        head = build_feature_head(checkpoint, self.target, prepack=prepack, split=split)
        quantise_head(head, quant, checkpoint.name, self.target.model, prepack=self.prepack)
        whole = self.target_model
        packed = PackedHead(
            head,
            f"draft:{self.arm}",
            self.vocabulary,
            whole.padding,
            whole.attention,
            whole.graphs,
            group,
        )
        self._own(packed, packed.dtype)
        self.note(checkpoint, packed.weight_bytes, packed.kv_bytes, quant.label)
        return packed

    def checkpoint(self, options: dict[str, object], families: Sequence[str]) -> HeadCheckpoint:
        """The head's checkpoint that an arm names, or an untrained one.

        Args:
            options: the arm's; ``model`` names the checkpoint, by default the target's own folder,
                ``revision`` that of a hub id.
            families: what the drafter can run, of ``models.heads.configs.FAMILIES``.

        Raises:
            UsageError: a checkpoint of another family.
            PrerequisiteError: no such checkpoint, or one that does not fit the target.
        """
        name, revision = options.get("model"), options.get("revision")
        pinned = str(revision) if revision else None
        dtype = str(options.get("dtype") or str(self.target.dtype).removeprefix("torch."))
        if name == UNTRAINED:
            return untrained(self.target.location, families[0], dtype)
        located = None if name is None else locate(str(name), revision=pinned)
        found = read_head(
            located or self.target.location,
            families=families,
            target=TargetShape.of(self.target.config),
            dtype=dtype,
            arm=self.arm,
        )
        return replace(found, oddities=(*found.oddities, *self.odd(found.made_for)))

    def odd(self, made: MadeFor | None) -> list[str]:
        """That something was made for other weights than the target's, where it was."""
        told = other_target(made, self.target.location.name, self.target.weight_hash)
        return [told] if told else []

    def note(
        self, checkpoint: HeadCheckpoint, weight_bytes: int, kv_bytes: int, quant: str = "none"
    ) -> None:
        """Keep what was loaded for records; ``quant`` as ``models.quant.settings`` labels it."""
        kinds = [t.dtype for t in checkpoint.tensors.values() if t.is_floating_point()]
        dtype = str(kinds[0]).removeprefix("torch.") if kinds else "unknown"
        facts = {**checkpoint.facts(), "dtype": dtype, "quant": quant}
        self.loaded.append(LoadedDraft(facts, weight_bytes, kv_bytes))

    def note_growth(self, facts: Mapping[str, object]) -> None:
        """Keep for records how drafts grow, with what was loaded last; ``Growth.facts``."""
        if not self.loaded:
            self.loaded.append(LoadedDraft({}, 0, 0))
        last = self.loaded[-1]
        self.loaded[-1] = replace(last, facts={**last.facts, "growth": facts})

    def _own(self, model: Packed, dtype: torch.dtype) -> None:
        self._owners.append(lambda pool: pool.add_owner(model.owner, model.geometry(), dtype))
        self.models.append(model)

    def use(self, pool: KVPool) -> None:
        """Declare this arm's owners in a pool and make its models use it."""
        for declare in self._owners:
            declare(pool)
        for model in self.models:
            model.use(pool)


def choice(options: dict[str, object], name: str, allowed: tuple[str, ...], arm: str) -> str:
    """A string option out of a few; the first is the default. UsageError otherwise."""
    value = options.get(name, allowed[0])
    if value not in allowed:
        raise UsageError(f"arm {arm}: {name}={value!r}", f"use {' or '.join(map(repr, allowed))}")
    return str(value)


def whole(options: dict[str, object], name: str, default: int, arm: str) -> int:
    """A whole-number option. UsageError otherwise."""
    value = options.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int):
        raise UsageError(f"arm {arm}: {name}={value!r} is not a whole number", f"e.g. {default}")
    return value
