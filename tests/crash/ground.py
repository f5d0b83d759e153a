"""What outlives every gateway: the ledger, the servers, the true time, and notes of what was promised to whom."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from gateway.kernel.approve import resolve
from gateway.model.alike import alike_digest
from gateway.model.answer import Shown
from gateway.model.canonical import Digest, canonical, digest, digest_bytes
from gateway.model.events import Event, Who
from gateway.model.policy import Policy
from gateway.model.principal import Principal
from gateway.model.proposal import Key, KeySource, Proposal
from gateway.model.record import Record, decode
from gateway.model.review import Refused
from gateway.model.run import Run
from gateway.ports import Append, Clock, Ledger
from gateway.runtime.policies import spelled
from tests.crash.clocks import TrueClock
from tests.crash.history import Claim, History, Reply
from tests.crash.outside import ARGUMENT, VALID_S, Outside
from tests.people import answer

PROBE = "status"
AGENT = Principal("agent", "acme", frozenset({"agents"}))
BOSS = Who(tenant="acme", id="boss", roles=("reviewers",))
CANARY = "canary-5f2c9e"
"""Comes with every call in its `_meta`, as a client's secret would; it is relayed and must be stored nowhere."""

_SEEN = {"tool": PROBE, "arguments_from": {"tool": "args.tool", "ref": "args.ref"}}
_QUERY = {"probe": _SEEN, "happened": ["result.structuredContent.n > 0"], "absent": ["result.structuredContent.n == 0"]}
_QUERY_BY_KEY = {**_QUERY, "probe": {"tool": PROBE, "arguments_from": {"key": "key"}}}

TOOLS: Mapping[str, Mapping[str, Any]] = {
    "read": {"effect": "read"},
    "write": {"effect": "write"},
    "natural": {"effect": "write", "idempotency": {"kind": "natural"}},
    "keyed": {
        "effect": "write",
        "idempotency": {"kind": "key", "key": {"argument": ARGUMENT}, "valid_s": VALID_S},
    },
    "asked": {
        "effect": "write",
        "idempotency": {"kind": "key", "key": {"argument": ARGUMENT}, "valid_s": VALID_S, "query": _QUERY_BY_KEY},
    },
    "queried": {"effect": "write", "repeat": "replay", "idempotency": {"kind": "query", "query": _QUERY}},
    "verified": {"effect": "write"},
    "approved": {"effect": "write"},
    "replayed": {"effect": "write", "repeat": "replay"},
    "fresh": {"effect": "write", "repeat": "new"},
    "destroy": {"effect": "destructive"},
    "finish": {"effect": "write"},
    "doom": {"effect": "write"},
}
"""One tool of each kind that recovery treats differently, as the registry describes it."""


def policy(**fields: Any) -> Policy:
    """A policy under which each of the tools may be used, changed by `fields`."""
    base: dict[str, Any] = {
        "workflow": "crash",
        "tools": {name: {"timeout_s": 10, "grace_s": 20, "cost": 1, **rule} for name, rule in TOOLS.items()},
        "grants": [{"roles": ["agents"], "authority": ["act"]}],
        "phases": {"work": {}, "proven": {}, "broken": {}},
        "transitions": [
            {"name": "verify", "tools": ["verified"], "verify": "seen", "authority": ["act"]},
            {
                "name": "ask",
                "tools": ["approved"],
                "approval": {"role": "reviewers", "expires_s": 120},
                "authority": ["act"],
            },
            {
                "name": "finish",
                "tools": ["finish"],
                "verify": "finished",
                "to": "proven",
                "on": {"verification_failed": "broken", "error": "broken"},
                "authority": ["act"],
            },
            {"name": "any", "tools": [name for name in TOOLS if name not in {"verified", "approved", "finish"}]},
        ],
        "forbid": [{"name": "doom", "tools": ["doom"], "final": True}],
        "verifiers": {
            "seen": {"probe": _SEEN, "pass": ["result.structuredContent.n > 0"], "covers": ["verified"]},
            "finished": {"probe": _SEEN, "pass": ["result.structuredContent.n > 0"]},
        },
        "success": {"evidence": ["finished"], "phase": "proven"},
        "budgets": {"calls": 40, "mutations": 30, "cost": 35, "reviews": 6},
        "accounts": {"all": {"per": ["tenant"], "window": "ever", "limit": {"calls": 30}}},
    }
    return Policy.model_validate(base | fields)


@dataclass
class Ground:
    """All of it, for one world."""

    ledger: Ledger
    clock: TrueClock
    outside: Outside
    policies: Mapping[str, Policy]
    workflow: str = "crash"
    acknowledged: list[tuple[str, int, str]] = field(default_factory=list)
    replies: list[Reply] = field(default_factory=list)
    claims: list[Claim] = field(default_factory=list)
    heard: dict[str, str] = field(default_factory=dict)
    """By attempt that was answered late, the gateway that was told."""
    clocks: dict[str, Clock] = field(default_factory=dict)
    """By gateway, also of those that are dead."""
    latest: float = 0.0
    """The time that the newest record tells."""
    known: dict[Digest, Policy] = field(default_factory=dict)
    """Every policy that was ever in force, by its digest."""
    _decided: dict[str, float] = field(default_factory=dict)
    """By record that became durable, when it was decided, by the true clock."""
    records: list[tuple[Record, bytes]] = field(default_factory=list)
    """Of the ledger's log, as far as it was read."""
    _read: int = 0

    @classmethod
    def new(cls, ledger: Ledger, clock: TrueClock | None = None, *policies: Policy) -> "Ground":
        """A world in which nothing has happened yet."""
        clock = clock or TrueClock()
        outside = Outside(clock, ledger.salt)
        outside.offer(*TOOLS, PROBE)
        made = cls(ledger, clock, outside, {})
        made.take(policies or (policy(),))
        return made

    def take(self, policies: Iterable[Policy]) -> None:
        """These policies are in force for whoever starts from now on."""
        self.policies = {one.workflow: one for one in policies}
        self.known |= {digest_bytes(spelled(one), self.ledger.salt): one for one in self.policies.values()}

    # --- what is noted ----------------------------------------------------------------------------------------------

    def became_durable(self, step: Append, decided: float) -> None:
        """The step is in the ledger, and was decided then."""
        self.latest = step.records[-1].at.timestamp()
        self._decided |= {record.id: decided for record in step.records}

    async def intended(self, attempt: str | None) -> bool:
        """Whether the ledger holds that attempt's intent."""
        run = (attempt or "").rpartition(".")[0]
        held = await self.ledger.read(run)
        return any(getattr(record.event, "attempt", None) == attempt for record, _ in held)

    @property
    def place(self) -> int:
        """How many records are durable."""
        return len(self._decided)

    def told(self, proposal: Proposal, shown: Shown, asked: int) -> None:
        """A client was told that of the call that it made when the log had `asked` records."""
        payload = shown.result if shown.result is not None else shown.error
        refusal = shown.refusal
        self.replies.append(
            Reply(
                run=proposal.run,
                tool=proposal.tool,
                arguments=proposal.arguments_digest,
                kind="refused" if refusal else "asked" if shown.awaits else "error" if shown.error else "result",
                place=self.place,
                asked=asked,
                attempt=shown.attempt if refusal is None else refusal.attempt,
                payload=None if payload is None else digest_bytes(canonical(payload), self.ledger.salt),
                outcome=None if refusal is None else str(refusal.outcome),
                executed=None if refusal is None else refusal.executed,
                key=None if proposal.key is None else proposal.key.value,
            )
        )

    async def read_on(self) -> None:
        """`records` has all that is in the ledger."""
        while logged := await self.ledger.log(self._read):
            self.records += [(decode(one.body), one.body) for one in logged]
            self._read = logged[-1].place

    async def history(
        self,
        views: Iterable[Run] = (),
        *,
        alive: Collection[str] = (),
        unanswered: Iterable[str] = (),
        at_rest: bool = False,
    ) -> History:
        """All that happened so far."""
        await self.read_on()
        accounts = {one.account for record, _ in self.records for one in getattr(record.event, "accounts", ())}
        return History(
            records=tuple(self.records),
            tracked=tuple(await self.ledger.tracked()),
            levels=await self.ledger.levels(sorted(accounts)),
            payloads=dict(await self.ledger.payloads(limit=100_000)),
            policies=self.known,
            received=tuple(self.outside.received),
            effects=tuple(self.outside.effects),
            answered=tuple(self.outside.answered),
            replies=tuple(self.replies),
            claims=tuple(self.claims),
            heard=tuple(attempt for attempt, owner in self.heard.items() if owner in alive),
            acknowledged=tuple(self.acknowledged),
            times=tuple(self._decided.get(record.id, record.at.timestamp()) for record, _ in self.records),
            views=tuple(views),
            unanswered=tuple(unanswered),
            salt=self.ledger.salt,
            canaries=(CANARY.encode(),),
            at_rest=at_rest,
        )

    # --- what agents and people do ----------------------------------------------------------------------------------

    def proposal(self, run: str, tool: str, ref: str, call_id: str | None = None) -> Proposal:
        """A call of the tool about the thing `ref`."""
        given, salt = {"tool": tool, "ref": ref}, self.ledger.salt
        key = None if call_id is None else Key(KeySource.CALL_ID, call_id)
        meta = {"authorization": CANARY}
        return Proposal(run, AGENT, tool, given, digest(given, salt), alike_digest(given, salt), key, meta)


def approving(run: Run, approval: str, *, yes: bool = True) -> Any:
    """A step by which a reviewer answers. Raises: Refused."""
    action = run.approvals[approval].action

    def decided(state: Run, _rules: object, now: Any) -> list[Event]:
        return [answer(state, approval, action, approve=yes, by=BOSS, reason="", now=now)]

    return decided


def resolving(ground: "Ground", attempt: str) -> Any:
    """A step by which a person looks, and says what became of an unknown attempt. Raises: Refused."""

    def told(state: Run, _rules: object, now: Any) -> list[Event]:
        happened = any(one.attempt == attempt for one in ground.outside.effects)
        known = state.attempts.get(attempt)
        if not happened and known is not None and ground.clock.seconds < known.settles_at.timestamp():
            raise Refused("settles", "people have a watch of their own, and come back")
        return list(
            resolve(
                state, attempt, what="happened" if happened else "did_not_happen", by=BOSS, reason="looked", now=now
            )
        )

    return told
