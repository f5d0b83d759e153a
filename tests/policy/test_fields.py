"""The reference of the policy language says every field of it, as it is."""

from pydantic import BaseModel

from gateway.model import policy as language
from tests.policy.fields import PAGE, SECTIONS, written


def test_the_tables_of_the_reference_are_current() -> None:
    """If not: `python -m tests.policy.fields`."""
    assert written(PAGE.read_text()) == PAGE.read_text()


def test_every_part_of_a_policy_has_its_table() -> None:
    parts = {one for one in vars(language).values() if isinstance(one, type) and issubclass(one, BaseModel)}
    assert parts == set(SECTIONS.values())


def test_every_field_says_what_it_is() -> None:
    silent = {
        f"{heading}.{name}"
        for heading, model in SECTIONS.items()
        for name, field in model.model_fields.items()
        if not field.description
    }
    assert silent <= SELF_EVIDENT


SELF_EVIDENT = {
    "A workflow.description", "A workflow.verifiers", "A workflow.budgets", "A workflow.stops",
    "approval.reason", "budgets.calls", "budgets.cost", "call.arguments", "call.tool", "cases.call", "cases.expect",
    "cases.given", "cases.name", "compensation.arguments", "given.phase", "given.principal", "given.roles",
    "given.scopes", "given.tenant", "given.tool", "given.tool.input_schema", "grants.principal", "grants.tenant",
    "idempotency.query.timeout_s", "limit.calls", "limit.cost", "rate.calls", "rate.per", "success.phase",
    "stops.repeated_state.after", "verifiers.timeout_s",
}  # fmt: skip
"""Fields whose name says all, in the place where they stand."""
