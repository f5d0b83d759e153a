"""`python -m tests.fuzz door|policy|cel|console --seconds 60`: bytes that reach new code are kept and changed further.

With `atheris` (libFuzzer for Python; `pip install atheris`) the search is led by coverage. Without it bytes are only
changed at random, and that is said. A finding is written to `--found`, and ends the run with 1.
"""

import argparse
import importlib.util
import random
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

Target = Callable[[bytes], None]
MAX_BYTES = 4096


def main() -> int:
    """Fuzz one of them for so long."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("name", choices=["door", "policy", "cel", "console"])
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--corpus", type=Path, help="a folder of what reached new code, kept between runs")
    parser.add_argument("--found", type=Path, default=Path(tempfile.gettempdir()) / "counterfoil-fuzz")
    told = parser.parse_args()
    told.found.mkdir(parents=True, exist_ok=True)
    if importlib.util.find_spec("atheris") is not None:
        return _led_by_coverage(told)
    sys.stdout.write("atheris is not installed: bytes are changed at random, and coverage leads nobody\n")
    return _at_random(told)


def _led_by_coverage(told: argparse.Namespace) -> int:
    import atheris  # noqa: PLC0415

    with atheris.instrument_imports(include=["gateway"]):
        from tests.fuzz import targets  # noqa: PLC0415
    with targets.TARGETS[told.name]() as (target, seeds):
        corpus = told.corpus or Path(tempfile.mkdtemp())
        corpus.mkdir(parents=True, exist_ok=True)
        for number, seed in enumerate(seeds):
            (corpus / f"seed-{number}").write_bytes(seed)
        options = [f"-max_total_time={told.seconds}", f"-seed={told.seed}", f"-max_len={MAX_BYTES}", "-timeout=20"]
        more = ["-rss_limit_mb=2048", f"-artifact_prefix={told.found}/{told.name}-", "-print_final_stats=1"]
        atheris.Setup([sys.argv[0], *options, *more, str(corpus)], target)
        atheris.Fuzz()
    return 0  # libFuzzer ends the process itself


def _at_random(told: argparse.Namespace) -> int:
    from tests.fuzz import targets  # noqa: PLC0415

    draw, until, tried = random.Random(told.seed), time.monotonic() + told.seconds, 0  # noqa: S311 - not for secrets
    with targets.TARGETS[told.name]() as (target, seeds):
        while time.monotonic() < until:
            body = _changed(draw.choice(seeds), draw)
            tried += 1
            try:
                target(body)
            except BaseException:
                (told.found / f"{told.name}-{tried}").write_bytes(body)
                raise
    sys.stdout.write(f"{told.name}: {tried} tried, nothing found\n")
    return 0


def _changed(seed: bytes, draw: random.Random) -> bytes:
    body = bytearray(seed)
    for _ in range(draw.randint(1, 8)):
        at = draw.randint(0, len(body))
        match draw.randint(0, 3):
            case 0:
                body[at:at] = bytes([draw.randint(0, 255)])
            case 1:
                del body[at : at + draw.randint(1, 16)]
            case 2:
                body[at : at + 1] = draw.choice(
                    [b'"', b"{", b"[", b"\xff", b"\\u0000", b"1e400", b"\xe2\x80\x8b", b"\n"]
                )
            case _:
                other = draw.randint(0, len(body))
                body[at:at] = body[other : other + draw.randint(1, 64)]
    return bytes(body[:MAX_BYTES])


if __name__ == "__main__":
    sys.exit(main())
