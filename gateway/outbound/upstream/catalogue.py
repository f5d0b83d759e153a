"""All upstreams under one roof: the `Upstreams` port for the engine, and what the relay asks of them."""

import asyncio
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from typing import Any

import anyio

from gateway.model.offer import Kind, Listed, Route
from gateway.model.party import Party
from gateway.model.tool import Answer, NotSent, ProtocolError, Tool
from gateway.outbound.credentials.consented import Consented
from gateway.outbound.credentials.credential import Credential
from gateway.outbound.upstream import rounds
from gateway.outbound.upstream.hearing import Hearing
from gateway.outbound.upstream.instructions import readable
from gateway.outbound.upstream.link import Hooks, Link
from gateway.outbound.upstream.negotiate import Client
from gateway.outbound.upstream.offering import Interned, Offering, Troubles
from gateway.outbound.upstream.routes import to_prompt, to_resource, to_subject
from gateway.outbound.upstream.sight import UNSEEN, Sight
from gateway.outbound.upstream.spec import DEFAULT_PATIENCE, HttpSpec, Patience, Spec, check
from gateway.outbound.upstream.supervisor import Upstream
from gateway.outbound.upstream.wire import Ask
from gateway.ports import Caller, Dispatch, Listener

REACH_S = 8.0
"""How long a request waits for an upstream to come up for its party; clients give `initialize` 10 s (Codex) or more."""
REQUEST_S = 300.0
"""How long for what is no call: as long as the most patient clients wait."""
MAX_OFFERINGS = 2_000
"""Snapshots kept, one for each party."""

_NOT_FOUND = frozenset({-32002, -32602})
"""What a server says of a resource that it does not have; -32002 up to 2025-11-25."""


class Catalogue:
    """The real MCP servers behind us, started, watched and listed. Made by `open`."""

    def __init__(
        self,
        specs: Sequence[Spec],
        *,
        prefix: bool,
        patience: Patience,
        client: Client,
        sole: bool,
        vouched: frozenset[str],
        sight: Sight,
    ) -> None:
        self._prefix = prefix
        self._offer = partial(Offering, prefix=prefix, interned=Interned(), vouched=vouched)
        self._offerings: OrderedDict[str | None, tuple[int, Offering]] = OrderedDict()
        self._version = 0
        self._troubles = Troubles()
        self._closing: asyncio.Future[None] | None = None
        self._hearing = Hearing()
        self.shown_anew = self._hearing.shown_anew
        hooks = Hooks(changed=self._changed, told=self._hearing.told, asked=self._hearing.asked, sight=sight)
        self._upstreams = {
            spec.name: Upstream(spec, client, spec.patience or patience, hooks=hooks, sole=sole) for spec in specs
        }

    @classmethod
    async def open(
        cls,
        specs: Sequence[Spec],
        *,
        prefix: bool,
        patience: Patience = DEFAULT_PATIENCE,
        client: Client | None = None,
        sole: bool = False,
        vouched: frozenset[str] = frozenset(),
        sight: Sight = UNSEEN,
    ) -> "Catalogue":
        """Every upstream is up, or its first attempt has failed; those are tried again for as long as we run.

        With `sole` there is one client, over stdio: a server of the older era is then introduced to it and to nobody
        else, so that there is one process of it, and waits for it until then.

        Raises: ValueError for specs that cannot be meant.
        """
        check(specs)
        ours = client or Client("counterfoil", version("counterfoil"), federates=prefix)
        catalogue = cls(specs, prefix=prefix, patience=patience, client=ours, sole=sole, vouched=vouched, sight=sight)
        try:
            await asyncio.gather(*(upstream.settled() for upstream in catalogue._upstreams.values()))
        except asyncio.CancelledError:
            await catalogue.close()
            raise
        return catalogue

    async def close(self) -> None:
        """All upstreams have ended, at once, within 3 s. Goes on to its end whether or not somebody waits for it."""
        if self._closing is None:
            self._closing = asyncio.ensure_future(self._close())
        with anyio.CancelScope(shield=True):  # we may be closed because a task group of anyio's is being cancelled
            await asyncio.shield(self._closing)

    async def _close(self) -> None:
        await asyncio.gather(*(upstream.close() for upstream in self._upstreams.values()))
        await asyncio.gather(*(one.close() for one in self._credentials()))

    # --- the engine's port ------------------------------------------------------------------------------------------

    async def tool(self, name: str, party: Party | None = None) -> Tool | None:
        """As `Upstreams.tool`. What belongs to an upstream that never came up is a tool without a definition."""
        offering = self._view(party) or await self._reach(party)
        tool = offering.callable.get(name) or offering.tools.withheld.get(name)
        if tool is None:
            return self._unlisted(name, offering)
        link = offering.links[tool.upstream]
        link.look("tools")
        good = tool.withheld or link.health.state == "healthy"
        if good:
            return tool
        health = link.health
        return replace(tool, healthy=False, trouble=health.reason, needs_account=health.needs_account)

    async def offered(self, party: Party | None = None) -> tuple[Sequence[Tool], bool]:
        """As `Upstreams.offered`."""
        return (self._view(party) or await self._reach(party)).all_tools

    async def call(self, dispatch: Dispatch) -> Answer:
        """As `Upstreams.call`."""
        tool, caller, upstream = dispatch.tool, dispatch.caller, self._upstreams.get(dispatch.tool.upstream)
        if tool.withheld:
            return NotSent(f"`{tool.name}` is withheld: {tool.trouble}")
        if upstream is None:
            return NotSent(f"there is no upstream `{tool.upstream}`")
        party = caller.party if caller is not None else None
        link = upstream.view(party) or await upstream.reach(party, REACH_S)
        if caller is not None:
            await self._hearing.busy(caller)
        params = {"name": tool.own_name, "arguments": dispatch.arguments, **dispatch.more}
        return await link.ask(
            Ask(
                "tools/call",
                params,
                dispatch.timeout_s,
                meta=dispatch.meta,
                name=tool.own_name,
                headers=dispatch.headers,
                schema=tool.definition.get("inputSchema"),
                late=dispatch.late,
                heed_loss=dispatch.heed_loss,
                left_s=dispatch.left_s,
            ),
            caller,
        )

    # --- what the relay asks ----------------------------------------------------------------------------------------

    async def reach(self, party: Party) -> None:
        """The party's connections are up, have failed, or were waited for long enough."""
        _ = await self._reach(party)

    def join(self, party: Party) -> None:
        """The party's connections are kept, however idle, until it leaves."""
        for upstream in self._upstreams.values():
            upstream.join(party.key)

    def leave(self, party: str) -> None:
        """The party of that key has ended: its connections are closed."""
        for upstream in self._upstreams.values():
            upstream.leave(party)
        self._offerings.pop(party, None)

    def end(self, upstream: str, tenant: str, principal: str) -> None:
        """Nothing more goes to that upstream over what that principal had: their next call has it made anew.

        Who listens in their name is told to read the lists again.
        """
        self._upstreams[upstream].end(tenant, principal)
        self._version += 1
        self._hearing.shown_to(tenant, principal, "tools")

    def capabilities(self, party: Party) -> Mapping[str, Any]:
        """Server capabilities of all upstreams together, as they are now."""
        return self._now(party).capabilities

    def instructions(self, party: Party) -> str:
        """What the upstreams want a model to know, each under its name where there are several; and who is missing."""
        links = self._now(party).links
        theirs = {name: link.health.agreement for name, link in links.items()}
        said = {name: readable(one.instructions, headed=len(links) > 1) for name, one in theirs.items() if one}
        missing = [
            f"The server `{name}` cannot be used now: {link.health.reason}."
            for name, link in links.items()
            if link.health.state == "unhealthy"
        ]
        if len(links) == 1:
            return "\n\n".join([*(text for text in said.values() if text), *missing])
        return "\n\n".join([*(f"# {name}\n\n{text}" for name, text in said.items() if text), *missing])

    async def listed(self, kind: Kind, party: Party) -> Listed:
        """All of one kind, from the cached lists."""
        offering = self._view(party) or await self._reach(party)
        for link in offering.links.values():
            link.look(kind)
        return offering.listed(kind)

    def offers(self, name: str) -> bool:
        """Whether the house is offered a tool or a prompt of that name."""
        offering = self._now(None)
        return name in offering.tools.by_name or name in offering.prompts.by_name

    def mirrored(self, tool: str, party: Party) -> Mapping[str, Any] | None:
        """The tool's input schema, if it names arguments that HTTP says in headers too."""
        offering = self._view(party)
        return offering.mirrored.get(tool) if offering is not None else None

    def owner_of(self, tool: str, party: Party | None = None) -> str | None:
        """The upstream that a tool of that name belongs to, or would belong to; None if the name does not tell."""
        known = self._now(party).tools.by_name.get(tool)
        return known.upstream if known is not None else self._likely_owner(tool)

    def route(self, method: str, params: Mapping[str, Any], party: Party) -> Route | None:
        """Where a request that is no `tools/call` and no list belongs; None if nobody owns it."""
        offering = self._now(party)
        plain = {key: value for key, value in params.items() if key != "_meta"}
        match method:
            case "prompts/get":
                return to_prompt(offering, plain)
            case "resources/read":
                return to_resource(offering, plain, plain.get("uri"))
            case "completion/complete":
                return to_subject(offering, plain)
            case _ if len(self._upstreams) == 1:
                return Route(tuple(self._upstreams), plain)
            case _:
                return None

    async def request(
        self, route: Route, method: str, meta: Mapping[str, Any], caller: Caller, *, upstream: str | None = None
    ) -> tuple[str, Answer]:
        """Who answered, and what. With `upstream` only that one of the route is asked."""
        asked = [name for name in route.upstreams if upstream is None or name == upstream]
        name = ""
        answer: Answer = NotSent("nobody who is there now has it")
        missed: tuple[str, Answer] | None = None
        if not caller.modern or method in rounds.METHODS:  # else it cannot bring an answer with this request
            await self._hearing.busy(caller)
        for name in asked:
            link = await self._upstreams[name].reach(caller.party, REACH_S)
            ask = Ask(method, route.params, REQUEST_S, meta=meta, name=route.name, heed_loss=True)
            answer = await link.ask(ask, caller)
            if isinstance(answer, NotSent):
                missed = missed or (name, answer)
            elif not (isinstance(answer, ProtocolError) and answer.error.get("code") in _NOT_FOUND):
                return name, answer
        # Of those who are there nobody has it; who is not may.
        return missed or (name, answer)

    def notify(self, party: Party, method: str, params: Mapping[str, Any]) -> None:
        """A notification of the client's own is passed on to its connections to servers of the older era."""
        for upstream in self._upstreams.values():
            link = upstream.view(party)
            if link is not None and link.party is not None:
                link.notify(method, params)

    def set_level(self, party: Party, level: str) -> None:
        """The client's log level, for its connections to servers of the older era."""
        for upstream in self._upstreams.values():
            link = upstream.view(party)
            if link is not None and link.party is not None:
                self._hearing.spawn(link.set_level(level))

    def attach(self, listener: Listener) -> None:
        """The listener hears of everything about its party from now on."""
        self._hearing.attach(listener)

    def detach(self, listener: Listener) -> None:
        """And no more; its subscriptions have ended."""
        self._hearing.detach(listener)

    async def subscribe(self, listener: Listener, uri: str) -> Answer:
        """The listener hears of `notifications/resources/updated` about it."""
        answer: Answer = ProtocolError({"code": -32602, "message": "Resource not found", "data": {"uri": uri}})
        for name in self._now(listener.party).owners_of(uri):
            link = await self._upstreams[name].reach(listener.party, REACH_S)
            answer = await self._hearing.subscribe(listener, link, uri)
            if not isinstance(answer, ProtocolError | NotSent):
                break
        return answer

    async def unsubscribe(self, listener: Listener, uri: str) -> Answer:
        """And no more."""
        return await self._hearing.unsubscribe(listener, uri)

    # --- what is offered, to the house and to people ----------------------------------------------------------------

    def tools(self) -> list[Mapping[str, Any]]:
        """Definitions as the upstreams sent them, only their names ours; as the house sees them."""
        offering = self._now(None)
        for link in offering.links.values():
            link.look("tools")
        return list(offering.listed("tools").items)

    @property
    def personal(self) -> bool:
        """Whether any upstream is called on behalf of principals."""
        return any(upstream.personal for upstream in self._upstreams.values())

    @property
    def by_token(self) -> bool:
        """Whether any of them is shown the access tokens of who calls."""
        return any(upstream.by_token for upstream in self._upstreams.values())

    @property
    def consented(self) -> Sequence[Consented]:
        """What principals agreed to, for each upstream that is called by that."""
        return [one for one in self._credentials() if isinstance(one, Consented)]

    def _credentials(self) -> Sequence[Credential]:
        specs = (upstream.spec for upstream in self._upstreams.values())
        credentials = (spec.credential for spec in specs if isinstance(spec, HttpSpec))
        return [one for one in credentials if one is not None]

    def health(self) -> Mapping[str, Mapping[str, Any]]:
        """How each upstream is, for people and for probes."""
        offering = self._now(None)
        return {name: self._health_of(upstream, offering) for name, upstream in self._upstreams.items()}

    def _health_of(self, upstream: Upstream, offering: Offering) -> Mapping[str, Any]:
        health, agreement = upstream.health, upstream.health.agreement
        return {
            "state": health.state,
            "reason": health.reason,
            "personal": upstream.personal,
            "era": None if agreement is None else "modern" if agreement.modern else "legacy",
            "protocol_version": None if agreement is None else agreement.version,
            "server": None if agreement is None else dict(agreement.server),
            "tools": sum(tool.upstream == upstream.name for tool in offering.tools.by_name.values()),
            "connections": len(upstream.links),
            "troubles": list(offering.troubles[upstream.name]),
            "counts": dict(upstream.counts),
        }

    # --- snapshots --------------------------------------------------------------------------------------------------

    def _view(self, party: Party | None) -> Offering | None:
        """The party's snapshot; None if it has not all its connections yet."""
        key = party.key if party is not None else None
        kept = self._offerings.get(key)
        current = kept is not None and kept[0] == self._version
        if kept is not None and current and all(self._upstreams[n].view(party) is k for n, k in kept[1].links.items()):
            return kept[1]
        links = {name: upstream.view(party) for name, upstream in self._upstreams.items()}
        there = {name: link for name, link in links.items() if link is not None}
        return self._made(key, there) if len(there) == len(links) else None

    def _now(self, party: Party | None) -> Offering:
        """The party's snapshot, with the house's connections where it has none of its own yet."""
        upstreams = self._upstreams.items()
        return self._view(party) or self._offer({name: one.view(party) or one.house for name, one in upstreams})

    async def _reach(self, party: Party | None) -> Offering:
        upstreams = self._upstreams
        links = await asyncio.gather(*(upstream.reach(party, REACH_S) for upstream in upstreams.values()))
        there = dict(zip(upstreams, links, strict=True))
        return self._view(party) or self._offer(there)

    def _made(self, key: str | None, links: Mapping[str, Link]) -> Offering:
        offering = self._offer(links)
        self._offerings[key] = (self._version, offering)
        self._offerings.move_to_end(key)
        while len(self._offerings) > MAX_OFFERINGS:
            self._offerings.popitem(last=False)
        self._troubles.tell(offering.troubles)
        return offering

    def _changed(self, link: Link, kind: Kind) -> None:
        self._version += 1
        self._hearing.changed(link, kind)

    def _likely_owner(self, name: str) -> str | None:
        if self._prefix:
            owners = [upstream for upstream in self._upstreams if name.startswith(f"{upstream}__")]
            return max(owners, key=len, default=None)
        return next(iter(self._upstreams)) if len(self._upstreams) == 1 else None

    def _unlisted(self, name: str, offering: Offering) -> Tool | None:
        owner = self._likely_owner(name)
        if owner is None:
            return None
        link = offering.links[owner]
        if link.health.agreement is not None:
            link.look("tools")
            return None
        own = name.removeprefix(f"{owner}__") if self._prefix else name
        health = link.health
        return Tool(name, owner, own, {}, healthy=False, trouble=health.reason, needs_account=health.needs_account)
