"""Ten drafts scored on recorded outputs against decoding with one of them."""

from __future__ import annotations

import time

from specbench.core.arm import ArmSpec
from specbench.engines.drafts.flight import Recording
from specbench.engines.drafts.replay import DraftReplay
from specbench.engines.native import NativeEngine, open_engine

from .setting import TARGET, decode, requests, say

K = 5
COUNT = 10
BATCH = 16
HEAD = {"model": "untrained", "tree": "chain"}
ARMS = [ArmSpec("plain"), ArmSpec("eagle1", "eagle1", K, drafter_options=HEAD)]


def replay_against_decoding(engine: NativeEngine) -> dict[str, float]:
    """Seconds of decoding at concurrency 1, and of replaying ten drafts at every longest draft.

    A run decodes every prompt plainly and with a draft; a replay takes what the plain arm left.
    Loading is left out on both sides.
    """
    say("replay against decoding")
    own = open_engine(TARGET, ARMS)
    asked = requests(own, ("code", "chat"), 8, 48, 0.0)
    decode(own, "eagle1", asked[:1])
    start = time.perf_counter()
    traces = decode(own, "plain", asked)
    plain = time.perf_counter() - start
    start = time.perf_counter()
    decode(own, "eagle1", asked)
    arm = time.perf_counter() - start
    own.close()

    replay = DraftReplay.load_target(TARGET)
    for number in range(COUNT):
        replay.load(ArmSpec(f"eagle1 {number}", "eagle1", K, drafter_options=HEAD))
    outputs = {trace.key: tuple(trace.output_ids) for trace in traces}
    recordings = [Recording(request, outputs[request.key]) for request in asked]
    ks = tuple(range(1, K + 1))
    list(replay.run(recordings[:1], ks, 1))
    start = time.perf_counter()
    list(replay.run(recordings, ks, BATCH))
    replayed = time.perf_counter() - start
    return {
        "plain arm, s": plain,
        "one draft's arm, s": arm,
        "replay of ten drafts, s": replayed,
        "replay of ten / run of one": replayed / (plain + arm),
        "replay of ten / runs of ten": replayed / (plain + COUNT * arm),
    }
