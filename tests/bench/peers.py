"""What the gateway is measured beside, and where it comes from. All of it lies under `.tools/bench/`, which git
ignores; nothing is installed into the system, nothing runs as a service.

nginx       the system's own, or Debian's package unpacked
fastmcp     its proxy with one shared, connected client, in an environment of its own
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


def install() -> None:
    """What can be had is there; the first time this takes some seconds."""
    nginx()
    _environment()


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
    python = _environment() / "bin" / "python"
    if not python.exists():
        return None
    return [str(python), str(HERE / "fastmcp_proxy.py"), str(port), str(upstream)]


def py_spy() -> str | None:
    """The profiler, if there is one."""
    return shutil.which("py-spy") or shutil.which("py-spy", path=str(_environment() / "bin"))


def _environment() -> Path:
    folder = TOOLS / "fastmcp"
    if not (folder / "bin" / "fastmcp").exists():
        uv = str(Path(sys.executable).with_name("uv"))
        made = _ran([uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(folder)])
        if made:
            _ran([uv, "pip", "install", "--quiet", "--python", str(folder / "bin" / "python"), FASTMCP, PY_SPY])
    return folder


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
