"""What each person decided, and how long it took."""

from collections.abc import Iterator

from gateway.cli.postmortems.case import Case, at
from gateway.inbound.told.asked import Asked
from gateway.inbound.told.markdown import cell, table
from gateway.inbound.told.words import spell


def decisions(case: Case) -> Iterator[str]:
    """A row for each answer, and for each question that has none."""
    if not case.asked:
        yield "No person was asked anything, and none did anything."
        return
    heads = ("asked (UTC)", "step", "about", "who", "decided", "after", "said")
    yield from table(heads, (row for one in case.asked for row in _rows(case, one)))


def _rows(case: Case, one: Asked) -> Iterator[tuple[str, ...]]:
    name = one.name.replace(f"{case.story.run.id}.", "step ")
    about = cell(f"{one.about} ({name})" if one.about else name)
    if not one.said:
        waits = "waits" if any(name == one.name for name, _ in case.waits) else "no answer"
        yield at(one.at), str(one.step), about, "nobody", waits, "-", cell(one.why)
    for said in one.said:
        looked = "" if said.looked_s is None else f", looked at for {spell(said.looked_s)}"
        yield (
            at(one.at),
            str(one.step),
            about,
            cell(said.who) if said.who else "nobody",
            cell(said.word),
            f"{spell(said.took_s)}{looked}",
            cell(said.reason),
        )
