"""The proof that nothing is lost and nothing is done twice.

`history` is what happened, as anybody outside could have written it down; `invariants` says what is wrong with one.
`outside` is the world beyond the gateway, `mortal` a gateway process that can die at any passage through a port.
`test_every_crash` dies at each passage once, `worlds` at random by a seed, `test_really` by SIGKILL; `mutants` are
gateways that are wrong on purpose, and every one of them is caught.
"""
