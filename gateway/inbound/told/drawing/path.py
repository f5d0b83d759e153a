"""The way that a run took through its workflow, as far as a picture of it shows that."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gateway.inbound.told.drawing.workflow import ANYWHERE, Arrow
from gateway.model.events import PhaseMoved, RunOpened, RunStopped
from gateway.model.record import Record


@dataclass(frozen=True, slots=True)
class Path:
    """Where a run was, and what led it on."""

    phases: tuple[str, ...]
    """In order, the one where it began first."""
    moves: tuple[PhaseMoved, ...] = ()
    over: bool = False

    def says(self, phase: str) -> str:
        """In a few words, what the run did there; nothing where it never was."""
        times = self.phases.count(phase)
        if not times:
            return ""
        end = ("the run ended here" if self.over else "the run is here") if self.phases[-1] == phase else ""
        often = f"entered {times} times" if times > 1 else "" if end else "passed"
        return ", ".join(filter(None, (often, end)))

    def times(self, arrow: Arrow, among: Sequence[Arrow]) -> int:
        """How often the run went along this arrow. Which of two arrows between the same phases by one transition it
        was, no event says: then both are counted.
        """
        return sum(_fits(arrow, move) and _nearest(arrow, move, among) for move in self.moves)


def path_of(records: Iterable[Record]) -> Path:
    """The way of the run whose records these are."""
    phases, moves, over = list[str](), list[PhaseMoved](), False
    for record in records:
        match record.event:
            case RunOpened():
                phases.append(record.event.phase)
            case PhaseMoved():
                moves.append(record.event)
                phases.append(record.event.target)
            case RunStopped():
                over = True
            case _:
                pass
    return Path(tuple(phases), tuple(moves), over)


def _fits(arrow: Arrow, move: PhaseMoved) -> bool:
    named = any(rule.name == move.transition for rule in arrow.rules)
    return named and arrow.target == move.target and arrow.source in {move.source, ANYWHERE}


def _nearest(arrow: Arrow, move: PhaseMoved, among: Sequence[Arrow]) -> bool:
    """An arrow from any phase is meant only where none comes from this very one."""
    return arrow.source != ANYWHERE or not any(one.source == move.source and _fits(one, move) for one in among)
