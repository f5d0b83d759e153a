"""Two backends for traces, each installed in a venv of its own, started on 127.0.0.1, and asked for a decision."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from socket import socket
from typing import Any
from urllib.error import URLError
from urllib.parse import quote
from urllib.request import Request, urlopen

HERE = Path(__file__).resolve().parent

INSTALL_S = 1_200
"""Each brings some 850 MB."""
START_S = 180
FIND_S = 60


@dataclass(frozen=True)
class Found:
    """A span as its backend tells it."""

    name: str
    attributes: Mapping[str, Any]


@dataclass
class Backend:
    """A backend that is up."""

    url: str
    project: str

    name = ""
    package = ""
    """As pip is asked for it: of these versions the queries below were seen to work."""

    @staticmethod
    def command(python: Path, port: int, data: Path) -> tuple[list[str], dict[str, str]]:
        """What starts it, and with which variables."""
        raise NotImplementedError

    @property
    def page(self) -> str:
        """Where a person looks."""
        return self.url

    def prepare(self) -> None:
        """There is a place for our traces."""

    def env(self) -> dict[str, str]:
        """What tells a gateway to send its spans here. Both take traces and nothing else."""
        return {
            "OTEL_EXPORTER_OTLP_ENDPOINT": self.url,
            "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
            "OTEL_METRICS_EXPORTER": "none",
            "OTEL_LOGS_EXPORTER": "none",
        }

    def query(self, outcome: str) -> str:
        """What is asked for decisions of that outcome, as a person would type it."""
        raise NotImplementedError

    def find(self, outcome: str) -> list[Found]:
        """The spans of decisions of that outcome."""
        raise NotImplementedError


class Phoenix(Backend):
    """Arize Phoenix, with SQLite."""

    name = "phoenix"
    package = "arize-phoenix==20.26.1"

    @staticmethod
    def command(python: Path, port: int, data: Path) -> tuple[list[str], dict[str, str]]:
        return [str(python), str(HERE / "phoenix_on_loopback.py")], {
            "PHOENIX_HOST": "127.0.0.1",
            "PHOENIX_PORT": str(port),
            "PHOENIX_GRPC_PORT": str(free_port()),
            "PHOENIX_WORKING_DIR": str(data),
            "PHOENIX_TELEMETRY_ENABLED": "false",
            "PHOENIX_ALLOW_EXTERNAL_RESOURCES": "false",
        }

    def env(self) -> dict[str, str]:
        return {**super().env(), "OTEL_RESOURCE_ATTRIBUTES": f"openinference.project.name={self.project}"}

    def query(self, outcome: str) -> str:
        return f"GET /v1/projects/{self.project}/spans?attribute=counterfoil.decision.outcome:{outcome}"

    def find(self, outcome: str) -> list[Found]:
        spans = asked(self.url + self.query(outcome).removeprefix("GET "))["data"]
        return [Found(span["name"], span["attributes"]) for span in spans]


class MLflow(Backend):
    """MLflow, with SQLite. It finds traces; the span is looked up in each."""

    name = "mlflow"
    package = "mlflow==3.17.2"
    _experiment = ""

    @staticmethod
    def command(python: Path, port: int, data: Path) -> tuple[list[str], dict[str, str]]:
        store = [
            "--backend-store-uri",
            f"sqlite:///{data}/mlflow.db",
            "--artifacts-destination",
            str(data / "artifacts"),
        ]
        bound = ["--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
        return [str(python), "-m", "mlflow", "server", *store, *bound], {
            "MLFLOW_DISABLE_TELEMETRY": "true",
            "DO_NOT_TRACK": "true",
        }

    @property
    def page(self) -> str:
        return f"{self.url}/#/experiments/{self._experiment}/traces"

    def prepare(self) -> None:
        made = asked(f"{self.url}/api/2.0/mlflow/experiments/create", {"name": self.project})
        self._experiment = made["experiment_id"]

    def env(self) -> dict[str, str]:
        return {**super().env(), "OTEL_EXPORTER_OTLP_HEADERS": f"x-mlflow-experiment-id={self._experiment}"}

    def query(self, outcome: str) -> str:
        return f"span.attributes.counterfoil.decision.outcome LIKE '%{outcome}%'"

    def find(self, outcome: str) -> list[Found]:
        where = [{"type": "MLFLOW_EXPERIMENT", "mlflow_experiment": {"experiment_id": self._experiment}}]
        asking = {"locations": where, "filter": self.query(outcome), "max_results": 10}
        traces = asked(f"{self.url}/api/3.0/mlflow/traces/search", asking).get("traces", [])
        spans = [span for trace in traces for span in self._spans(trace["trace_id"])]
        return [span for span in spans if span.attributes.get("counterfoil.decision.outcome") == outcome]

    def _spans(self, trace: str) -> list[Found]:
        told = asked(f"{self.url}/api/3.0/mlflow/traces/get?trace_id={quote(trace)}&allow_partial=true")
        return [
            Found(span["name"], {one["key"]: next(iter(one["value"].values())) for one in span["attributes"]})
            for span in told["trace"]["spans"]
        ]


BACKENDS: tuple[type[Backend], ...] = (Phoenix, MLflow)


def asked(url: str, body: Any = None) -> Any:
    """The JSON that is answered. Raises: URLError."""
    data = None if body is None else json.dumps(body).encode()
    with urlopen(Request(url, data, {"Content-Type": "application/json"}), timeout=10) as answer:
        return json.loads(answer.read())


def free_port() -> int:
    """A port of 127.0.0.1 where nobody listens."""
    with socket() as bound:
        bound.bind(("127.0.0.1", 0))
        port: int = bound.getsockname()[1]
        return port


def installed(kind: type[Backend], folder: Path) -> Path:
    """The Python of the venv in FOLDER that has this backend; made if there is none."""
    venv = folder / kind.name
    python, whole = venv / "bin" / "python", venv / "whole"
    if not whole.exists() or whole.read_text() != kind.package:
        print(f"{kind.name:<10} pip install {kind.package}, into {venv}; this takes a while", flush=True)
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(venv)], check=True)
        pip = [str(python), "-m", "pip", "install", "--quiet", kind.package]
        subprocess.run(pip, check=True, timeout=INSTALL_S)
        whole.write_text(kind.package)
    return python


@contextmanager
def up(kind: type[Backend], folder: Path) -> Iterator[Backend]:
    """The backend, with nothing in it, for as long as the block lasts."""
    python, port = installed(kind, folder), free_port()
    data = folder / f"{kind.name}-{port}"
    data.mkdir()
    command, more = kind.command(python, port, data)
    log = data / "log"
    streams: dict[str, Any] = {"stdout": log.open("w"), "stderr": subprocess.STDOUT, "start_new_session": True}
    with streams["stdout"], subprocess.Popen(command, env={**os.environ, **more}, **streams) as it:
        try:
            backend = kind(f"http://127.0.0.1:{port}", "counterfoil")
            _wait(backend.url, it, log)
            backend.prepare()
            print(f"{kind.name:<10} is up: {backend.page}", flush=True)
            yield backend
        finally:
            _end(it)


def _end(it: "subprocess.Popen[bytes]") -> None:
    """With all that it started, which is in its session."""
    for how in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(it.pid, how)
        with suppress(subprocess.TimeoutExpired):
            it.wait(15)


def _wait(url: str, it: "subprocess.Popen[bytes]", log: Path) -> None:
    until = time.monotonic() + START_S
    while time.monotonic() < until and it.poll() is None:
        try:
            urlopen(url, timeout=5).close()
        except (URLError, OSError):
            time.sleep(0.5)
        else:
            return
    sys.exit(f"it did not start within {START_S} s; see {log}")


def found(backend: Backend, outcome: str) -> Found:
    """The span of the decision, as soon as the backend has it; an exit with 1 where it never has."""
    until = time.monotonic() + FIND_S
    while time.monotonic() < until:
        if spans := backend.find(outcome):
            return spans[0]
        time.sleep(0.5)
    sys.exit(f"{backend.name} has no decision `{outcome}` after {FIND_S} s: {backend.query(outcome)}")
