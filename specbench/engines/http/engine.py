"""The engine behind every server that speaks HTTP: attached to, or started here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from specbench.core.arm import ArmMemory, ArmSpec
from specbench.core.prompt import Message, RenderedPrompt
from specbench.core.request import Request, Stops
from specbench.core.trace import Tick, Trace, Window
from specbench.engines.http.advice import warm_up_failure
from specbench.engines.http.batch import Batch
from specbench.engines.http.client import Client
from specbench.engines.http.contact import meet
from specbench.engines.http.covered import Covered
from specbench.engines.http.extra_fields import refuse_overrides, with_template_options
from specbench.engines.http.facts import KnownModel, context_limit, engine_facts, find
from specbench.engines.http.loop_thread import LoopThread
from specbench.engines.http.options import server_options
from specbench.engines.http.places import Place, Places
from specbench.engines.http.probes import QUESTIONS, Prompt, probe
from specbench.engines.http.protocol import Counters, Dialect, Served
from specbench.engines.http.received_totals import tells
from specbench.engines.http.routes import usable_routes
from specbench.engines.http.schedule import due_times
from specbench.engines.http.sender import Sender
from specbench.engines.http.tokens import open_tokens, stops_of, without_tokens
from specbench.engines.servers.protocol import Launcher
from specbench.engines.telemetry.counters import counters_for
from specbench.errors import SpecbenchError
from specbench.suites.templates import NO_TEMPLATE


class HttpEngine:
    """Implements ``engines.protocol.Engine``.

    Args:
        settings: the ``[target]`` table, and under ``server``, ``arrival``, ``concurrency``,
            ``seed`` and ``system_policy`` what the experiment says about servers and load.
        arms: each with the address of its server, or to be started here.
        dialect: what this kind of server is asked and says.
        launcher: starts such servers; None where they can only be attached to.

    Raises:
        UsageError, PrerequisiteError: an arm that this server cannot decode, a server that cannot
            be reached, refuses the key or has another model, a tokenizer that is not there, or
            fields for every request that overwrite those that are measured.
    """

    def __init__(
        self,
        settings: Mapping[str, Any],
        arms: Sequence[ArmSpec],
        dialect: Dialect,
        launcher: Launcher | None = None,
    ) -> None:
        self.name = dialect.name
        self._settings = settings
        self._options = options = server_options(settings)
        self._template: str | None = settings.get("template")
        name, revision = str(settings.get("model") or ""), settings.get("revision")
        tokens = open_tokens(options.tokenizer, name, revision, self._template)
        managed = all(arm.started for arm in arms)
        self._model = KnownModel(name, find(name, revision), tokens, managed)
        self.device = str(settings.get("device") or "cpu") if managed else "server"
        routes = usable_routes(dialect, options.route, tokens is not None, self._template)
        refuse_overrides(dialect, routes, options.extra_body)
        self._adds_special = bool(getattr(dialect, "adds_special", False))
        self._texts: dict[tuple[int, ...], str] = {}
        starts = tokens.starts if tokens is not None else None
        self._client = Client(options, keep=not getattr(dialect, "drops_connections", False))
        raw = self._template == NO_TEMPLATE
        self._sender = Sender(self._client, dialect, options, self._texts, starts, raw)
        self._places = Places(
            {arm.name: arm for arm in arms},
            *(settings, options, launcher, self._model.place, routes, self._meet),
        )
        due_times(options.arrival, 0, "")
        self._probes: dict[str, Mapping[str, str]] = {}
        self._windows: list[Window] = []
        self._shows_steps: set[str] = set()
        self._begun: list[str] = []
        self._thread = LoopThread()
        try:
            self._places.attach()
        except BaseException:
            self.close()
            raise

    @property
    def context_limit(self) -> int:
        """Longest prompt plus output: the smallest that a server says, else the model's."""
        return context_limit(self._model, self._places.served())

    def describe(self) -> dict[str, object]:
        """Servers, model, and what was found out about them, for the manifest."""
        places, options = self._places, self._options
        facts = engine_facts(self.name, places, self._model, options, self._settings, self._probes)
        return facts | {"resent_requests": self._client.resent}

    def render(
        self, messages: Sequence[Message], passed_on: Mapping[str, object] | None = None
    ) -> RenderedPrompt:
        """Chat template and tokenisation where there is a tokenizer, else the texts as sent.

        Template options of the experiment (``extra_body``) count as if every prompt had them.
        """
        told = with_template_options(passed_on or {}, self._options.extra_body)
        tokens = self._model.tokens
        if tokens is None:
            return without_tokens(messages, self._template, told)
        policy = str(self._settings.get("system_policy") or "merge-into-user")
        rendered = tokens.render(messages, self._template, policy, told)
        if self._places.routes[0] == "text":
            text = tokens.for_adding(rendered) if self._adds_special else rendered.text
            self._texts[rendered.token_ids] = text
        return rendered

    def stops(self, strings: Sequence[str] = ()) -> Stops:
        """The model's end ids, where a tokenizer knows them, and the given strings."""
        return stops_of(self._model.tokens, strings)

    def memory(self, arm: str) -> ArmMemory:
        """Nothing: servers do not say."""
        return ArmMemory()

    def warm_up(self, arm: str, requests: Sequence[Request], concurrency: int) -> None:
        """Send once, in a closed loop; traces are dropped.

        Raises:
            SpecbenchError: a request failed; measuring this arm would only collect failures.
        """
        for trace in self._batch(arm, requests, concurrency, None).run(self._thread):
            self._note(trace)
            if not trace.ok:
                raise warm_up_failure(arm, trace.error)

    def run(self, arm: str, requests: Sequence[Request], concurrency: int) -> Iterator[Trace]:
        """Send all requests as they are due."""
        counters = self._counters(arm)
        if counters is not None:
            counters.before()
        first = requests[0].key if requests else ""
        due = due_times(self._options.arrival, len(requests), f"{self._options.seed} {first}")
        covered = Covered()
        for trace in self._batch(arm, requests, concurrency, due).run(self._thread):
            self._note(trace)
            covered.add(trace)
            yield trace
        if counters is not None and arm not in self._shows_steps:
            self._windows.append(covered.window(counters))

    def begin(self, arms: Sequence[str], start: int) -> Mapping[str, Mapping[str, object]]:
        """Start the servers of these arms, or look again at attached ones; then try them out.

        An arm is tried out once, at its first start.
        """
        facts: dict[str, Mapping[str, object]] = {}
        for arm in arms:
            self._begun.append(arm)
            begun = dict(self._places.begin(arm, start))
            if self._options.probes and arm not in self._probes and not self._place(arm).lost:
                self._probes[arm] = self._probe(arm)
                if begun:
                    begun["probes"] = self._probes[arm]
            if begun:
                facts[arm] = begun
        return facts

    def end(self) -> None:
        """Stop the servers that the last ``begin`` started."""
        for arm in self._begun:
            self._place(arm).stop()
        self._begun.clear()

    def drain_windows(self) -> Sequence[Window]:
        """What counters showed, one per ``run`` whose requests showed nothing by themselves."""
        drained, self._windows = self._windows, []
        return drained

    def drain_ticks(self) -> Sequence[Tick]:
        """None: batches of a server cannot be seen."""
        return ()

    def close(self) -> None:
        """Stop servers, close connections, end the thread."""
        self._places.stop()
        self._thread.close(self._client.close)

    def _meet(self, url: str) -> Served:
        return self._thread.call(meet(self._client, url, self._options, self.name))

    def _place(self, arm: str) -> Place:
        return self._places.by_arm[arm]

    def _batch(
        self, arm: str, requests: Sequence[Request], concurrency: int, due: Sequence[int] | None
    ) -> Batch:
        return Batch(self._sender, self._place(arm), requests, concurrency, due)

    def _note(self, trace: Trace) -> None:
        if trace.ok and (len(trace.steps) or tells(trace.tally)):
            self._shows_steps.add(trace.arm)

    def _counters(self, arm: str) -> Counters | None:
        place = self._place(arm)
        if arm in self._shows_steps or place.lost:
            return None
        return counters_for(self.name, place.metrics_urls, self._fetch)

    def _fetch(self, url: str) -> str:
        answer = self._thread.call(self._client.get(url))
        if answer.fault is not None:
            raise SpecbenchError(f"{url}: {answer.fault.text}")
        return answer.body.decode("utf-8", "replace")

    def _probe(self, arm: str) -> dict[str, str]:
        prompts: list[Prompt] = []
        for question in QUESTIONS:
            message = {"role": "user", "content": question}
            prompts.append((self.render([message]).token_ids, (message,)))

        def send(requests: Sequence[Request]) -> list[Trace]:
            return list(self._batch(arm, requests, 1, None).run(self._thread))

        return probe(prompts, self.stops(), send)
