"""Mutation testing of the kernel: whether the tests notice when it is wrong."""
