"""Kill switches: how they are thrown and lifted, and which of them stands against a call. Pure, as all that decides."""

from collections.abc import Iterable, Sequence
from typing import Any

from gateway.kernel.approve import is_said
from gateway.kernel.case import Case
from gateway.model.principal import Principal
from gateway.model.record import Record
from gateway.model.review import Refused, Reviewer
from gateway.model.run import Run
from gateway.model.switch import Switch, SwitchLifted, SwitchThrown, what

RULE = "switch"
"""By which a call is denied that a person has stopped."""


class Misplaced(Exception):
    """The event speaks of a switch that is not thrown."""


# --- how events move them ---------------------------------------------------------------------------------------------


def heard(run: Run, record: Record, event: SwitchThrown | SwitchLifted) -> Run:
    """After one was thrown or lifted.

    Raises: Misplaced.
    """
    if isinstance(event, SwitchThrown):
        return run._replace(switches=run.switches.insert(record.seq, Switch(record.seq, record.at, event)))
    if event.switch not in run.switches:
        raise Misplaced(f"the switch {event.switch} is lifted, and was not thrown")
    return run._replace(switches=run.switches.remove(event.switch))


def thrown(run: Run) -> tuple[Switch, ...]:
    """Those that stand, oldest first."""
    return tuple(run.switches[number] for number in sorted(run.switches))


# --- what they do -----------------------------------------------------------------------------------------------------


def against(
    switches: Iterable[Switch], *, tenant: str, principal: str, upstream: str | None, tool: str
) -> Switch | None:
    """The first that stops such a call; `upstream` None where no such tool is offered."""
    call = {"tenant": tenant, "principal": principal, "upstream": upstream, "tool": tool}
    return next((one for one in switches if _fits(one.event, call)), None)


def _fits(event: SwitchThrown, call: dict[str, str | None]) -> bool:
    return all(getattr(event, name) in {None, value} for name, value in call.items())


def stops(case: Case) -> Switch | None:
    """The switch that stands against this call.

    What the gateway itself owes to undo is not stopped with whoever asked for what is undone: its effect would stay. It
    is stopped with the tool, with the upstream, and with everything.
    """
    asking, registered = case.proposal.principal, case.registered
    upstream = None if registered is None else registered.tool.upstream
    standing: Iterable[Switch] = case.observed.switches
    if case.proposal.compensates is not None:
        standing = (one for one in standing if not _only_senders(one.event))
    return against(standing, tenant=asking.tenant, principal=asking.id, upstream=upstream, tool=case.proposal.tool)


def _only_senders(event: SwitchThrown) -> bool:
    named = event.tenant is not None or event.principal is not None
    return named and event.tool is None and event.upstream is None


def barred(
    switches: Iterable[Switch], principal: Principal, upstreams: Sequence[str], tool: str | None = None
) -> Switch | None:
    """The first that stops whatever the principal asks of any of these upstreams: by no tool, or as a part of a call of
    that one.
    """
    asked = ({"tenant": principal.tenant, "principal": principal.id, "upstream": name} for name in upstreams)
    calls = [{**one, "tool": tool} for one in asked]
    return next((one for one in switches if any(_fits(one.event, call) for call in calls)), None)


def said(switch: Switch) -> str:
    """Why a call is refused, for whoever made it."""
    by, event = switch.event.by.id, switch.event
    return f"`{by}` has stopped {what(event)} (switch {switch.number}): {event.reason}"


def noted(switch: Switch) -> list[Any]:
    """As a verdict records it."""
    return [switch.number, switch.at.isoformat(), switch.event.model_dump(mode="json")]


# --- who may ----------------------------------------------------------------------------------------------------------


def throw(wanted: SwitchThrown, by: Reviewer) -> SwitchThrown:
    """The switch, as this person may throw it.

    Raises: Refused.
    """
    if by.approval is not None or not _reaches(wanted, by):
        raise Refused("role", f"`{by.id}` may stop what is of the tenant `{by.tenant}`, and must name it")
    if not is_said(wanted.reason):
        raise Refused("reason", "say why it is stopped; it is kept for ever, and told to whoever is refused")
    return wanted


def lift(run: Run, number: int, by: Reviewer, reason: str) -> SwitchLifted:
    """The switch is lifted by this person.

    Raises: Refused.
    """
    switch = run.switches.get(number)
    if switch is None or by.approval is not None or not _reaches(switch.event, by):
        raise Refused("unknown", f"no switch {number} is thrown")
    if not is_said(reason):
        raise Refused("reason", "say why it may go on; somebody will ask in three weeks")
    return SwitchLifted(switch=number, by=by.who, via=by.via, reason=reason)


def names(event: SwitchThrown, by: Reviewer) -> bool:
    """Whether it is this very person whom it stops."""
    return event.principal == by.id and event.tenant in {None, by.tenant}


def seen(run: Run, by: Reviewer) -> tuple[Switch, ...]:
    """Those that this person may see: what concerns all, and what is of their tenants."""
    if by.approval is not None:
        return ()
    return tuple(one for one in thrown(run) if one.event.tenant is None or by.sees(one.event.tenant))


def _reaches(event: SwitchThrown, by: Reviewer) -> bool:
    """Whether all that it stops is this person's to stop."""
    return by.everywhere or (event.tenant is not None and event.tenant == by.tenant)
