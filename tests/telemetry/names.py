"""What is made of the registry of names: constants and tables. `poe names` writes them."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.telemetry.registry import FILE, Attribute, Group, Registry, registry

PAGE = Path(__file__).parents[2] / "docs" / "telemetry.md"
BEGIN, END = "<!-- names: written by `poe names` -->", "<!-- end of names -->"

MADE = "Made from `registry.yaml` by `poe names`: change that, not this."
OWN = "counterfoil."


def constants() -> dict[Path, str]:
    """Every file of constants, as it should be."""
    made = {"names.py": _names, "metrics.py": _metrics, "log_events.py": _events}
    return {FILE.with_name(name): _formatted("\n".join(of(registry()))) for name, of in made.items()}


def _formatted(code: str) -> str:
    ruff = Path(sys.executable).with_name("ruff")
    asked = [str(ruff), "format", "--stdin-filename", str(FILE.with_name("names.py")), "-"]
    return subprocess.run(asked, input=code, capture_output=True, check=True, text=True).stdout


def _names(found: Registry) -> Iterator[str]:
    yield f'"""Every name of telemetry. {MADE}"""\n'
    yield "from typing import Final, Literal, TypeAlias\n"
    yield "from gateway.model.telemetry.kinds import SpanType"
    yield "from gateway.model.telemetry.log_events import LOG_EVENTS as LOG_EVENTS"
    yield "from gateway.model.telemetry.metrics import Metrics as Metrics\n"
    yield f'SCOPE: Final = "{found.scope}"'
    yield f'SCHEMA_URL: Final = "{found.schema_url}"'
    yield 'OTHER: Final = "_OTHER"'
    yield '"""In the place of what a caller made up, so that no caller makes series."""\n\n'
    yield "class Attr:"
    yield '    """Keys of attributes; those without a prefix are our own."""\n'
    yield from (f'    {_constant(key)}: Final = "{key}"' for key in found.attributes)
    yield "\n\nclass Spans:"
    yield '    """Kinds of span."""\n'
    for span in found.spans.values():
        made = f'SpanType("{span.name}", "{span.said["kind"]}", "{span.said["name"]["pattern"]}")'
        yield f"    {_constant(span.name)}: Final = {made}"
    yield "\n"
    yield f"CONTENT: Final = frozenset({[key for key, one in found.attributes.items() if one.content]})".replace(
        "'", '"'
    )
    yield '"""What agents, people and upstreams wrote: sent only where somebody turned that on."""\n'
    yield f"METHODS: Final = frozenset({list(found.attributes['mcp.method.name'].members)})".replace("'", '"')
    yield '"""Methods that are told by their name; any other is `OTHER`."""\n'
    for attribute in found.attributes.values():
        if attribute.members and attribute.key.startswith(OWN) and not attribute.mirrors:
            yield f"{_alias(attribute)}: TypeAlias = Literal{list(attribute.members)}".replace("'", '"')


def _metrics(found: Registry) -> Iterator[str]:
    yield f'"""Every metric. {MADE}"""\n'
    yield "from typing import Final\n"
    yield "from gateway.model.telemetry.kinds import Metric\n"
    yield "\nclass Metrics:"
    yield '    """Instruments."""\n'
    for metric in found.metrics.values():
        said = metric.said
        parts = [metric.name, said["instrument"], said["unit"], metric.brief.removesuffix("."), tuple(metric.levels)]
        optional = [f"{name}={value!r}" for name, value in _optional(metric)]
        made = ", ".join([*(repr(part) for part in parts), *optional])
        yield f"    {_constant(metric.name)}: Final = Metric({made})"


def _optional(metric: Group) -> Iterator[tuple[str, object]]:
    if "buckets" in metric.notes:
        yield "buckets", tuple(float(bound) for bound in metric.notes["buckets"])
    if metric.notes.get("observable"):
        yield "observable", True


def _events(found: Registry) -> Iterator[str]:
    yield f'"""The log event of each kind of ledger event. {MADE}"""\n'
    yield "from collections.abc import Mapping"
    yield "from typing import Final\n"
    yield "from gateway.model.telemetry.kinds import LogEvent\n"
    yield "LOG_EVENTS: Final[Mapping[str, LogEvent]] = {"
    for event in found.events.values():
        parts = [event.name, event.notes["severity"]]
        cases = tuple((one["ref"], tuple(one["values"]), one["severity"]) for one in event.notes.get("severities", ()))
        made = ", ".join(repr(part) for part in [*parts, *([cases] if cases else [])])
        yield f'    "{event.notes["kind"]}": LogEvent({made}),'
    yield "}"


def _constant(name: str) -> str:
    return name.removeprefix(OWN).replace(".", "_").upper()


def _alias(attribute: Attribute) -> str:
    return "".join(word.capitalize() for word in re.split(r"[._]", attribute.key.removeprefix(OWN)))


def tables() -> str:
    """All names, for people."""
    found = registry()
    parts = [_spans(found), _metric_table(found), _event_table(found), _attribute_table(found)]
    return "\n\n".join("\n".join(part) for part in parts)


def _spans(found: Registry) -> Iterator[str]:
    yield "### Spans\n"
    for span in found.spans.values():
        yield f"#### `{span.name}`\n"
        yield f"{span.brief} Kind {span.said['kind'].upper()}, named `{span.said['name']['pattern']}`.\n"
        yield "| attribute | |\n|---|---|"
        yield from (f"| `{key}` | {level.replace('_', '-')} |" for key, level in span.levels.items())
        yield ""


def _metric_table(found: Registry) -> Iterator[str]:
    yield "### Metrics\n"
    yield "| metric | instrument | unit | | labels |\n|---|---|---|---|---|"
    for metric in found.metrics.values():
        said = metric.said
        labels = ", ".join(f"`{key}`" for key in metric.levels)
        yield f"| `{metric.name}` | {said['instrument']} | `{said['unit']}` | {metric.brief} | {labels} |"


def _event_table(found: Registry) -> Iterator[str]:
    yield "### Log events\n"
    yield "| event | of the ledger's | severity | |\n|---|---|---|---|"
    for event in found.events.values():
        notes = event.notes
        cases = [
            f"{one['severity'].upper()} where `{one['ref']}` is {' or '.join(f'`{value}`' for value in one['values'])}"
            for one in notes.get("severities", ())
        ]
        severity = ", ".join([notes["severity"].upper(), *cases])
        yield f"| `{event.name}` | `{notes['kind']}` | {severity} | {event.brief} |"


def _attribute_table(found: Registry) -> Iterator[str]:
    yield "### Attributes\n"
    yield "| attribute | type | label | |\n|---|---|---|---|"
    for one in found.attributes.values():
        told = one.brief + (" **Content: off unless turned on.**" if one.content else "")
        if one.members and one.key != "mcp.method.name":
            told += f" {'; '.join(_member(value, brief) for value, brief in one.members.items())}."
        yield f"| `{one.key}` | {one.type} | {'may be' if one.low else 'never'} | {told} |"


def _member(value: str, brief: str) -> str:
    return f"`{value}` ({brief[0].lower() + brief[1:]})" if brief else f"`{value}`"


def whole(page: str) -> str:
    """The page with the tables as they should be."""
    before, _, rest = page.partition(BEGIN)
    return f"{before}{BEGIN}\n\n{tables()}\n\n{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    for file, code in constants().items():
        file.write_text(code)
    if PAGE.exists():
        PAGE.write_text(whole(PAGE.read_text()))
