"""A ledger in PostgreSQL, for gateways on many machines. Needs the extra `postgres`; `address` alone needs nothing."""
