"""A trusted model is the same value as a validated one."""

import pytest

from gateway.model.events import Charge, Finding, OutcomeDelivered
from gateway.model.trusted import trusted


def test_a_trusted_model_is_equal_to_a_validated_one_in_everything() -> None:
    values = {"check": "budget", "passed": False, "inputs": {"a": 1}, "rule": "r", "reason": None}
    made, validated = trusted(Finding)(**values), Finding(**values)  # type: ignore[arg-type]  # a case, in short
    assert made == validated
    assert repr(made) == repr(validated)
    assert made.model_dump() == validated.model_dump()
    assert made.model_copy(update={"rule": "s"}) == validated.model_copy(update={"rule": "s"})
    assert made.model_fields_set == validated.model_fields_set


def test_the_kind_of_an_event_is_not_given() -> None:
    assert trusted(OutcomeDelivered)(attempt="run_1.2", told_bytes=None) == OutcomeDelivered(attempt="run_1.2")


def test_a_trusted_model_is_frozen() -> None:
    with pytest.raises(ValueError, match="frozen"):
        trusted(Charge)(calls=1, mutations=0, tokens=0, cost=0, reviews=0).calls = 2


def test_no_value_is_left_out() -> None:
    with pytest.raises(TypeError, match="is given 5 values, not 1"):
        trusted(Charge)(calls=1)
