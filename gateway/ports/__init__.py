"""What the runtime asks of the world: Ledger, Upstreams, Clock. Adapters map the world's failures to these words.

`Conflict`, `Occupied` and `Exhausted` are ordinary: decide again. `LedgerUnavailable` stops dispatch.
`NotSent` is known to have done nothing; `Silence` is not.
"""

from typing import Protocol

from gateway.model.account import Posting as Posting
from gateway.model.checkpoint import Checkpoint as Checkpoint
from gateway.model.consent import Consent as Consent
from gateway.model.consent import Holder as Holder
from gateway.model.party import Party as Party
from gateway.model.policy import Way as Way
from gateway.model.run import Tracked as Tracked
from gateway.model.tool import Answer as Answer
from gateway.model.tool import InputRequired as InputRequired
from gateway.model.tool import NotSent as NotSent
from gateway.model.tool import ProtocolError as ProtocolError
from gateway.model.tool import Silence as Silence
from gateway.model.tool import TaskStarted as TaskStarted
from gateway.model.tool import Tool as Tool
from gateway.model.tool import ToolResult as ToolResult
from gateway.ports.callers import Caller as Caller
from gateway.ports.callers import Listener as Listener
from gateway.ports.callers import Withdrawal as Withdrawal
from gateway.ports.consents import Consents as Consents
from gateway.ports.consents import Stand as Stand
from gateway.ports.ledger import Append as Append
from gateway.ports.ledger import Conflict as Conflict
from gateway.ports.ledger import DamagedRecord as DamagedRecord
from gateway.ports.ledger import Exhausted as Exhausted
from gateway.ports.ledger import Ledger as Ledger
from gateway.ports.ledger import LedgerUnavailable as LedgerUnavailable
from gateway.ports.ledger import LockedPayload as LockedPayload
from gateway.ports.ledger import Logged as Logged
from gateway.ports.ledger import NoSuchRun as NoSuchRun
from gateway.ports.ledger import NotOurLedger as NotOurLedger
from gateway.ports.ledger import Occupied as Occupied
from gateway.ports.ledger import Stands as Stands
from gateway.ports.ledger import UnreadableRecord as UnreadableRecord
from gateway.ports.notices import Notifier as Notifier
from gateway.ports.notices import NotTaken as NotTaken
from gateway.ports.redaction import Redactor as Redactor
from gateway.ports.upstreams import Dispatch as Dispatch
from gateway.ports.upstreams import Look as Look
from gateway.ports.upstreams import Looks as Looks
from gateway.ports.upstreams import Observed as Observed
from gateway.ports.upstreams import Observing as Observing
from gateway.ports.upstreams import Sending as Sending
from gateway.ports.upstreams import Upstreams as Upstreams


class Clock(Protocol):
    """Time, told."""

    def now(self) -> float:
        """Seconds since the epoch."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go back."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Return after that long."""
        ...
