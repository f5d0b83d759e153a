"""gateway.yaml -> Settings, or every mistake in it with its place. Nothing half-understood is ever started.

Secrets come in by reference (`outbound/references`), are put in only when all else is right, and are
never shown: not in messages, which speak of the file as it is written, and not in a `repr`.
"""

import os
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, SecretStr

from gateway.model.flaws import Place, texts
from gateway.model.limits import DEFAULT, Limits
from gateway.model.policy import NAME_PATTERN, Name
from gateway.outbound import agent_entries
from gateway.outbound.addresses import is_local
from gateway.outbound.console_entries import EXPANDED as CONSOLE_EXPANDED
from gateway.outbound.console_entries import ConsoleEntry, console_problems, unfit_console
from gateway.outbound.console_entries import ConsoleSettings as ConsoleSettings
from gateway.outbound.credentials.entries import EXPANDED as AUTH_EXPANDED
from gateway.outbound.credentials.entries import auth_problems, unfit_auth
from gateway.outbound.data_entries import EXPANDED as DATA_EXPANDED
from gateway.outbound.data_entries import PATTERNS as DATA_PATTERNS
from gateway.outbound.data_entries import DataEntry, data_problems, unfit_data
from gateway.outbound.data_entries import DataSettings as DataSettings
from gateway.outbound.described import HttpUpstream as HttpUpstream
from gateway.outbound.described import StdioUpstream as StdioUpstream
from gateway.outbound.described import Timeouts as Timeouts
from gateway.outbound.described import Upstream as Upstream
from gateway.outbound.file_models import FilePart, read_as
from gateway.outbound.fitting import MEMORY, SQLITE, unfit
from gateway.outbound.head_file import HeadFile
from gateway.outbound.ledger.default import default_ledger_path as default_ledger_path
from gateway.outbound.ledger.default import default_ledger_url as default_ledger_url
from gateway.outbound.ledger.postgres.address import is_postgres
from gateway.outbound.limit_entries import DENIED, LimitsEntry
from gateway.outbound.literal_secrets import literal_secrets
from gateway.outbound.looks.places import Place as LookPlace
from gateway.outbound.notices import entries as notices
from gateway.outbound.place_entries import EXPANDED, PlaceEntry, place_problems, unfit_place
from gateway.outbound.references import BadReference, expand, files_of, stood_for
from gateway.outbound.seal_keys import seal_key, signed_by
from gateway.outbound.server_entries import (
    ADDRESSES,
    McpServerEntry,
    UpstreamEntry,
    entry_problems,
    in_use,
)
from gateway.outbound.telemetry_entry import KEY_PATTERN, TelemetryEntry
from gateway.outbound.telemetry_entry import TelemetrySettings as TelemetrySettings
from gateway.outbound.unreplaced import unreplaced
from gateway.outbound.unsaid import NOTHING, Unsaid
from gateway.outbound.yaml_files import Document, Problem, Problems, read
from gateway.runtime.lanes import Limits as AtOnce
from gateway.runtime.sealing import EVERY_S, UNSIGNED, Sealing

DEFAULT_PORT = 8321


class SettingsProblems(Problems):
    """A configuration that cannot be used. `problems` has each; the text is one line for each."""


# --- what the rest of the house gets --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Listen:
    """Where agents come in. Only loopback, unless `agents` says by which name others reach us."""

    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT


@dataclass(frozen=True, slots=True)
class ClientPatience:
    """How long a client is kept waiting for a call before it is told `in_flight`, in seconds."""

    default_s: float | None = None
    """None: the built-in one."""
    clients: Mapping[str, float] = field(default_factory=dict)
    """By the name with which a client introduces itself; beside those that are built in."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What `counterfoil serve` is told."""

    listen: Listen
    ledger: str = field(repr=False)
    """URL; a file's path in it is absolute. It may hold a password."""
    policies: Path | None
    """A folder; None for the starter policy alone."""
    workflow: str | None
    """Of a run that names none; None where there is only one to choose from."""
    run_token_key: SecretStr | None
    """Signs run tokens; None where the configuration does not say."""
    patience: ClientPatience
    session_idle_s: float | None
    """After which the session of a client of the older era has ended, with its connections; None: as is usual."""
    upstreams: tuple[Upstream, ...]
    sealing: Sealing = UNSIGNED
    """How the ledger's checkpoints are made."""
    places: Mapping[str, LookPlace] = field(default_factory=dict)
    """Where verifiers look, by name."""
    channels: tuple[notices.Channel, ...] = ()
    """By which people are told that something waits for them."""
    console: ConsoleSettings = field(default_factory=ConsoleSettings)
    """How reviewers come in."""
    hold_s: float | None = None
    """How long a call that waits for a person is kept with its client; None: as is usual."""
    telemetry: TelemetrySettings = field(default_factory=TelemetrySettings)
    """How much of what comes in is believed, and how much of it goes out."""
    agents: agent_entries.AgentSettings = field(default_factory=agent_entries.AgentSettings)
    """How agents come in over HTTP."""
    data: DataSettings = field(default_factory=DataSettings)
    """What is redacted, encrypted and erased."""
    limits: Limits = DEFAULT
    """How much is taken from agents and servers."""
    at_once: AtOnce = field(default_factory=lambda: AtOnce(denied=DENIED))
    """How many calls are under way."""
    file: Path | None = field(default=None, compare=False)
    """Where all of this is said."""
    secrets: tuple[Path, ...] = ()
    """Files that are referred to."""
    unsaid: Unsaid = field(default=NOTHING, repr=False, compare=False)
    """What references stand for, which is in no log."""
    warnings: tuple[Problem, ...] = ()
    """What is better written in another way."""


TO_REVIEW: tuple[Place, ...] = (
    *(("listen",), ("run_tokens",), ("agents", "url")),
    *(("console", key) for key in ("enabled", "url", "local_roles")),
)
"""What there is to say of where reviewers come in, and by which key."""


def load_settings(
    path: Path, environ: Mapping[str, str] = os.environ, *, only: Collection[Place] | None = None
) -> Settings:
    """The settings in the file. Relative paths in it start from its folder.

    With `only` the settings are what stands at these places, and as if nothing else were said: so a command needs no
    secret that it does not use. The whole file must be well-formed all the same.

    Raises: SettingsProblems, with all that is wrong with the file.
    """
    try:
        document = read(path)
    except Problems as error:
        raise SettingsProblems(list(error.problems)) from None
    said, problems = read_as(document, _File, _PATTERNS)
    problems += document.problems
    if isinstance(document.value, Mapping):
        problems += [one for find in _PROBLEMS for one in find(document)]
    if only is not None and not problems:
        document = replace(document, value=_part_of(document.value, only))
        said, _ = read_as(document, _File, _PATTERNS)
    reading = _Reading(document, environ, path.absolute())
    problems += reading.problems
    if said is None or problems:
        raise SettingsProblems(problems)
    return reading.settings(said)


def _part_of(value: Any, only: Collection[Place]) -> Any:
    """What of the value stands at these places."""
    if () in only or not isinstance(value, Mapping):
        return value
    inside = {key: [place[1:] for place in only if place[:1] == (key,)] for key in value}
    return {key: _part_of(value[key], places) for key, places in inside.items() if places}


# --- the file -------------------------------------------------------------------------------------------------------


class _Listen(FilePart):
    host: str = "127.0.0.1"
    port: int = Field(default=DEFAULT_PORT, ge=0, le=65_535)


class _Patience(FilePart):
    default_s: float | None = Field(default=None, gt=0, le=86_400)
    clients: dict[str, Annotated[float, Field(gt=0, le=86_400)]] = Field(default={})


class _Approvals(FilePart):
    hold_s: float | None = Field(default=None, ge=0, le=600)


class _Sessions(FilePart):
    idle_s: float | None = Field(default=None, gt=0, le=86_400)


class _RunTokens(FilePart):
    key: str


class _Seal(FilePart):
    key: str | None = None
    head: str | None = None
    every_s: float | None = Field(default=None, ge=1, le=86_400)


class _File(FilePart):
    listen: _Listen = _Listen()
    ledger: str | None = None
    policies: str | None = None
    workflow: Name | None = None
    run_tokens: _RunTokens | None = None
    seal: _Seal | None = None
    patience: _Patience = _Patience()
    approvals: _Approvals = _Approvals()
    sessions: _Sessions = _Sessions()
    limits: LimitsEntry = LimitsEntry()
    upstreams: dict[str, UpstreamEntry] = Field(default={})
    mcp_servers: dict[str, McpServerEntry] = Field(default={}, alias="mcpServers")
    places: dict[str, PlaceEntry] = Field(default={})
    notify: tuple[notices.NotifyEntry, ...] = ()
    console: ConsoleEntry = ConsoleEntry()
    telemetry: TelemetryEntry = TelemetryEntry()
    agents: agent_entries.AgentsEntry = agent_entries.AgentsEntry()
    data: DataEntry = DataEntry()


_PATTERNS = {
    NAME_PATTERN: "a workflow's name",
    KEY_PATTERN: "a key of baggage",
    **notices.PATTERNS,
    **agent_entries.PATTERNS,
    **DATA_PATTERNS,
}

_PROBLEMS = (
    entry_problems,
    auth_problems,
    place_problems,
    console_problems,
    notices.notify_problems,
    agent_entries.agent_problems,
    data_problems,
)
"""What each section finds wrong with itself beyond the shape of its parts."""

_EXPANDED: tuple[Place, ...] = (
    *(("ledger",), ("policies",), ("run_tokens", "key"), ("seal", "key"), ("seal", "head")),
    *(*EXPANDED, *CONSOLE_EXPANDED, *notices.EXPANDED, *agent_entries.EXPANDED, *DATA_EXPANDED),
)
_EXPANDED_IN_ENTRY: tuple[Place, ...] = (
    ("command",),
    ("args", "*"),
    ("env", "*"),
    ("cwd",),
    *((address,) for address in ADDRESSES),
    ("headers", "*"),
    *(("auth", key) for key in AUTH_EXPANDED),
)
"""Where references are replaced: in values, never in keys, and nowhere else."""


class _Reading:
    """One file, its texts with their references replaced, and what is wrong beyond the shape of its parts."""

    def __init__(self, document: Document, environ: Mapping[str, str], file: Path) -> None:
        self._document = document
        self._environ = environ
        self._file = file
        self._folder = file.parent
        self._texts: dict[Place, str] = {}
        self._written: list[tuple[Place, str]] = []
        self.problems: list[Problem] = []
        if isinstance(document.value, Mapping):
            self._expand()
            self.problems += unreplaced(document, {place for place, _ in self._written})
            self.problems += self._wrong()

    def _expand(self) -> None:
        entries = [(*place, *step) for place, _ in in_use(self._document) for step in _EXPANDED_IN_ENTRY]
        found = [one for pattern in [*_EXPANDED, *entries] for one in texts(self._document.value, pattern)]
        self._written = found
        for place, text in found:
            try:
                self._texts[place] = expand(text, self._environ, self._folder, commands=True)
            except BadReference as error:
                at = _position(text, error.offset)
                self.problems.append(self._document.problem(place, error.message, within=at))

    def _wrong(self) -> Iterator[Problem]:
        """What is wrong with values; messages show none of them, for they may be secrets."""
        known = any(True for _ in texts(self._document.value, ("agents", "url")))
        for place, host in texts(self._document.value, ("listen", "host")):
            if not is_local(host) and not known:
                yield self._document.problem(place, NOT_LOOPBACK.format(host[:64]))
        for place, text in self._texts.items():
            message = unfit(place, text) or unfit_place(place, text, self._folder)
            message = message or unfit_console(place, text) or notices.unfit_notify(place, text)
            message = message or agent_entries.unfit_agents(place, text, self._folder) or unfit_data(place, text)
            message = message or unfit_auth(place, text)
            if message is not None:
                yield self._document.problem(place, message)

    def settings(self, said: _File) -> Settings:
        """The settings, where there are no problems."""
        return Settings(
            listen=Listen(said.listen.host, said.listen.port),
            ledger=self._ledger(said.ledger),
            policies=None if said.policies is None else self._folder / self._texts["policies",],
            workflow=said.workflow,
            run_token_key=SecretStr(self._texts["run_tokens", "key"]) if said.run_tokens else None,
            patience=ClientPatience(said.patience.default_s, said.patience.clients),
            session_idle_s=said.sessions.idle_s,
            upstreams=tuple(self._upstreams(said)),
            sealing=self._sealing(said.seal) if said.seal is not None else UNSIGNED,
            places={name: self._place(name, entry) for name, entry in said.places.items()},
            channels=tuple(self._channel(at, entry) for at, entry in enumerate(said.notify)),
            console=self._console(said),
            hold_s=said.approvals.hold_s,
            telemetry=said.telemetry.settings(),
            agents=self._agents(said),
            data=said.data.settings(lambda *keys: self._texts["data", *keys]),
            limits=said.limits.limits(),
            at_once=AtOnce(**said.limits.at_once()),
            unsaid=Unsaid(one for place, text in self._written for one in stood_for(text, self._texts[place])),
            file=self._file,
            secrets=tuple(self._folder / name for _, text in self._written for name in files_of(text)),
            warnings=tuple(literal_secrets(self._document, self._written)),
        )

    def _console(self, said: _File) -> ConsoleSettings:
        """From elsewhere it is found by the name by which agents find us, where it has none of its own."""
        told = said.console.settings(lambda *keys: self._texts["console", *keys])
        if told.url is not None or said.agents.url is None or is_local(said.listen.host):
            return told
        return replace(told, url=self._texts["agents", "url"].rstrip("/"))

    def _agents(self, said: _File) -> agent_entries.AgentSettings:
        def text(*keys: str) -> str:
            return self._texts["agents", *keys]

        return said.agents.settings(text, self._folder, local=is_local(said.listen.host))

    def _place(self, name: str, entry: PlaceEntry) -> LookPlace:
        return entry.place(name, lambda *keys: self._texts["places", name, *keys], self._folder)

    def _channel(self, at: int, entry: notices.NotifyEntry) -> notices.Channel:
        return entry.channel(lambda key: self._texts["notify", at, key])

    def _sealing(self, said: _Seal) -> Sealing:
        return Sealing(
            key=None if said.key is None else seal_key(self._texts["seal", "key"]),
            signed=signed_by,
            head=None if said.head is None else HeadFile(self._folder / self._texts["seal", "head"]),
            every_s=EVERY_S if said.every_s is None else said.every_s,
        )

    def _ledger(self, said: str | None) -> str:
        text = self._texts.get(("ledger",), "")
        if said is None or text == MEMORY or is_postgres(text):
            return text or default_ledger_url(self._environ)
        return f"{SQLITE}{self._folder / text.removeprefix(SQLITE)}"

    def _upstreams(self, said: _File) -> Iterator[Upstream]:
        for section, entries in (("upstreams", said.upstreams), ("mcpServers", said.mcp_servers)):
            for name, entry in entries.items():
                if entry.off:
                    continue
                address = entry.address
                shown = "" if address is None else self._document.value[section][name][address]
                yield entry.upstream(name, shown, self._text((section, name)), self._folder)

    def _text(self, place: Place) -> Callable[..., str]:
        return lambda *keys: self._texts[*place, *keys]


NOT_LOOPBACK = (
    "`{}` is not a loopback address: only this machine may come in (127.0.0.1), unless gateway.yaml says by which name "
    "others reach the gateway (`agents: {{url: …}}`), who then must show who they are"
)


def _position(text: str, offset: int) -> tuple[int, int]:
    return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)
