"""Which policy judges which run: the one it began under, as long as its text is in the ledger."""

from collections.abc import Mapping

from gateway.kernel.conditions import BadCondition, compile_condition
from gateway.kernel.rules import Rules, compile_rules
from gateway.model.canonical import Digest, canonical, digest_bytes, parse
from gateway.model.policy import Policy
from gateway.ports import Ledger


class PolicyMissing(Exception):
    """A run cites a policy whose text is neither loaded nor in the ledger."""


def condition_trouble(expression: str, kind: str) -> tuple[str, int, int] | None:
    """What is wrong with a condition, and where in it (line and column from 1); None if it compiles."""
    try:
        compile_condition(expression, "verifier" if kind == "verifier" else "transition")
    except BadCondition as error:
        return error.message, error.line, error.column
    return None


class Policies:
    """The loaded policies, compiled, and those that earlier runs began under."""

    def __init__(self, ledger: Ledger, loaded: Mapping[str, Policy], default: str) -> None:
        self._ledger = ledger
        self.texts: dict[Digest, bytes] = {}
        self._rules: dict[Digest, Rules] = {}
        self._current = {workflow: self._add(policy) for workflow, policy in loaded.items()}
        self._default = default

    def current(self, workflow: str | None = None) -> Rules:
        """The policy that a new run of this workflow begins under; the default workflow for None.

        Raises: KeyError for a workflow that is not loaded.
        """
        return self._current[workflow or self._default]

    def loaded(self) -> list[Policy]:
        """The policies that new runs may begin under."""
        return [rules.policy for rules in self._current.values()]

    async def of(self, cited: Digest | None) -> Rules:
        """The policy with this digest.

        Raises: PolicyMissing.
        """
        if cited is None:
            return self.current()
        found = self._rules.get(cited)
        if found is not None:
            return found
        body = await self._ledger.payload(cited)
        if body is None:
            raise PolicyMissing(f"the policy `{cited}` is not loaded, and its text is not in the ledger")
        rules = compile_rules(Policy.model_validate(parse(body)), cited)
        return self._rules.setdefault(cited, rules)

    def successor(self, _cited: Digest) -> Rules | None:
        """The newer text of that policy, if it says that running runs go on under it."""
        return None

    def _add(self, policy: Policy) -> Rules:
        body = canonical(policy.model_dump(mode="json", by_alias=True))
        cited = digest_bytes(body, self._ledger.salt)
        self.texts[cited] = body
        return self._rules.setdefault(cited, compile_rules(policy, cited))
