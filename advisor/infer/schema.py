"""The shape of a rule, of its tests, of cause pages and of message pages: what `rules/schema.json` is made from."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

Id = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$")]
Risk = Literal["safe", "restart-job", "needs-drain", "needs-reboot", "physical", "fabric-admin", "provider"]
Kind = Literal["fault", "config", "design", "workload", "test", "symptom", "normal"]
# The order of repair: what is broken before what was switched off, before what runs slower than it could.
Tier = Literal[
    "hard-fault", "lost-fast-path", "degraded-rate", "topology", "fabric-state", "tuning", "workload", "test"
]
Stage = Literal[
    "link", "gpu-nic-path", "nccl-network", "intra-node", "host", "fabric", "start", "job", "test", "none"
]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Rule(_Strict):
    """One observation and what it says about one cause."""

    id: Id = Field(description="The file's name without .yaml, named after what is observed")
    title: str = Field(description="The observation in a few words")
    cause: Id = Field(description="Id of the cause it speaks for or against; not-a-problem for a normal reading")
    status: Literal["preview", "stable"]
    since: str = Field(description="Version of the advisor that had it first")
    evidence: Literal["proves", "suggests", "refutes"]
    unverified: bool = Field(False, description="Rests on experience alone: gives `possible` at most")
    each: dict[str, str] = Field(
        min_length=1, max_length=1, description="Variable: fact type, tried for each such fact"
    )
    needs: list[str] = Field(default_factory=list, description="Fact types without which it is not tried")
    when: list[dict[str, Any]] = Field(min_length=1, description="Conditions that must all hold")
    effect: list[dict[str, Any]] = Field(
        default_factory=list, description="What shows that the setting does harm here; unknown lowers the confidence"
    )
    message: str = Field(description="What was observed, with {variable.field} filled in; reports add the host")
    bind: dict[str, str] = Field(default_factory=dict, description="Placeholder of the fix cards: variable.field")
    explains: list[Id] = Field(default_factory=list, description="Rules whose findings this one makes plain")
    false_positives: list[str] = Field(default_factory=list)
    references: list[str] = Field(min_length=1)


class RuleTest(_Strict):
    """A case of a rule: raw tool text by file name, and what the rule must say of it."""

    name: str
    expect: Literal["fires", "silent", "unknown"]
    confidence: Literal["confirmed", "likely", "possible"] | None = None
    known_gap: str | None = Field(None, description="Why this case fails today")
    files: dict[str, str] = Field(min_length=1)


class RuleTests(_Strict):
    """The second document of a rule's file."""

    tests: list[RuleTest] = Field(min_length=1)


class Fix(_Strict):
    """One way to repair a cause. Nothing of it is ever executed by the advisor."""

    title: str
    risk: Risk
    who: str
    rules: list[Id] = Field(default_factory=list, description="Only after findings of these rules; any if empty")
    commands: list[str] = Field(default_factory=list)
    undo: list[str] = Field(default_factory=list)
    persistence: str = ""
    danger: str = ""
    verify: list[str] = Field(default_factory=list)
    expect: str = Field("", description="What the check must show afterwards")


class Check(_Strict):
    """A command that would separate this cause from others, if it is still open."""

    command: str
    why: str
    seconds: float
    root: bool = False
    traffic: bool = False
    gives: list[str] = Field(default_factory=list, description="Fact types the answer brings")


class Loss(_Strict):
    """The largest share of bandwidth a cause can take, and where the figure is from."""

    share: float = Field(ge=0, le=1)
    tag: Literal["measured", "documented", "computed", "experience"]
    source: str


class Cause(_Strict):
    """Front matter of a cause page."""

    title: str
    kind: Kind
    tier: Tier
    stage: Stage
    parents: list[Id] = Field(default_factory=list, description="Causes that can bring this one about")
    only_a_limit: bool = Field(False, description="It limits the job and there is nothing to repair: never a fault")
    common_when_healthy: bool = Field(False, description="Without its effect it is `possible` at most")
    largest_loss: Loss | None = None
    fixes: list[Fix]
    checks: list[Check] = Field(default_factory=list)
    mistaken_for: list[Id] = Field(default_factory=list)
    aliases: list[str] = Field(default_factory=list)
    references: list[str] = Field(default_factory=list)


class MessagePage(_Strict):
    """Front matter of a page on a line that a log can show."""

    title: str
    severity: Literal["error", "warning", "note", "harmless"]
    causes: list[Id] = Field(default_factory=list)
    patterns: list[str] = Field(default_factory=list)
    versions: str = ""
    example: str = ""
    aliases: list[str] = Field(default_factory=list)
    references: list[str] = Field(default_factory=list)


class Page(_Strict):
    """Front matter of a page on a tool, a variable, a concept, or of a guide."""

    title: str
    aliases: list[str] = Field(default_factory=list)
    see_also: list[str] = Field(default_factory=list)
    references: list[str] = Field(default_factory=list)


class Threshold(_Strict):
    """One figure that rules compare with."""

    value: float
    unit: str
    tag: Literal["measured", "documented", "computed", "experience"]
    scope: str = Field(description="What it holds for")
    source: str
