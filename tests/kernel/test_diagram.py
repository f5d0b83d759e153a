"""The diagrams on the architecture page are those of the tables."""

from pathlib import Path

from gateway.kernel.diagram import attempt_diagram, run_diagram

PAGE = Path(__file__).parents[2] / "gateway" / "ARCHITECTURE.md"


def test_the_architecture_page_shows_the_tables_as_they_are() -> None:
    page = PAGE.read_text()
    drawn = [block.partition("```")[0].strip() for block in page.split("```mermaid\n")[1:]]
    assert drawn == [run_diagram(), attempt_diagram()], "run `poe diagram`"
