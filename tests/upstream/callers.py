"""Clients as the upstream side sees them: they note what they are told, and answer what they are told to."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from gateway.model.party import Behalf
from gateway.model.tool import Answer, Silence
from gateway.ports import Party, Withdrawal

Reply = Callable[[str, Mapping[str, Any]], Answer]


@dataclass
class FakeCaller:
    """One client's side of one request."""

    reply: Reply | None = None
    """What it answers; None: it never does."""
    key: str = "p"
    capabilities: Mapping[str, Any] = field(default_factory=dict)
    client: Mapping[str, Any] = field(default_factory=dict)
    modern: bool = False
    log_level: str | None = None
    behalf: Behalf | None = None
    withdrawal: Withdrawal = field(default_factory=Withdrawal)
    after_s: float = 0.0
    told: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)
    asked: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)
    pauses: list[int | None] = field(default_factory=list)
    progress: int = 0
    """How often it says that it is at work on a question."""
    given_up: int = 0
    """How many questions were withdrawn."""

    @property
    def party(self) -> Party:
        """Who it is."""
        return Party(self.key, self.capabilities, self.client, modern=self.modern, behalf=self.behalf)

    def since(self) -> float | None:
        """It has just begun to wait."""
        return asyncio.get_running_loop().time()

    def tell(self, method: str, params: Mapping[str, Any]) -> None:
        """It is noted."""
        self.told.append((method, params))

    async def ask(
        self, method: str, params: Mapping[str, Any], told: Callable[[str, Mapping[str, Any]], None] | None = None
    ) -> Answer:
        """It is noted, and answered after a while."""
        self.asked.append((method, params))
        try:
            for step in range(self.progress):
                assert told is not None
                told("notifications/progress", {"progressToken": "ours", "progress": step})
            await asyncio.sleep(self.after_s)
            if self.reply is None:
                await asyncio.sleep(30)
                return Silence("it never answers")
        except asyncio.CancelledError:
            self.given_up += 1
            raise
        return self.reply(method, params)

    def pause(self, retry_ms: int | None) -> None:
        """It is noted."""
        self.pauses.append(retry_ms)

    def heard(self, method: str) -> list[Mapping[str, Any]]:
        """The params of all that it was told by that method."""
        return [params for name, params in self.told if name == method]
