"""`counterfoil`: the command. What a subcommand needs is imported when it runs; `mcp` alone costs a second."""


def main() -> None:
    """The entry point of the `counterfoil` command."""
    from gateway.cli.streams import complete_streams  # noqa: PLC0415 - the rooms below are also imported on their own

    complete_streams()
    from gateway.cli.commands import app  # noqa: PLC0415

    app()
