"""A provider whose tokens agents show."""

from collections.abc import Callable, Iterator

import pytest

from tests.agents.tokens import Issuer, issuer
from tests.console.provider import OpenId, stage


@pytest.fixture(scope="session")
def _stage() -> Iterator[Callable[[float], OpenId]]:
    with stage() as new:
        yield new


@pytest.fixture
def idp(_stage: Callable[[float], OpenId]) -> Issuer:
    """Each test has one of its own."""
    return issuer(_stage)
