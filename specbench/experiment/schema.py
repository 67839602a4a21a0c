"""The shape of experiment.toml: a wrong file gives the file, key, value and what to write."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

from pydantic import BaseModel, Field, ValidationError, field_validator, model_validator

from specbench.catalog import SERVERS
from specbench.core.arm import PLAIN, ArmSpec
from specbench.core.manifest import UNKNOWN, UNQUANTISED
from specbench.errors import UsageError
from specbench.experiment.anchor_schema import Anchor, AnchorSetup
from specbench.experiment.arms import default_rule as own_rule
from specbench.experiment.combine import CHAIN_RULE
from specbench.experiment.server_arms import default_rule, server_arms
from specbench.experiment.server_keys import names_address, refuse_without_server
from specbench.experiment.server_schema import ArmServer, Server
from specbench.experiment.study_schema import Study
from specbench.experiment.target_keys import refuse_unread
from specbench.experiment.values import SCHEMA_VERSION, WRITE
from specbench.experiment.workload import Border, Options, Target, Workload
from specbench.models.quant.settings import quant_of

ARM_NAME = re.compile(r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$")


class Arm(Border):
    """One [arm.NAME] table."""

    drafter: Annotated[str, Field(min_length=1)]
    k: Annotated[int, Field(ge=0)] = 5
    rule: str = CHAIN_RULE
    options: Options = Field(default_factory=dict)
    rule_options: Options = Field(default_factory=dict)
    server: ArmServer = Field(default_factory=ArmServer)


class Experiment(Border):
    """experiment.toml. The plain arm is implied and always present."""

    schema_version: Literal[1]
    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")] = "flags"
    title: str = ""
    engine: str = "native"
    allow_lossy: bool = False
    target: Target
    workload: Workload
    server: Server = Field(default_factory=Server)
    study: Study | None = None
    arm: dict[str, Arm] = Field(default_factory=dict)
    anchor: list[Anchor] = Field(default_factory=list)

    @field_validator("arm")
    @classmethod
    def _names(cls, arms: dict[str, Arm]) -> dict[str, Arm]:
        for name, arm in arms.items():
            if name == PLAIN:
                raise ValueError(f"{PLAIN!r} is always present; remove [arm.{PLAIN}]")
            if not ARM_NAME.match(name):
                raise ValueError(f"arm name {name!r}: use letters, digits, '_', '-' and '.'")
            if arm.drafter == "none":
                raise ValueError(f"[arm.{name}] drafts nothing: that is the arm {PLAIN!r}")
        return arms

    @model_validator(mode="before")
    @classmethod
    def _default_rules(cls, data: object) -> object:
        """The rule of arms that name none.

        On a server it is the server's own: it is not ours to choose, and which one an attached
        server applies is for whoever started it to say. In this process it is one that judges the
        arm's drafts.
        """
        arms = data.get("arm") if isinstance(data, Mapping) else None
        if not isinstance(data, Mapping) or not isinstance(arms, Mapping):
            return data
        engine = data.get("engine", "native")
        served = UNKNOWN if names_address(data) else None
        filled: dict[object, object] = {}
        for name, arm in arms.items():
            if isinstance(arm, Mapping) and "rule" not in arm:
                own = _own_rule(arm)
                if engine in SERVERS:
                    own = served or default_rule(str(engine))
                arm = {"rule": own, **arm}
            filled[name] = arm
        return {**data, "arm": filled}

    @model_validator(mode="after")
    def _anchored_arms(self) -> Experiment:
        for anchor in self.anchor:
            if anchor.arm not in self.arm:
                raise ValueError(
                    f"an [[anchor]] is of arm {anchor.arm!r}, which the experiment does not have: "
                    "name one of its arms, or leave the anchor out with --set anchor=[]"
                )
        return self

    @property
    def on_server(self) -> bool:
        """Whether the engine is a server."""
        return self.engine in SERVERS

    def arms(self) -> list[ArmSpec]:
        """All arms, plain first; an attached server without a plain one has no plain arm.

        Raises:
            UsageError: server tables that do not fit the engine, or each other.
        """
        if self.on_server:
            return server_arms(self.engine, self.server, self.arm)
        named = self.engine if "engine" in self.model_fields_set else None
        refuse_without_server(named, self.server, self.arm)
        declared = [
            ArmSpec(name, arm.drafter, arm.k, arm.rule, self.engine, arm.options, arm.rule_options)
            for name, arm in self.arm.items()
        ]
        return [ArmSpec(PLAIN, engine=self.engine), *declared]

    def members(self) -> list[tuple[str, Experiment]]:
        """Each value of its study with the experiment of that run; empty where it is no study.

        A value is named as its run holds it, 1 of a key that takes decimals as "1.0": by that name
        a study finds its runs again.

        Raises:
            ValidationError: the key does not take one of the values.
        """
        if (study := self.study) is None:
            return []
        members = [self.member(value) for value in study.values]
        return [(study.held(getattr(one, study.table)), one) for one in members]

    def member(self, value: object) -> Experiment:
        """The experiment of one value of its study, which is no study itself.

        Raises:
            ValidationError: the key does not take this value.
        """
        assert self.study is not None
        study, table = self.study, getattr(self, self.study.table)
        given = {**table.model_dump(exclude_unset=True), study.name: value}
        changed = type(table).model_validate(given)
        title = f"{self.title or self.name}, {study.key} = {study.held(changed)}"
        return self.model_copy(update={"study": None, "title": title, study.table: changed})

    def resolved(self) -> dict[str, object]:
        """Every key with its value, defaults included; keys without a value are left out.

        What concerns servers is left out where the engine is none, so that the files of older
        runs and newer ones say the same. A split that nobody gave is left out where it is not the
        same for all suites.
        """
        data = self.model_dump(mode="json", exclude_none=True)
        if not self.on_server:
            del data["server"]
            for arm in data["arm"].values():
                del arm["server"]
        if not self.anchor:
            del data["anchor"]
        if self.workload.arrival == "closed":
            del data["workload"]["arrival"]
        varied = self.study is not None and self.study.key == "target.quant"
        if self.target.quant == UNQUANTISED and not varied:
            del data["target"]["quant_backend"], data["target"]["quant_head"]
        splits = {self.workload.split_of(suite) for suite in self.workload.suites}
        del data["workload"]["split"]
        if len(splits) == 1:
            data["workload"]["split"] = splits.pop()
        return data


def _own_rule(arm: Mapping[object, object]) -> str:
    drafter, options = arm.get("drafter"), arm.get("options")
    if not isinstance(drafter, str):
        return CHAIN_RULE
    return own_rule(drafter, options if isinstance(options, Mapping) else {})


def check(data: Mapping[str, object], source: str) -> Experiment:
    """Check the content of an experiment file; its version comes before anything else.

    Raises:
        UsageError: names ``source``, the key, the value and what to write instead.
    """
    version = data.get("schema_version")
    if isinstance(version, bool) or not isinstance(version, int):
        found = "is missing" if version is None else f"= {version!r} is not a whole number"
        raise UsageError(f"{source}: schema_version {found}", f"write {WRITE['schema_version']}")
    if version > SCHEMA_VERSION:
        raise UsageError(
            f"{source}: schema_version = {version} is newer than this specbench reads",
            f"upgrade specbench, or write {WRITE['schema_version']}",
        )
    try:
        experiment = Experiment.model_validate(data)
        members = experiment.members()
    except ValidationError as error:
        findings = [_finding(item["loc"], item) for item in error.errors(include_url=False)]
        raise UsageError(f"{source}: " + f"\n{source}: ".join(findings)) from error
    _refuse_same_value([name for name, _ in members], source)
    for each in [experiment, *(member for _, member in members)]:
        refuse_unread(each.target, each.engine, source)
        if not each.on_server:
            for name, arm in each.arm.items():
                quant_of(arm.options, f"{source}: arm.{name}.options")
    return experiment


def _refuse_same_value(names: Sequence[str], source: str) -> None:
    """Refuse a study that would measure one value twice, however it is written."""
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UsageError(
            f"{source}: study.values: a value occurs twice: {twice}", f"write {WRITE['values']}"
        )


SENSITIVE = frozenset(
    {
        *("url", "plain_url", "metrics_urls", "plain_metrics_urls", "api_key_env"),
        *("env", "command", "args_extra", "extra_body"),
    }
)
"""Keys whose values may hold a key or a password."""


def _finding(place: Sequence[int | str], item: Mapping[str, object]) -> str:
    key = ".".join(str(part) for part in place)
    name = next((part for part in reversed(place) if isinstance(part, str)), "")
    write = f"; write {WRITE[name]}" if name in WRITE else ""
    if item["type"] == "missing":
        return f"{key}: missing{write}"
    if item["type"] == "extra_forbidden":
        if _in_arm_server(place) and name in Server.model_fields:
            return f"{key} = {_short(item['input'])}: belongs in [server]: it holds for all arms"
        close = difflib.get_close_matches(name, known_keys(place[:-1]), n=2, cutoff=0.5)
        instead = f"did you mean {' or '.join(close)}?" if close else "remove it; known here: "
        instead += "" if close else ", ".join(known_keys(place[:-1]))
        return f"{key} = {_short(item['input'])}: unknown key; {instead}"
    reason = str(item["msg"]).removeprefix("Value error, ")
    # A refused value of these may be a secret, and errors are copied into tickets.
    if name in ("arm", "temperatures") or SENSITIVE & set(place):
        return f"{key}: {reason}{write}"
    return f"{key} = {_short(item['input'])}: {reason}{write}"


def known_keys(place: Sequence[int | str]) -> list[str]:
    """The keys that the table at ``place`` takes."""
    if not place:
        return list(Experiment.model_fields)
    tables: dict[str, type[BaseModel]] = {
        "target": Target,
        "workload": Workload,
        "arm": Arm,
        "server": Server,
        "study": Study,
        "anchor": AnchorSetup if "setup" in place else Anchor,
    }
    table = ArmServer if _in_arm_server(place) else tables.get(str(place[0]))
    return list(table.model_fields) if table else []


def _in_arm_server(place: Sequence[int | str]) -> bool:
    return len(place) > 2 and place[0] == "arm" and place[2] == "server"


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
