"""`python -m gateway` is `counterfoil`."""

from gateway.cli import main

main()
