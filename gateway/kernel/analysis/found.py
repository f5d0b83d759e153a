"""What analysis may find in a policy: codes that stay, how much each weighs, and one finding."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from gateway.model.flaws import Place

Severity: TypeAlias = Literal["error", "warning", "note"]
"""`error`: the policy cannot do what it says; `warning`: a likely mistake; `note`: worth knowing."""

CODES: Mapping[str, tuple[Severity, str]] = {
    # how a run moves
    "phase-unreachable": ("warning", "no run ever comes to this phase"),
    "phase-trap": ("warning", "a run that comes to this phase can neither succeed nor end"),
    "phase-after-end": ("warning", "a transition is legal in a phase in which a run is over"),
    "edge-idle": ("warning", "nothing that may go wrong takes this failure edge"),
    "no-success": ("note", "the workflow has phases, and a run of it never succeeds"),
    "success-phase-unreachable": ("error", "no run ever comes to the phase of success"),
    "success-phase-ends": ("error", "the phase of success ends the run as something else"),
    "success-evidence-unasked": ("error", "success needs evidence for which nothing asks"),
    "success-evidence-stale": ("error", "what leads to the phase of success makes its evidence stale"),
    # what may happen
    "transition-unauthorized": ("error", "nobody is granted the authority that the transition needs"),
    "transition-forbidden": ("error", "every tool of the transition is forbidden"),
    "transition-shadowed": ("warning", "earlier transitions take every call that this one could"),
    "transition-without-tools": ("warning", "no tool that the transition names can have its effect"),
    "forbid-shadowed": ("warning", "earlier rules forbid all that this one does"),
    "grant-unneeded": ("note", "nothing needs this authority"),
    # conditions
    "condition-never": ("warning", "the condition never holds"),
    "condition-always": ("note", "the condition always holds"),
    "condition-unjudgeable": ("warning", "the condition can never be judged"),
    "condition-in-vain": ("warning", "a value is compared with one that it never has"),
    "evidence-unasked": ("warning", "a condition needs evidence that there never is"),
    "verifier-unused": ("warning", "nothing asks the verifier"),
    "verifier-always-passes": ("warning", "the verifier passes whatever it sees"),
    "probe-writes": ("warning", "a probe changes the world that it looks at"),
    # tools
    "tool-shadowed": ("warning", "earlier registry entries name every tool that this one does"),
    "tool-unnamed": ("warning", "no rule names a tool of this registry entry"),
    "tool-read-destroys": ("warning", "a tool that says that it destroys counts as a read"),
    "tool-destroys-twice": ("warning", "equal calls of a destructive tool may overlap"),
    "tool-repeats-blindly": ("note", "nothing tells whether a call of this tool happened"),
    "tool-unpinned": ("warning", "the tool is withheld, for it is not pinned and must be"),
    "compensation-unknown": ("note", "no rule and no registry entry names the tool that compensates"),
    # what is undone
    "compensation-idle": ("note", "nothing ever makes the compensation necessary"),
    "compensation-reads": ("error", "the tool that compensates only reads"),
    "compensation-illegal": ("error", "the tool that compensates is not legal where it would have to be"),
    "compensation-priceless": ("warning", "what it costs to undo a call cannot be told when it is made"),
    "merge-unproven": ("warning", "nothing can reject the merge"),
    "merge-not-undone": ("warning", "nothing undoes what the merge would take over"),
    # budgets and stops
    "budget-below-success": ("error", "the budget cannot pay for the cheapest way to success"),
    "budget-below-step": ("warning", "the budget cannot pay for one call of the transition"),
    "account-below-step": ("warning", "the account cannot pay for one call of the transition"),
    "account-idle": ("warning", "no call falls under the account"),
    "account-unread": ("note", "the account limits nothing, and no condition reads it"),
    "budget-soft": ("note", "the budget of tokens binds only afterwards"),
    "deadline-below-success": ("error", "the quickest way to success takes longer than a run has"),
    "takes-beyond-timeout": ("warning", "the call is given up before it can succeed"),
    "infeasible-idle": ("warning", "nothing is computed, for the policy has no success"),
    "deadline-idle": ("warning", "the run's time is used up before its deadline"),
    "repeated-state-late": ("note", "the budget is used up before a failure is repeated so often"),
    "final-denial-idle": ("warning", "the check never refuses"),
    # the rest
    "approval-of-own": ("note", "several people are asked, and the run's own principal may be one of them"),
    "observing": ("note", "what would be refused passes"),
    "value-unused": ("note", "no expression reads the value"),
    "no-cases": ("note", "the policy has no test of its own"),
    "rule-untested": ("note", "no case is decided by this rule"),
    "case-tool-unnamed": ("note", "no rule names the tool of the case"),
}
"""Each code, its severity, and what it means in half a sentence."""


@dataclass(frozen=True, slots=True)
class Found:
    """One thing about a policy that its author should know."""

    code: str
    place: Place
    """Where in the policy, as its file spells the keys."""
    message: str
    """What is wrong."""
    advice: str
    """What to do about it."""
    in_key: bool = False
    """It is the key at that place, not its value."""
    related: tuple[Place, ...] = ()
    """Other places that have to do with it."""

    @property
    def severity(self) -> Severity:
        """How much it weighs."""
        return CODES[self.code][0]


def listed(names: object, most: int = 5) -> str:
    """Names in back-ticks, the first few of them."""
    found = [f"`{name}`" for name in names] if isinstance(names, list | tuple) else []
    more = f" and {len(found) - most} more" if len(found) > most else ""
    return ", ".join(found[:most]) + more
