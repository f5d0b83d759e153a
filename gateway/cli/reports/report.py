"""What `counterfoil check` found, as plain values that each format spells in its own way."""

from dataclasses import dataclass
from typing import Literal

from gateway.kernel.analysis import Severity
from gateway.outbound.policy_files import PolicyProblem


@dataclass(frozen=True, slots=True)
class Spot:
    """A place in a file; line and column from 1, in characters."""

    file: str
    line: int
    column: int
    path: str
    """Keys and places from the root of the policy, joined by dots; empty for the root itself."""


@dataclass(frozen=True, slots=True)
class Noted:
    """A finding of the analysis, in its place."""

    code: str
    severity: Severity
    message: str
    advice: str
    at: Spot
    related: tuple[Spot, ...] = ()


@dataclass(frozen=True, slots=True)
class Tried:
    """A case, and why it does not hold; None if it does."""

    name: str
    at: Spot
    why: str | None = None


@dataclass(frozen=True, slots=True)
class Checked:
    """A policy that loads."""

    workflow: str
    file: str
    findings: tuple[Noted, ...] = ()
    cases: tuple[Tried, ...] = ()


@dataclass(frozen=True, slots=True)
class Report:
    """All that was found in all files."""

    problems: tuple[PolicyProblem, ...] = ()
    """What is wrong with files; where there are any, nothing else was looked at."""
    policies: tuple[Checked, ...] = ()
    strict: bool = False
    """Warnings count as errors."""

    @property
    def findings(self) -> tuple[Noted, ...]:
        """Those of all policies."""
        return tuple(one for policy in self.policies for one in policy.findings)

    @property
    def cases(self) -> tuple[Tried, ...]:
        """Those of all policies."""
        return tuple(one for policy in self.policies for one in policy.cases)

    @property
    def failed(self) -> tuple[Tried, ...]:
        """The cases that do not hold."""
        return tuple(one for one in self.cases if one.why is not None)

    def count(self, severity: Severity) -> int:
        """How many findings weigh so much."""
        return sum(one.severity == severity for one in self.findings)

    def counts_as_error(self, finding: Noted) -> bool:
        """Whether the command fails because of it."""
        return finding.severity == "error" or (self.strict and finding.severity == "warning")

    @property
    def exit_code(self) -> Literal[0, 1, 2]:
        """0 if all is right, 1 if a case fails or a finding counts as an error, 2 if a file is wrong."""
        if self.problems:
            return 2
        return 1 if self.failed or any(map(self.counts_as_error, self.findings)) else 0
