"""The decode loop: draft, verify, accept, commit, for a batch; it knows no method by name."""

from __future__ import annotations

from collections.abc import Sequence

from specbench.core.trace import Cut, Finish, ShortDraft, TickKind
from specbench.decoding.evidence import NO_DRAFT, Emitted, record
from specbench.decoding.noise import first_token_uniforms, step_uniforms
from specbench.decoding.protocols import Acceptance, Draft, Drafter, Rule, Target
from specbench.decoding.rows import TargetRows
from specbench.decoding.sampling import draw
from specbench.decoding.sequence import Sequence as DecodedSequence
from specbench.decoding.timing import TickRecorder


class DecodeLoop:
    """Decodes batches with one drafter and one rule.

    Args:
        target, drafter, rule: what runs.
        k: longest draft; a request near its end drafts less.
        recorder: ticks, spans and the clock.
        with_evidence: whether per-token evidence is collected.
    """

    def __init__(
        self,
        target: Target,
        drafter: Drafter,
        rule: Rule,
        k: int,
        recorder: TickRecorder,
        with_evidence: bool = True,
    ) -> None:
        self._target = target
        self._drafter = drafter
        self._rule = rule
        self._k = k
        self._recorder = recorder
        self._with_evidence = with_evidence

    def prefill(self, rows: Sequence[DecodedSequence]) -> None:
        """Run prompts and commit the first token of each; not a step."""
        clock = self._recorder
        clock.begin(TickKind.PREFILL)
        with clock.span("prefill"):
            target_rows, taps = self._target.prefill(rows, self._drafter.taps)
        with clock.span("accept"):
            if target_rows.all_greedy:
                first = target_rows.argmax()[:, 0]
            else:
                first = draw(
                    target_rows.processed(), first_token_uniforms(rows, target_rows.raw.device)
                )
            emitted = [[token] for token in first.tolist()]
        with clock.span("evidence"):
            if self._with_evidence:
                _record_evidence(rows, None, target_rows, emitted)
        with clock.span("commit"):
            now = clock.now()
            for row, tokens in zip(rows, emitted, strict=True):
                row.append(tokens[0])
                _arrive(row, now, 1)
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
        with clock.span("accept"):
            uniforms = step_uniforms(
                rows, draft.trials.node.shape[1], draft.tree.width, target_rows.raw.device
            )
            states = [row.rule_state for row in rows]
            acceptance, kept = self._rule(
                draft.tree, draft.trials, target_rows, draft.laws, states, uniforms
            )
            for row, state in zip(rows, kept, strict=True):
                row.rule_state = state
        with clock.span("refill"):
            self._drafter.observe(rows, draft, acceptance, taps)
        with clock.span("commit"):
            emitted = self._commit(rows, draft, acceptance)
        with clock.span("evidence"):
            if self._with_evidence:
                _record_evidence(rows, draft, target_rows, emitted)
        clock.end(len(rows), len(rows) + sum(draft.tree.counts))

    def _commit(
        self, rows: Sequence[DecodedSequence], draft: Draft, acceptance: Acceptance
    ) -> list[list[int]]:
        """Read the verdict on the host, keep the accepted tokens up to the first stop, count."""
        counts = acceptance.n_accepted.tolist()
        paths = [path[:n] for path, n in zip(acceptance.path.tolist(), counts, strict=True)]
        ids = draft.tree.ids.tolist()
        following = acceptance.next_token.tolist()
        self._target.commit(rows, draft.tree, paths)
        emitted = []
        now = self._recorder.now()
        for b, row in enumerate(rows):
            tokens = [ids[b][node] for node in paths[b]] + [following[b]]
            kept = 0
            for token in tokens:
                kept += 1
                if row.append(token) is not None:
                    break
            emitted.append(tokens[:kept])
            self._count(row, draft, b, counts[b], kept)
            _arrive(row, now, kept)
            row.step += 1
        return emitted

    def _count(
        self, row: DecodedSequence, draft: Draft, b: int, accepted: int, committed: int
    ) -> None:
        """Append one step: what was proposed, verified, judged, accepted, committed (METRICS)."""
        verified = draft.tree.counts[b]
        cut = committed < accepted + 1
        short = draft.short[b] if self._k else ShortDraft.OFF
        if short is ShortDraft.NONE and verified < self._k:
            short = ShortDraft.LIMIT
        steps = row.trace.steps
        steps.tick.append(self._recorder.index)
        steps.proposed.append(verified)
        steps.verified.append(verified)
        # Drafts behind a stop were never judged: neither accepted nor rejected.
        steps.judged.append(committed if cut else verified)
        steps.accepted.append(min(accepted, committed))
        steps.committed.append(committed)
        steps.cut.append(Cut(row.finish.value) if cut and row.finish else Cut.NONE)
        steps.short_draft.append(short)


def _arrive(row: DecodedSequence, now: int, tokens: int) -> None:
    row.trace.arrivals.t_ns.append(now)
    row.trace.arrivals.tokens.append(tokens)
    if row.finish is not None:
        row.trace.finish = Finish(row.finish)


def _record_evidence(
    rows: Sequence[DecodedSequence],
    draft: Draft | None,
    target_rows: TargetRows,
    emitted: Sequence[Sequence[int]],
) -> None:
    """Evidence for the tokens just emitted; on a chain, token n was judged by row n."""
    index = target_rows.index.tolist()
    drafts = (
        [ids[:count] for ids, count in zip(draft.tree.ids.tolist(), draft.tree.counts, strict=True)]
        if draft
        else [[]] * len(rows)
    )
    places = [(b, n) for b, tokens in enumerate(emitted) for n in range(len(tokens))]
    record(
        [row.trace.evidence for row in rows],
        Emitted(
            owner=[b for b, _ in places],
            row=[index[b][n] for b, n in places],
            token=[emitted[b][n] for b, n in places],
            law=[n for _, n in places],
            draft=[drafts[b][n] if n < len(drafts[b]) else NO_DRAFT for b, n in places],
        ),
        target_rows,
        draft.laws if draft else None,
    )
