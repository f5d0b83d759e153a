"""`counterfoil pin`: tools as they are now, written down by somebody who has seen what is another than it was."""

import json
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gateway.cli.differences import differences
from gateway.cli.ledgers import fail
from gateway.cli.looking import ConfigOption, look, servers
from gateway.cli.plain import counted, visible
from gateway.cli.suspicions import suspicions
from gateway.kernel.globs import names
from gateway.kernel.registry import pin as digest_of
from gateway.kernel.registry import pinned_part
from gateway.model.policy import Pin
from gateway.model.policy.ways import below
from gateway.model.tool import Tool
from gateway.outbound.file_models import did_you_mean
from gateway.outbound.pins import Unpinnable, read_pins, write_pins
from gateway.outbound.yaml_files import Problems
from gateway.settings import load_settings

if TYPE_CHECKING:
    from gateway.outbound.upstream.looking import Seen


@dataclass(frozen=True, slots=True)
class Repinned:
    """A tool that is not pinned as it is."""

    name: str
    before: Pin | None
    after: Pin | None
    """None where its server no longer offers it."""
    diff: Sequence[str]
    first: Sequence[str]
    """What to look at first."""


def pin(
    ctx: typer.Context,
    tools: Annotated[
        list[str] | None, typer.Argument(metavar="[TOOL…]", help="Names, or patterns with `*`; all where not said.")
    ] = None,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="The file of pins.")] = Path("pins.yaml"),
    config: ConfigOption = None,
    check: Annotated[bool, typer.Option("--check", help="Write nothing; end with 1 if anything differs.")] = False,
    files: Annotated[
        str | None,
        typer.Option(
            "--files", metavar="FOLDER", help="Print digests of files for a verifier's `pinned`: PATTERN… below FOLDER."
        ),
    ] = None,
    prune: Annotated[
        bool, typer.Option("--prune", help="Also take out tools that their servers no longer offer.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Pin tools as they are defined now: shows what is another than it was, asks, and writes the file of pins.

    With `--files` it pins files instead: a folder, or with `--config` a place of that name, as a check would see them.
    """
    if files is not None:
        _pin_files(files, tools or ["**"], config)
        return
    told = servers(ctx, config)
    if check and not out.exists():
        fail(f"there is no {visible(str(out))} to compare with; `--out` names another file", code=2)
    try:
        pins = read_pins(out)
    except (Problems, OSError) as error:
        fail(visible(str(error), keep="\n"), code=2)
    found = look(told, pins)
    lame = _tell_servers(found)
    wanted = _wanted(found, pins, tools or ["*"], lame=bool(lame))
    repinned = [*_repinned(wanted, found.tools, pins), *_gone(found, pins, tools or ["*"])]
    _show(repinned)
    todo = [one for one in repinned if one.after is not None or prune]
    if check:
        _checked(repinned, lame, out, len(wanted))
        return
    if todo:
        _ask(todo, out, yes=yes)
        _write(out, pins, todo)
    kept = sum(one.after is None for one in repinned) if not prune else 0
    if kept:
        _say(f"{counted(kept, 'pin')} kept of what is no longer offered; `--prune` takes them out")
    if not todo:
        _say(f"{counted(len(wanted), 'tool')} as pinned; {visible(str(out))} is left as it is")
    if lame:
        fail(f"{', '.join(lame)} could not be looked at; what is pinned of it stays")


def _pin_files(where: str, patterns: Sequence[str], config: Path | None) -> None:
    """Prints what a verifier's `pinned` says of the files as they are now."""
    from gateway.outbound.looks.faults import CannotLook  # noqa: PLC0415 - most who pin, pin tools
    from gateway.outbound.looks.folders import NOTHING, digests  # noqa: PLC0415
    from gateway.outbound.looks.places import FolderPlace  # noqa: PLC0415

    try:
        known = {} if config is None else load_settings(config, only=[("places", where)]).places
        place = FolderPlace(where, Path(where)) if config is None else known.get(where)
        if not isinstance(place, FolderPlace):
            fail(f"the configuration has no folder among its places that is named `{visible(where)}`", code=2)
        found = digests(place, [below(pattern) for pattern in patterns])
    except (CannotLook, OSError, ValueError) as error:
        fail(visible(str(error), keep="\n"), code=2)
    typer.echo("pinned:")
    for pattern, digest in found.items():
        typer.echo(f"  {json.dumps(pattern)}: {digest}")
    nothing = [f"`{visible(pattern)}`" for pattern, digest in found.items() if digest == NOTHING]
    if nothing:
        _say(f"WARNING: {', '.join(nothing)} named no file; what is pinned is that there is none")


def _tell_servers(found: "Seen") -> list[str]:
    lame = [name for name, one in found.health.items() if one["state"] != "healthy"]
    for name, one in found.health.items():
        reasons = [f" cannot be used: {one['reason']}"] if name in lame else []
        for reason in (*reasons, *(f": {trouble}" for trouble in one["troubles"])):
            _say(f"{name}{visible(reason)}")
    return lame


def _wanted(found: "Seen", pins: Mapping[str, Pin], patterns: Sequence[str], *, lame: bool) -> list[Tool]:
    """The tools that the patterns name; ends the command for one that names nothing."""
    offered = [tool.name for tool in found.tools]
    for pattern in patterns:
        if not lame and pattern != "*" and not any(names(pattern, name) for name in (*offered, *pins)):
            fail(f"`{visible(pattern)}` names no tool{visible(did_you_mean(pattern, offered))}", code=2)
    return [tool for tool in found.tools if any(names(pattern, tool.name) for pattern in patterns)]


def _repinned(wanted: Sequence[Tool], all_tools: Sequence[Tool], pins: Mapping[str, Pin]) -> Iterator[Repinned]:
    known = {name for tool in all_tools for name in (tool.name, tool.own_name)}
    for tool in wanted:
        before, after = pins.get(tool.name), Pin(digest=digest_of(tool.definition), definition=_part(tool))
        if before is None or before.digest != after.digest:
            yield _change(tool, before, after, known - {tool.name, tool.own_name})


def _part(tool: Tool) -> dict[str, object]:
    return pinned_part(tool.definition)


def _change(tool: Tool, before: Pin | None, after: Pin, others: Collection[str]) -> Repinned:
    was = before.definition if before is not None else {}
    first = [str(one) for one in suspicions(was, after.definition, others)]
    return Repinned(tool.name, before, after, differences(was, after.definition), first)


def _gone(found: "Seen", pins: Mapping[str, Pin], patterns: Sequence[str]) -> Iterator[Repinned]:
    """Pinned, and not offered by a server that could be asked."""
    offered = {tool.name for tool in found.tools}
    asked = {name for name, one in found.health.items() if one["state"] == "healthy"}
    for name, before in pins.items():
        named = any(names(pattern, name) for pattern in patterns)
        if named and name not in offered and found.owners.get(name) in asked:
            yield Repinned(name, before, None, (), ())


def _show(repinned: Sequence[Repinned]) -> None:
    for one in repinned:
        state = "no longer offered" if one.after is None else "not pinned yet" if one.before is None else "CHANGED"
        typer.echo("\n".join([f"{visible(one.name)}: {state}", *one.diff, ""]))
    first = [f"  ! {visible(one.name)}: {hint}" for one in repinned for hint in one.first]
    if first:
        typer.echo("\n".join(["look at this first (a hint, no check):", *first, ""]))


def _summary(repinned: Sequence[Repinned]) -> str:
    new = sum(one.before is None for one in repinned)
    gone = sum(one.after is None for one in repinned)
    kinds = ((new, "new"), (len(repinned) - new - gone, "changed"), (gone, "gone"))
    return ", ".join(f"{number} {kind}" for number, kind in kinds if number)


def _checked(repinned: Sequence[Repinned], lame: Sequence[str], out: Path, looked: int) -> None:
    wrong = [f"{visible(str(out))} is not what is there now: {_summary(repinned)}"] * bool(repinned)
    wrong += [f"{', '.join(lame)} could not be looked at"] * bool(lame)
    if wrong:
        fail("; ".join(wrong))
    _say(f"{counted(looked, 'tool')} as pinned in {visible(str(out))}")


def _ask(todo: Sequence[Repinned], out: Path, *, yes: bool) -> None:
    what = f"{_summary(todo)} in {visible(str(out))}"
    if yes:
        return
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        fail(f"would pin {what}; nothing is written without a terminal to ask at, or `--yes`")
    print(f"Pin {what}? [y/N] ", end="", flush=True)
    if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
        print()
        fail("nothing is written (`--yes` agrees beforehand)")


def _write(out: Path, pins: Mapping[str, Pin], todo: Sequence[Repinned]) -> None:
    gone = {one.name for one in todo if one.after is None}
    fresh = {one.name: one.after for one in todo if one.after is not None}
    try:
        write_pins(out, {name: one for name, one in {**pins, **fresh}.items() if name not in gone})
    except (Unpinnable, OSError) as error:
        reason = error if isinstance(error, Unpinnable) else (error.strerror or str(error)).lower()
        fail(f"{visible(str(out))} is left as it was: {reason}")
    _say(f"{visible(str(out))}: {_summary(todo)}; workflows name it in `include:`")


def _say(line: str) -> None:
    print(f"counterfoil: {line}", file=sys.stderr)
