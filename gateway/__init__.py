"""Counterfoil: the gateway that makes AI agents safe to run on real tools."""
