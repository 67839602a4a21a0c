"""The decode loop: draft, verify, accept, commit, for a batch; it knows no method by name."""

from __future__ import annotations

from collections.abc import Sequence

from specbench.core.trace import TickKind
from specbench.decoding.commit import arrive, commit_step
from specbench.decoding.evidence import record_step
from specbench.decoding.noise import first_token_uniforms, step_uniforms
from specbench.decoding.protocols import Drafter, Rule, Target
from specbench.decoding.rows import refuse_broken
from specbench.decoding.sampling import draw
from specbench.decoding.schedule import IN_ORDER, Judged, Schedule
from specbench.decoding.sequence import Sequence as DecodedSequence
from specbench.decoding.timing import TickRecorder


class DecodeLoop:
    """Decodes batches with one drafter and one rule.

    Args:
        target, drafter, rule: what runs.
        k: longest draft; a request near its end drafts less.
        recorder: ticks, spans and the clock.
        with_evidence: whether per-token evidence is collected.
        schedule: when the host learns what was accepted.
    """

    def __init__(
        self,
        target: Target,
        drafter: Drafter,
        rule: Rule,
        k: int,
        recorder: TickRecorder,
        with_evidence: bool = True,
        schedule: Schedule = IN_ORDER,
    ) -> None:
        self._target = target
        self._drafter = drafter
        self._rule = rule
        self._k = k
        self._recorder = recorder
        self._with_evidence = with_evidence
        self._schedule = schedule

    def prefill(self, rows: Sequence[DecodedSequence]) -> None:
        """Run prompts and commit the first token of each; not a step."""
        clock = self._recorder
        clock.begin(TickKind.PREFILL)
        with clock.span("prefill"):
            target_rows, taps = self._target.prefill(rows, self._drafter.taps)
        refuse_broken(target_rows)
        with clock.span("accept"):
            if target_rows.all_greedy:
                first = target_rows.argmax()[:, 0]
            else:
                numbers = first_token_uniforms(rows, target_rows.raw.device)
                first = draw(target_rows.processed(), numbers)
            emitted = [([token], [0]) for token in first.tolist()]
        with clock.span("evidence"):
            if self._with_evidence:
                record_step(rows, None, target_rows, emitted)
        with clock.span("commit"):
            now = clock.now()
            for row, (tokens, _) in zip(rows, emitted, strict=True):
                row.append(tokens[0])
                arrive(row, now, 1)
                row.rule_state = self._rule.admit(row.tokens.tolist())
        with clock.span("draft_prefill"):
            going = [row for row in rows if row.finish is None]
            if going:
                self._drafter.admit(rows, taps)
        clock.end(len(rows), sum(row.prompt_length for row in rows))

    def step(self, rows: Sequence[DecodedSequence]) -> None:
        """One decode step of every row."""
        clock = self._recorder
        clock.begin(TickKind.DECODE)
        with clock.span("draft"):
            # The last token of an output needs no draft: it is the step's own.
            budget = [min(self._k, row.remaining - 1) for row in rows]
            draft = self._drafter.propose(rows, budget)
        with clock.span("verify"):
            target_rows, taps = self._target.verify(rows, draft.tree, self._drafter.taps)
        self._schedule.verified(draft, target_rows)
        with clock.span("accept"):
            uniforms = step_uniforms(rows, draft, target_rows.raw.device, self._rule.info)
            states = [row.rule_state for row in rows]
            inputs = (draft.tree, draft.trials, target_rows, draft.laws, states, uniforms)
            acceptance, kept = self._rule(*inputs)
        with clock.span("refill"):
            judged = Judged(rows, draft, target_rows, acceptance, taps)
            seen = self._schedule.refill(self._drafter, judged)
        with clock.span("commit"):
            emitted = commit_step(
                rows, seen.draft, seen.acceptance, self._target, self._k, clock.index, clock.now()
            )
        with clock.span("evidence"):
            if self._with_evidence:
                record_step(rows, draft, target_rows, emitted, self._rule)
        for row, state in zip(rows, kept, strict=True):  # evidence was of the states before
            row.rule_state = state
        clock.end(len(rows), len(rows) + sum(draft.tree.counts))
