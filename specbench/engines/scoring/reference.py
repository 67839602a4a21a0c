"""A plain server as the reference: it scores recorded tokens with its own probabilities.

Same weights, same quantisation, same kernels as what is judged, as far as that server has them. It
lists only the likeliest tokens of each row; ``fidelity.top_rows`` says what that leaves.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from specbench.core.manifest import UNKNOWN
from specbench.core.prompt import Message, RenderedPrompt
from specbench.core.request import Request, Stops
from specbench.core.trace import Evidence
from specbench.engines.http.options import server_options
from specbench.engines.http.tokens import ModelTokens, open_tokens, stops_of
from specbench.engines.scoring import llamacpp, sglang, vllm
from specbench.engines.scoring.protocol import Scorer
from specbench.engines.scoring.talk import Talk
from specbench.errors import PrerequisiteError, SpecbenchError, UsageError
from specbench.fidelity.bounded import bounded_evidence
from specbench.suites.templates import render

SCORERS: Mapping[str, Scorer] = {
    scorer.name: scorer for scorer in (vllm.SCORER, sglang.SCORER, llamacpp.SCORER)
}


class ServerReference:
    """Scores outputs on a server.

    Args:
        url: its address.
        engine: which kind of server; a key of ``SCORERS``.
        settings: tables ``target`` (model, revision, template), ``server`` and the key
            ``system_policy`` of the run that is judged: whose tokenizer and chat template apply.
        top: tokens to list per position; None = the kind's own.
        transport: for tests; None = the network.

    Raises:
        UsageError: unknown kind, no address, or a model of the asked name is not there.
        PrerequisiteError: nobody answers, the key is refused, or there is no tokenizer.
    """

    weight_hash = UNKNOWN
    tie_tolerance = 0.0
    """What rounding does on the server is not known; that of the run counts."""

    def __init__(
        self,
        url: str,
        engine: str,
        settings: Mapping[str, Any],
        *,
        top: int | None = None,
        transport: Any = None,
    ) -> None:
        if engine not in SCORERS:
            raise UsageError(
                f"a server of kind {engine!r} cannot score tokens",
                f"give --reference-engine with one of: {', '.join(SCORERS)}",
            )
        self._scorer = SCORERS[engine]
        self.top = self._scorer.top if top is None else top
        self._target = settings.get("target") or {}
        self._policy = str(settings.get("system_policy") or "merge-into-user")
        options = server_options(settings)
        self._talk = Talk(url, options, transport)
        self.model = _served(self._talk, options.model)
        self._tokens = self._open_tokens(options.tokenizer)
        self.vocabulary = _rows(self._tokens)

    def describe(self) -> str:
        """One line for the reader."""
        return f"server {self._talk.url} ({self._scorer.name}), {self.top} tokens per position"

    def render(
        self, messages: Sequence[Message], passed_on: Mapping[str, object] | None = None
    ) -> RenderedPrompt:
        """Chat template and tokens of the run's target."""
        return render(
            self._tokens.tokenizer,
            messages,
            template=self._target.get("template"),
            system_policy=self._policy,
            passed_on=passed_on,
        )

    def stops(self, strings: Sequence[str] = ()) -> Stops:
        """End ids of the run's target, and the given strings."""
        return stops_of(self._tokens, strings)

    def encode(self, text: str) -> list[int]:
        """Token ids of a text, without special tokens."""
        return [int(i) for i in self._tokens.tokenizer.encode(text, add_special_tokens=False)]

    def score(
        self, request: Request, output_ids: Sequence[int], ends: Sequence[int] = ()
    ) -> Evidence:
        """Evidence for every token given prompt and tokens before it; see ``BoundedEvidence``.

        Args:
            request: prompt and sampling.
            output_ids: the recorded output.
            ends: ids of which one followed unseen; the likeliest stands for it.

        Raises:
            SpecbenchError: penalties or a minimum length, which the server's rows do not show; or
                the server refuses.
        """
        if request.sampling.penalised or request.limits.min_new_tokens:
            raise SpecbenchError("penalties and a minimum length are not in a server's rows")
        tokens = [*output_ids, *ends[:1]]
        if not tokens:
            return Evidence()
        rows = self._scorer.rows(
            self._talk, self.model, request.token_ids, tokens, self.top, self.vocabulary
        )
        if len(ends) > 1:
            known = [int(token) for token in rows[-1].ids if int(token) in ends]
            tokens[-1:] = known[:1] or ends[:1]
        return bounded_evidence(rows, tokens, request.sampling)

    def close(self) -> None:
        """Close the connection."""
        self._talk.close()

    def _open_tokens(self, named: str | None) -> ModelTokens:
        model = str(self._target.get("model", ""))
        template = self._target.get("template")
        found = open_tokens(named, model, self._target.get("revision"), template)
        if found is None:
            raise PrerequisiteError(
                f"no tokenizer for {model!r} on this disk, so prompts cannot be sent as tokens",
                "fetch the model's tokenizer and name it with --tokenizer",
            )
        return found


def _rows(tokens: ModelTokens) -> int:
    """How many tokens a row of the model has: those of the tokenizer, and padding behind them.

    Too many make bounds wider; too few would make them wrong.
    """
    path = tokens.location.path
    config = path / "config.json" if path is not None else None
    found = json.loads(config.read_text()) if config is not None and config.is_file() else {}
    rows = (found.get("text_config") or found).get("vocab_size")
    return max(len(tokens.tokenizer), rows if isinstance(rows, int) else 0)


def _served(talk: Talk, named: str | None) -> str:
    """The model to ask for: the only one that is listed, else the one that the run named."""
    known = [str(entry.get("id", "")) for entry in talk.models() if isinstance(entry, dict)]
    if len(known) > 1 and named not in known:
        raise UsageError(
            f"{talk.url} has several models: {', '.join(known)}",
            "start a server with the plain target alone",
        )
    return known[0] if len(known) == 1 else named or ""
