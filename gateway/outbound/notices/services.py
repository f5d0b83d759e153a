"""A message through Apprise: Slack, Teams, mail, ntfy and some hundred others, each named by one address.

Apprise blocks while it sends, and some of its services wait without a bound. So each message has a thread of its own,
for which nobody waits longer than a bound, and which holds up no end of the process; the next one waits for its end.
"""

import asyncio
import importlib
import importlib.util
import logging
import re
import threading
from collections.abc import Callable
from contextlib import suppress

from gateway.model.notice import Notice
from gateway.outbound.looks.faults import hide, spellings
from gateway.ports import NotTaken

TIMEOUT_S = 30.0
KEPT = 100
"""Messages that were sent after all when nobody waited any more, and are not sent again for it."""
MAX_REASON = 200
"""Characters of what Apprise says went wrong."""

INSTALL = "pip install 'counterfoil[notify]'"


def is_installed() -> bool:
    """Whether Apprise is there. Nothing of it is imported."""
    return importlib.util.find_spec("apprise") is not None


class Service:
    """A `Notifier` for one of Apprise's addresses."""

    together = 1
    """As `Notifier.together`."""

    def __init__(self, url: str, timeout_s: float = TIMEOUT_S) -> None:
        self._apprise = importlib.import_module("apprise")
        logging.getLogger("apprise").propagate = False  # it names addresses, and so secrets
        self._service = self._apprise.Apprise()
        self._timeout_s = timeout_s
        self._hidden = spellings([url, *re.split(r"[/:@?&=,+]+", url.partition("://")[2])])
        self._busy: threading.Thread | None = None
        self._late: dict[str, None] = {}
        known = bool(self._service.add(url))
        self.trouble: str | None = None if known else "Apprise does not understand its address"

    async def send(self, notice: Notice) -> NotTaken | None:
        """As `Notifier.send`."""
        if self.trouble is not None:
            return NotTaken(self.trouble)
        if notice.id in self._late:
            return None
        if self._busy is not None and self._busy.is_alive():
            return NotTaken("it is still busy with an earlier message")
        answer: asyncio.Future[NotTaken | None] = asyncio.get_running_loop().create_future()
        tell = self._teller(notice.id, answer)
        self._busy = threading.Thread(target=self._work, args=(notice, tell), daemon=True)
        self._busy.start()
        try:
            return await asyncio.wait_for(answer, self._timeout_s)
        except TimeoutError:
            return NotTaken(f"it was not done within {self._timeout_s:g} s")

    def _work(self, notice: Notice, tell: Callable[[NotTaken | None], None]) -> None:
        said: list[str] = []
        try:
            done = self._service.notify(
                title=notice.title,
                body=notice.body,
                body_format=self._apprise.NotifyFormat.TEXT,
                notify_type=self._apprise.NotifyType.WARNING,
                log_callback=lambda entry, _service: said.append(str(entry.message)),
                log_level=logging.WARNING,
            )
        except Exception as error:  # noqa: BLE001 - a service of somebody else's, in a thread that nobody watches
            tell(NotTaken(f"Apprise failed with {type(error).__name__}"))
        else:
            tell(None if done else NotTaken(self._shown(said)))

    def _shown(self, said: list[str]) -> str:
        """What Apprise says went wrong, without any part of the address."""
        words = hide(" ".join(said[-1:] or ["Apprise could not send it"]), self._hidden)
        return words[:MAX_REASON].strip().rstrip(".")

    def _teller(self, name: str, answer: "asyncio.Future[NotTaken | None]") -> Callable[[NotTaken | None], None]:
        """Brings the answer from the thread to whoever waits for it; kept, if nobody does any more."""
        loop = asyncio.get_running_loop()

        def settle(value: NotTaken | None) -> None:
            if not answer.done():
                answer.set_result(value)
            elif value is None:
                self._late = dict.fromkeys([*self._late, name][-KEPT:])

        def tell(value: NotTaken | None) -> None:
            with suppress(RuntimeError):  # the loop is closed: the gateway has ended
                loop.call_soon_threadsafe(settle, value)

        return tell
