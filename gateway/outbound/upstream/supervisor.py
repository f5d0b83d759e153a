"""One upstream: the house's own link to it, and in the older era one for each party."""

import asyncio
from collections import Counter

from gateway.model.canonical import canonical
from gateway.model.party import Party
from gateway.outbound.upstream.link import Health, Hooks, Link
from gateway.outbound.upstream.negotiate import Client, relayed
from gateway.outbound.upstream.spec import HttpSpec, Patience, Spec, StdioSpec

MAX_STDIO = 64
"""Links of parties to one stdio upstream: each is a process."""

MAX_HTTP = 1000

IDLE_S = 600.0
"""After which a link that nobody uses is closed, unless its party has joined."""

JOINED_S = 10.0
"""By so much later it is the turn of a party that has joined. Not at last: clients that left without a word have joined
too, and would crowd out the one that is at work.
"""

_SWEEP_S = 30.0

GENTLY_S = 60.0
"""How long calls that are under way may take over a connection that nothing more is sent over: what was sent stays
sent, and its answer is wanted."""

_GENTLY_LOOK_S = 0.1


class Upstream:
    """One upstream, from the first attempt to reach it until `close`."""

    def __init__(self, spec: Spec, client: Client, patience: Patience, hooks: Hooks, *, sole: bool = False) -> None:
        """With `sole` there is only one client: whoever comes first is met by the one link that there is."""
        self.name = spec.name
        self.spec = spec
        self._client = client
        self._patience = patience
        self._hooks = hooks
        self._sole = sole
        self._limit = MAX_STDIO if isinstance(spec, StdioSpec) else MAX_HTTP
        self._links: dict[tuple[str, bytes], Link] = {}
        self._used: dict[Link, float] = {}
        self._joined: set[str] = set()
        self._ending: set[asyncio.Task[None]] = set()
        self._gone: Counter[str] = Counter()
        self._closed = False
        self._newer_only = False
        """Whether it was asked for the older era and speaks only the newer."""
        self.personal = isinstance(spec, HttpSpec) and spec.personal
        """Whether nobody is connected to it but a principal, each over connections of their own."""
        credential = spec.credential if isinstance(spec, HttpSpec) else None
        self.by_token = credential is not None and credential.by_token
        """Whether it is only for who came in by an access token."""
        refusal = credential.nobody if self.personal and credential is not None else None
        self.house = Link(spec, client, patience, hooks, waits=sole, refusal=refusal)
        self._sweeper = asyncio.get_running_loop().create_task(self._sweep())

    @property
    def health(self) -> Health:
        """The house's; with `sole` that of the one link; where all are personal, of one that is well, if any is."""
        if self.personal:
            return next((link.health for link in self.links if link.health.state == "healthy"), self.house.health)
        return self.house.health

    @property
    def links(self) -> tuple[Link, ...]:
        """All that are open, the house's first."""
        return (self.house, *self._links.values())

    @property
    def counts(self) -> Counter[str]:
        """Those of all its links, also the closed ones."""
        return sum((link.counts for link in self.links), Counter(self._gone))

    async def settled(self) -> None:
        """The first attempt of the house has ended; with `sole` perhaps in waiting for the first party."""
        await self.house.settled()

    # --- whose link ---------------------------------------------------------------------------------------------------

    def view(self, party: Party | None) -> Link | None:
        """The link that the party has now, up or down; None if it must be reached first, and perhaps waited for."""
        if self._sole and party is not None:
            self.house.meet(party)  # also where nobody waits for it now: the next server may be of the older era
        if party is not None and self.house.health.agreement is None and not self.personal:
            return self.house if self.house.tried else None
        link = self._link_of(party)
        # One that another request of the party has just had made is waited for by this one too.
        return link if link is None or link.tried or link is self.house else None

    def _link_of(self, party: Party | None) -> Link | None:
        """The party's link, up, down or coming up; None if there is none, or nobody knows yet which it should be."""
        agreement = self.house.health.agreement
        if party is None:
            return self.house
        if self.personal:
            return self._own_of(party) if self._serves(party) else self.house
        if agreement is None:
            return None
        if self._sole and not agreement.modern:
            return self.house
        if agreement.modern and (party.modern or self._newer_only):
            return self.house
        link = self._links.get(self._key(party))
        if link is not None:
            self._touch(link)
        return link

    def _serves(self, party: Party) -> bool:
        return party.behalf is not None and (party.behalf.by_token or not self.by_token)

    def _own_of(self, party: Party) -> Link | None:
        """The party's own link. One that is down is none to whoever shows another access token: that may be why."""
        link = self._links.get(self._key(party))
        if link is None:
            return None
        shown = None if party.behalf is None else party.behalf.token
        former = None if link.behalf is None else link.behalf.token
        if link.health.state == "unhealthy" and shown is not None and shown != former:
            self._end(self._key(party))
            return None
        self._touch(link)
        return link

    async def reach(self, party: Party | None, within_s: float) -> Link:
        """The party's link, up or down; made if there is none. Waits no longer than that for its first attempt.

        While nobody knows of which era the upstream is, that is the house's.
        """
        until = asyncio.get_running_loop().time() + within_s
        if self._sole:
            await _until_settled(self.house, until)
            self.house.meet(party)
        await _until_settled(self.house, until)
        link = self._link_of(party)
        known = self.personal or self.house.health.agreement is not None
        if link is None and party is not None and known and not self._closed:
            link = self._make(party)
        if link is None:
            return self.house
        await _until_settled(link, until)
        return self._judged(link)

    def _judged(self, link: Link) -> Link:
        """A server of both eras is spoken to in its client's; one of the newer alone is shared by all."""
        agreement, house = link.health.agreement, self.house.health.agreement
        if self._newer_only and link not in self.links:
            return self.house  # another request of the party found out meanwhile
        own = next((key for key, one in self._links.items() if one is link), None)
        if own is None or agreement is None or house is None or not house.modern:
            return link
        if agreement.modern:
            self._newer_only = True
            self._end(own)
            return self.house
        if self._sole:  # there is no other client that could want the newer era
            former, self.house = self.house, self._links.pop(own)
            self._used.pop(link, None)
            self._retire(former)
        return link

    def join(self, party_key: str) -> None:
        """Links of that party are kept, however long they are idle, until it leaves."""
        self._joined.add(party_key)

    def leave(self, party_key: str) -> None:
        """The party has ended: its links are closed."""
        self._joined.discard(party_key)
        for key in [key for key in self._links if key[0] == party_key]:
            self._end(key)

    def end(self, tenant: str, principal: str) -> None:
        """Nothing more goes over links of that principal: they are closed; those on which calls are under way, when
        these have ended.
        """
        for key, link in list(self._links.items()):
            if link.behalf is not None and (link.behalf.tenant, link.behalf.principal) == (tenant, principal):
                self._end(key, gently=True)

    async def close(self) -> None:
        """All its links have ended, at once, within 3 s."""
        self._closed = True
        self._sweeper.cancel()
        for key in list(self._links):
            self._end(key)
        await self.house.close()
        if self._ending:
            await asyncio.wait(self._ending)

    # --- the pool -----------------------------------------------------------------------------------------------------

    def _make(self, party: Party) -> Link:
        if len(self._links) >= self._limit and not self._make_room():
            words = f"all {self._limit} connections to it are in use"
            return Link(self.spec, self._client, self._patience, self._hooks, party=party, refusal=words)
        legacy = not (self.personal and party.modern)  # of the others the house knows that they are
        link = Link(self.spec, self._client, self._patience, self._hooks, party=party, legacy=legacy)
        self._links[self._key(party)] = link
        self._touch(link)
        return link

    def _key(self, party: Party) -> tuple[str, bytes]:
        # What a server of the older era was told of its client holds for the connection: another word, another
        # connection. And no two principals are ever met over one that carries a token in the name of one.
        behalf = party.behalf if self.personal else None
        whose = [] if behalf is None else [behalf.tenant, behalf.principal]
        return party.key, canonical([relayed(party.capabilities), *whose])

    def _make_room(self) -> bool:
        """Whether one that is idle was closed, of whoever has most: the least recently used, of a party that has joined
        somewhat later.
        """
        has = Counter(_whose(link) for link in self._links.values())
        idle = [key for key, link in self._links.items() if link.idle]
        oldest = min(idle, key=lambda key: (-has[_whose(self._links[key])], self._kept_since(key)), default=None)
        if oldest is not None:
            self._end(oldest)
        return oldest is not None

    def _kept_since(self, key: tuple[str, bytes]) -> float:
        return self._used[self._links[key]] + (JOINED_S if key[0] in self._joined else 0.0)

    def _touch(self, link: Link) -> None:
        self._used[link] = asyncio.get_running_loop().time()

    def _end(self, key: tuple[str, bytes], *, gently: bool = False) -> None:
        link = self._links.pop(key)
        self._used.pop(link, None)
        self._retire(link, gently=gently)

    def _retire(self, link: Link, *, gently: bool = False) -> None:
        task = asyncio.get_running_loop().create_task(self._close(link, GENTLY_S if gently else 0.0))
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    async def _close(self, link: Link, within_s: float = 0.0) -> None:
        until = asyncio.get_running_loop().time() + within_s
        while not (link.idle or self._closed) and asyncio.get_running_loop().time() < until:  # noqa: ASYNC110 - as sweeps
            await asyncio.sleep(_GENTLY_LOOK_S)
        await link.close()
        self._gone += link.counts

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(_SWEEP_S)
            before = asyncio.get_running_loop().time() - IDLE_S
            for key, link in list(self._links.items()):
                if link.idle and self._used[link] < before and key[0] not in self._joined:
                    self._end(key)


def _whose(link: Link) -> tuple[str, str]:
    return ("", "") if link.party is None else link.party.whose


async def _until_settled(link: Link, until: float) -> None:
    try:
        async with asyncio.timeout_at(until):
            await link.settled()
    except TimeoutError:
        pass
