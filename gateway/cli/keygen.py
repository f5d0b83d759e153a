"""`counterfoil keygen`: the key that signs a ledger's checkpoints, or the one that encrypts its payloads."""

import os
from pathlib import Path
from typing import Annotated

import typer

from gateway.cli.ledgers import fail
from gateway.outbound.payload_keys import key_id, new_payload_key, payload_key
from gateway.outbound.seal_keys import BadKey, new_key, seal_key


def keygen(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Where the private key is, or will be.")],
    public: Annotated[
        bool, typer.Option("--public", help="Make nothing: print the public key of the one that is there.")
    ] = False,
    data: Annotated[
        bool, typer.Option("--data", help="Make the key that encrypts payloads at rest instead, and print its name.")
    ] = False,
) -> None:
    """Make an Ed25519 key that signs the ledger, and print its public half, by which anybody can verify.

    `seal: {key: "${file:FILE}"}` in gateway.yaml uses it; `data: {encryption: {key: "${file:FILE}"}}` the one of
    `--data`. A file that is there is never overwritten.
    """
    if data and public:
        fail("the key of `--data` has no public half", 2)
    try:
        if data:
            _write(file, made := new_payload_key())
            typer.echo(key_id(payload_key(made)).hex())
            return
        if not public:
            _write(file, new_key())
        key = seal_key(file.read_text(encoding="utf-8"))
    except FileExistsError:
        there = f"`{file}` is there already, and is left as it is"
        fail(f"{there}; name another file" if data else f"{there}; `--public` prints its public key", 2)
    except OSError as error:
        fail(f"`{file}` cannot be used: {(error.strerror or 'it fails').lower()}", 2)
    except (BadKey, UnicodeDecodeError):
        fail(f"`{file}` holds no Ed25519 private key", 2)
    typer.echo(key.public.hex())


def _write(file: Path, text: str) -> None:
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "w", encoding="utf-8") as opened:  # noqa: PTH123 - of a descriptor
        opened.write(text)
        opened.flush()
        os.fsync(descriptor)
