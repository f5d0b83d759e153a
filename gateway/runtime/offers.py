"""What upstreams offer, as a policy sees it: looked at only where it is asked whether success can still be reached."""

from gateway.kernel.rules import Rules
from gateway.kernel.ways import Offered, offered_by
from gateway.model.party import Party
from gateway.ports import Upstreams


async def offered(upstreams: Upstreams, rules: Rules, party: Party | None) -> Offered:
    """What they offer to the gateway itself, whose verifiers ask, and to this party."""
    tools, complete = await upstreams.offered()
    if party is not None:
        more, all_of_them = await upstreams.offered(party)
        tools, complete = (*tools, *more), complete and all_of_them
    return offered_by(rules, tools, complete=complete)
