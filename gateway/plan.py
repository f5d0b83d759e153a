"""What a gateway is to be made of: `gateway.yaml`, or a command's options, as values."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from random import SystemRandom

from gateway.inbound.console.paths import CONNECTIONS, ROOT
from gateway.inbound.mcp import IDLE_S
from gateway.model.limits import DEFAULT, Limits
from gateway.model.policy import Policy
from gateway.outbound.agent_entries import AgentSettings
from gateway.outbound.clock import SystemClock
from gateway.outbound.credentials import credential_of
from gateway.outbound.credentials.credential import Credential
from gateway.outbound.credentials.entries import Auth
from gateway.outbound.ids import id_maker
from gateway.outbound.looks import Place, misplaced
from gateway.outbound.notices import Channel, installed
from gateway.outbound.policy_files import load_policy, starter_policy
from gateway.outbound.unsaid import NOTHING, Unsaid
from gateway.outbound.upstream.spec import DEFAULT_PATIENCE, HttpSpec, Patience, Spec, StdioSpec
from gateway.outbound.watched import Watched
from gateway.ports import Clock
from gateway.reload import Source, default_of, first, load_from
from gateway.reviewing import Reviewing
from gateway.runtime.announce import LinkFor
from gateway.runtime.book import Options
from gateway.runtime.policies import Trouble, condition_trouble
from gateway.runtime.sealing import UNSIGNED, Sealing
from gateway.settings import (
    ClientPatience,
    DataSettings,
    HttpUpstream,
    Settings,
    TelemetrySettings,
    Timeouts,
    Upstream,
)

MAKE_ID = id_maker(SystemClock().now)


@dataclass(frozen=True, slots=True)
class Plan:
    """All that a gateway process is made of."""

    ledger: str = field(repr=False)
    """URL. It may hold a password."""
    upstreams: Sequence[Spec]
    policies: Mapping[str, Policy]
    """By workflow."""
    default: str
    """Workflow of a run that names none."""
    prefix: bool
    """Whether tools are named `server__tool`."""
    source: Source | None = None
    """What the policies are taken from anew when it changes; None where nothing can change."""
    file: Path | None = None
    """`gateway.yaml`; None where there is none."""
    sole: bool = False
    """Whether there is one client, over stdio."""
    session_idle_s: float = IDLE_S
    """After which a legacy session over HTTP has ended."""
    sealing: Sealing = UNSIGNED
    """How the ledger's checkpoints are made."""
    places: Mapping[str, Place] = field(default_factory=dict)
    """Where verifiers look, by name."""
    channels: Sequence[Channel] = ()
    """By which people are told that something waits for them."""
    link_for: LinkFor = lambda _reviewer, _asked: None
    """Where people answer; nothing where there is no console."""
    reviewing: Reviewing | None = None
    """None where nobody reviews over HTTP."""
    agents: AgentSettings = field(default_factory=AgentSettings)
    """How agents come in over HTTP."""
    limits: Limits = DEFAULT
    """How much is taken from agents and servers."""
    data: DataSettings = field(default_factory=DataSettings)
    """What is redacted, encrypted and erased."""
    options: Options = field(default_factory=lambda: Options(owner=MAKE_ID("gw")))
    clock: Clock = field(default_factory=SystemClock)
    telemetry: TelemetrySettings = field(default_factory=TelemetrySettings)
    unsaid: Unsaid = field(default=NOTHING, repr=False, compare=False)
    """What is in no log."""


def plan_of(settings: Settings) -> Plan:
    """What `gateway.yaml` describes.

    Raises: ValueError for policies that cannot be used, or none to choose, and for what is not installed.
    """
    source: Source | None = None
    if settings.policies is not None:
        if not settings.policies.exists():
            where = f"`policies:` in gateway.yaml names `{settings.policies}`, and there is nothing"
            raise ValueError(f"{where}; without that line the starter policy decides")
        check = Trouble(partial(misplaced, places=settings.places))
        policies, source = first(partial(load_from, settings.policies, settings.workflow, check))
    else:
        starter = starter_policy(condition_trouble)
        policies = {starter.workflow: starter}
    return Plan(
        ledger=settings.ledger,
        upstreams=specs_of(settings),
        policies=policies,
        default=default_of(settings.workflow, policies),
        source=source,
        file=settings.file,
        prefix=True,
        sealing=settings.sealing,
        options=replace(_options(settings.patience, settings.hold_s), limits=settings.at_once),
        session_idle_s=IDLE_S if settings.session_idle_s is None else settings.session_idle_s,
        places=settings.places,
        channels=installed(settings.channels),
        limits=settings.limits,
        telemetry=settings.telemetry,
        agents=settings.agents,
        data=settings.data,
        unsaid=settings.unsaid,
    )


def one_policy(path: Path, places: Mapping[str, Place] | None = None) -> tuple[Policy, Source | None]:
    """The policy of a file, and where it will come from; None for what is no file, such as a pipe.

    It is for a gateway that has these places; where they are not said, it is for no gateway.

    Raises: PolicyProblems.
    """
    check = condition_trouble if places is None else Trouble(partial(misplaced, places=places))
    if path.exists() and not path.is_file():
        return load_policy(path, check), None

    def load(watched: Watched) -> Mapping[str, Policy]:
        policy = load_policy(path, check, watched)
        return {policy.workflow: policy}

    policies, source = first(load)
    return next(iter(policies.values())), source


def specs_of(settings: Settings) -> list[Spec]:
    """The servers that `gateway.yaml` describes."""
    page = f"{settings.console.url or ''}{ROOT}{CONNECTIONS}"
    return [replace(_spec(upstream, settings.limits, page), unsaid=settings.unsaid) for upstream in settings.upstreams]


def _options(told: ClientPatience, hold_s: float | None) -> Options:
    options = Options(owner=MAKE_ID("gw"))
    default_s = options.patience_s if told.default_s is None else told.default_s
    hold_s = options.hold_s if hold_s is None else hold_s
    by_client = {**options.patience_by_client, **told.clients}
    return replace(options, patience_s=default_s, patience_by_client=by_client, hold_s=hold_s)


def _spec(upstream: Upstream, limits: Limits, page: str) -> Spec:
    patience, secrets = _patience(upstream.timeouts, limits), upstream.ask_secrets
    if isinstance(upstream, HttpUpstream):
        headers = {name: value.get_secret_value() for name, value in upstream.headers.items()}
        credential = None if upstream.auth is None else _credential(upstream.auth, upstream.name, page)
        return HttpSpec(upstream.name, upstream.url, headers, patience, upstream.transport, secrets, credential)
    env = {name: value.get_secret_value() for name, value in upstream.env.items()}
    cwd = str(upstream.cwd) if upstream.cwd is not None else None
    return StdioSpec(upstream.name, upstream.command, upstream.args, env, cwd, upstream.shown, patience, secrets)


def _credential(auth: Auth, name: str, page: str) -> Credential:
    return credential_of(auth, SystemClock().monotonic, SystemRandom().random, upstream=name, page=page)


def _patience(told: Timeouts, limits: Limits) -> Patience:
    usual = replace(DEFAULT_PATIENCE, answer_bytes=limits.answer_bytes, listed=limits.listed)
    start_s = usual.start_s if told.start_s is None else told.start_s
    connect_s = usual.connect_s if told.connect_s is None else told.connect_s
    return replace(usual, start_s=start_s, connect_s=connect_s)
