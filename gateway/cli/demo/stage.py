"""How the demo looks on a terminal: narration, what was asked, what was answered, what is true."""

import time

from rich.console import Console
from rich.status import Status
from rich.text import Text

from gateway.cli.demo.world import Told
from gateway.cli.plain import visible
from gateway.model.answer import Refusal
from gateway.model.events import Outcome

WIDTH = 80
"""Lines longer than this are no pleasure to read."""

_INDENT = 14
"""Where what is said begins, behind its label."""

_ALARMING = frozenset({Outcome.TIMEOUT_UNKNOWN, Outcome.VERIFICATION_FAILED})


class Broken(Exception):
    """Something that the demo claims is not so."""


class Stage:
    """Prints, and counts the claims that were checked."""

    def __init__(self, console: Console, pace_s: float) -> None:
        self.console = console
        self.console.width = min(console.width, WIDTH)
        self.proven = 0
        self._pace_s = pace_s

    def opens(self, title: str, *lines: str) -> None:
        """The title, and what is about to be seen."""
        self.console.print()
        self.console.rule(Text(title, "bold"), style="dim", align="left")
        for line in lines:
            self.console.print(Text(f" {line}"))

    def act(self, number: int, title: str, story: str) -> None:
        """A new act begins."""
        self._pause(3)
        self.console.print()
        self.console.print(Text(f" {number}  {title}", "bold"))
        self.console.print(Text(f"    {story}", "dim"))

    def asks(self, call: str, who: str = "agent") -> None:
        """Somebody asks for something."""
        self._row(who, Text(call, "cyan"))

    def passed(self, told: Told, more: str = "") -> None:
        """The tool itself answered."""
        record = told.record
        left = record["budget"]["left"]["calls"]
        line = Text("passed", "bold green").append(
            f"  phase {record['phase']}, calls left: {left:g}{more}", "not bold dim"
        )
        self._row("gateway", line)

    def refused(self, refusal: Refusal, *, advice: bool = False) -> None:
        """The gateway answered in the tool's place."""
        style = "bold magenta" if refusal.terminal else "bold red" if refusal.outcome in _ALARMING else "bold yellow"
        executed = f"  executed: {str(refusal.executed).lower()}" + (", terminal: true" if refusal.terminal else "")
        self._row("gateway", Text(refusal.outcome, style).append(executed, "not bold dim"))
        self._row("", Text(visible(refusal.reason)))
        if advice:
            self._row("", Text(f"next: {visible(refusal.next)}", "dim"))
        self._pause(1)

    def note(self, label: str, text: str) -> None:
        """Something else that belongs here."""
        self._row(label, Text(visible(text)))

    def so(self, text: str, *, holds: bool, label: str = "in git") -> None:
        """What is true outside, which the demo has just looked up.

        Raises: Broken if it is not.
        """
        if not holds:
            raise Broken(text)
        self.proven += 1
        self._row(label, Text(visible(text)).append("  ✓", "green"))
        self._pause(1)

    def checks(self, claim: str, *, holds: bool) -> None:
        """As `so`, but not worth a line.

        Raises: Broken.
        """
        if not holds:
            raise Broken(claim)
        self.proven += 1

    def waits(self, what: str) -> Status:
        """While entered, a terminal shows what we wait for."""
        return self.console.status(Text(f" {what} …", "dim"), spinner="dots")

    def _row(self, label: str, what: Text) -> None:
        lines = what.wrap(self.console, self.console.width - _INDENT)
        for first, line in zip([label, *[""] * len(lines)], lines, strict=False):
            line.rstrip()
            self.console.print(Text("    ").append(f"{first:<10}", "dim").append_text(line))

    def _pause(self, beats: int) -> None:
        # Blocks the loop, and may: an agent that thinks is all that waits here.
        time.sleep(beats * self._pace_s)
