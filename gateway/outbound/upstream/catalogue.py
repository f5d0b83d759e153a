"""The `Upstreams` port: all upstreams under one roof, each tool under one name."""

import asyncio
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from typing import Any, TypeAlias
from urllib.parse import urlsplit

import anyio

from gateway.model.tool import Answer, NotSent, Tool
from gateway.outbound.upstream.listing import OURS, Names, name_all
from gateway.outbound.upstream.negotiate import Client
from gateway.outbound.upstream.spec import DEFAULT_PATIENCE, HttpSpec, Patience, Spec, unsendable
from gateway.outbound.upstream.supervisor import Upstream
from gateway.ports import Dispatch

_LOG = logging.getLogger("counterfoil.upstream")

_NAME = re.compile(r"[A-Za-z0-9_-]{1,32}")

OnNotification: TypeAlias = Callable[[str, str, Mapping[str, Any]], None]
"""Takes the upstream, the method and the params, on the event loop."""


class Catalogue:
    """The real MCP servers behind us, started, watched and listed. Made by `open`."""

    def __init__(
        self,
        specs: Sequence[Spec],
        *,
        prefix: bool,
        patience: Patience,
        client: Client,
        on_notification: OnNotification | None,
        on_tools_changed: Callable[[], None] | None,
    ) -> None:
        self._prefix = prefix
        self._on_tools_changed = on_tools_changed
        self._names = Names({}, {})
        self._definitions: list[dict[str, Any]] = []
        self._closing: asyncio.Future[None] | None = None
        self._upstreams = {
            spec.name: Upstream(
                spec,
                client,
                spec.patience or patience,
                on_change=self._rename,
                on_notification=partial(on_notification, spec.name) if on_notification is not None else None,
            )
            for spec in specs
        }

    @classmethod
    async def open(
        cls,
        specs: Sequence[Spec],
        *,
        prefix: bool,
        patience: Patience = DEFAULT_PATIENCE,
        client: Client | None = None,
        on_notification: OnNotification | None = None,
        on_tools_changed: Callable[[], None] | None = None,
    ) -> "Catalogue":
        """Every upstream is up, or its first attempt has failed; those are tried again for as long as we run.

        Raises: ValueError for specs that cannot be meant.
        """
        _check(specs)
        catalogue = cls(
            specs,
            prefix=prefix,
            patience=patience,
            client=client or Client("counterfoil", version("counterfoil")),
            on_notification=on_notification,
            on_tools_changed=on_tools_changed,
        )
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

    # --- the port ---------------------------------------------------------------------------------------------------

    async def tool(self, name: str) -> Tool | None:
        """As `Upstreams.tool`. What belongs to an upstream that never came up is a tool without a definition."""
        known = self._names.tools.get(name)
        if known is None:
            return self._unlisted(name)
        upstream = self._upstreams[known.upstream]
        upstream.look()
        health = upstream.health
        return known if health.state == "healthy" else replace(known, healthy=False, trouble=health.reason)

    async def call(self, dispatch: Dispatch) -> Answer:
        """As `Upstreams.call`."""
        upstream = self._upstreams.get(dispatch.tool.upstream)
        if upstream is None:
            return NotSent(f"there is no upstream `{dispatch.tool.upstream}`")
        return await upstream.call(dispatch)

    # --- what is on offer -------------------------------------------------------------------------------------------

    def tools(self) -> list[dict[str, Any]]:
        """Definitions as the upstreams sent them, only their names ours; the same order while they are the same."""
        for upstream in self._upstreams.values():
            upstream.look()
        return list(self._definitions)

    def schema_of(self, name: str) -> Mapping[str, Any] | None:
        """The tool's input schema, if it is known now."""
        tool = self._names.tools.get(name)
        schema = tool.definition.get("inputSchema") if tool is not None else None
        return schema if isinstance(schema, Mapping) else None

    def owner_of(self, name: str) -> str | None:
        """The upstream that a tool of that name belongs to, or would belong to; None if the name does not tell."""
        known = self._names.tools.get(name)
        if known is not None:
            return known.upstream
        if self._prefix:
            owners = [upstream for upstream in self._upstreams if name.startswith(f"{upstream}__")]
            return max(owners, key=len, default=None)
        return next(iter(self._upstreams)) if len(self._upstreams) == 1 else None

    def instructions(self) -> str:
        """What the upstreams want a model to know, each under its name where there are several."""
        said = {name: up.health.agreement.instructions for name, up in self._upstreams.items() if up.health.agreement}
        if len(self._upstreams) == 1:
            return "".join(said.values())
        return "\n\n".join(f"# {name}\n\n{text}" for name, text in said.items() if text)

    def health(self) -> Mapping[str, Mapping[str, Any]]:
        """How each upstream is, for people and for probes."""
        return {name: self._health_of(upstream) for name, upstream in self._upstreams.items()}

    def _health_of(self, upstream: Upstream) -> Mapping[str, Any]:
        health, listing, agreement = upstream.health, upstream.listing, upstream.health.agreement
        troubles = [*(listing.troubles if listing is not None else ()), *self._names.withheld.get(upstream.name, ())]
        return {
            "state": health.state,
            "reason": health.reason,
            "era": None if agreement is None else "modern" if agreement.modern else "legacy",
            "protocol_version": None if agreement is None else agreement.version,
            "server": None if agreement is None else dict(agreement.server),
            "tools": sum(tool.upstream == upstream.name for tool in self._names.tools.values()),
            "troubles": troubles,
            "counts": dict(upstream.counts),
        }

    # --- names ------------------------------------------------------------------------------------------------------

    def _rename(self) -> None:
        offers = [(up.name, up.listing.tools) for up in self._upstreams.values() if up.listing is not None]
        withheld = self._names.withheld
        self._names = name_all(offers, prefix=self._prefix)
        self._definitions = [{**tool.definition, "name": name} for name, tool in self._names.tools.items()]
        for upstream, reasons in self._names.withheld.items():
            for reason in set(reasons) - set(withheld.get(upstream, ())):
                _LOG.warning("%s: a tool is withheld: %s", upstream, reason)
        if self._on_tools_changed is not None:
            self._on_tools_changed()

    def _unlisted(self, name: str) -> Tool | None:
        owner = self.owner_of(name)
        if owner is None:
            return None
        upstream = self._upstreams[owner]
        if upstream.listing is not None:
            upstream.look()
            return None
        own = name.removeprefix(f"{owner}__") if self._prefix else name
        return Tool(name, owner, own, {}, healthy=False, trouble=upstream.health.reason)


def _check(specs: Sequence[Spec]) -> None:
    names = [spec.name for spec in specs]
    for spec in specs:
        if not _NAME.fullmatch(spec.name):
            raise ValueError(f"the upstream name `{spec.name}` is not 1 to 32 of A-Z a-z 0-9 _ -")
        if spec.name == OURS:
            raise ValueError(f"no upstream can be named `{OURS}`: it is the prefix of the gateway's own tools")
        if names.count(spec.name) > 1:
            raise ValueError(f"two upstreams are named `{spec.name}`")
        if isinstance(spec, HttpSpec):
            _check_http(spec)


def _check_http(spec: HttpSpec) -> None:
    address = urlsplit(spec.url)
    if address.scheme not in {"http", "https"} or not address.hostname:
        raise ValueError(f"the address of the upstream `{spec.name}` is not an http or https URL")
    if (bad := unsendable(spec.headers)) is not None:
        raise ValueError(f"the header `{bad}` of the upstream `{spec.name}` cannot be sent")
