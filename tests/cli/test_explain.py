"""Why a call is allowed or not, as a person and as a script are told it."""

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from gateway.cli.commands import app

POLICY = """
workflow: shop
grants:
  - {roles: [clerk], authority: [pay]}
tools:
  pay: {effect: write, cost: 1}
phases: {cart: {}, paid: {}}
transitions:
  - {name: look, tools: ["*"], effect: [read]}
  - {name: small, tools: [pay], from: [cart], when: [args.amount <= values.limit], authority: [pay], to: paid}
  - name: large
    tools: [pay]
    from: [cart]
    when: ['evidence.stock.verdict == "pass"', evidence.stock.fresh]
    authority: [pay]
    preconditions: [stock]
    approval: {reason: much money}
forbid:
  - {name: no-debt, tools: [pay], when: [args.amount < 0], reason: nobody is paid by a customer}
verifiers:
  stock: {probe: {tool: count}, pass: [result.structuredContent.n > 0]}
values: {limit: 100}
accounts:
  daily: {per: [tenant], limit: {calls: 50}}
budgets: {calls: 10}
cases:
  - name: a small one is paid
    given: {roles: [clerk]}
    call: {tool: pay, arguments: {amount: 5}}
    expect: {outcome: allowed, rule: small}
  - name: it is believed that nobody may pay
    given: {roles: [clerk]}
    call: {tool: pay, arguments: {amount: 5}}
    expect: {outcome: denied}
"""
CLERK = ("--role", "clerk")


@pytest.fixture
def policy(tmp_path: Path) -> str:
    path = tmp_path / "shop.yaml"
    path.write_text(POLICY.replace("evidence.stock.fresh]", "evidence.stock.fresh == true]"))
    return str(path)


def told(*arguments: str, code: int, columns: int = 80) -> str:
    """What `counterfoil explain` prints."""
    done = CliRunner(env={"COLUMNS": str(columns)}).invoke(app, ["explain", *arguments])
    assert done.exit_code == code, done.output
    return done.stdout


def document(*arguments: str, code: int) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(told(*arguments, "--json", code=code))
    return found


def ended(found: dict[str, Any]) -> dict[str, str]:
    return {line["check"]: line["result"] for line in found["checks"]}


def looked(found: dict[str, Any], check: str) -> dict[str, Any]:
    line = next(line for line in found["checks"] if line["check"] == check)
    return {f"{look['kind']} {look['name']}": look for look in line["looked"]}


def undated(out: str) -> str:
    """What was printed, whatever digest the policy has."""
    return re.sub(r"c1:[0-9a-f]{12}", "c1:", out)


# --- by a policy ----------------------------------------------------------------------------------------------------


def test_a_denied_call_is_told_check_by_check_with_the_values_it_saw(policy: str) -> None:
    out = told(policy, "--tool", "pay", "--args", '{"amount": 250}', *CLERK, code=3)
    assert undated(out) == undated(SHOWN)


SHOWN = """\
an imagined run, 2027-01-15 08:00:00 UTC
  asks    local:user of tenant local, roles clerk
  call    pay {"amount": 250}
  effect  write
  stands  phase cart; spent: 0 calls, 0 mutations
  policy  shop c1:cf9ba33fd882, enforce

✓ key
  · key: none sent by the client
✓ run
  · age: 0 s
✓ tool
  · effect: write, as the policy says
  ✗ transition look: only for `read`
  ✓ transition small: names this tool
  ✓ transition large: names this tool
✓ schema
✓ phase
  ✓ transition small: from `cart`
  ✓ transition large: from `cart`
✓ authority
  ✓ transition small: needs `pay`
  ✓ transition large: needs `pay`
✗ conditions refused by `large`: the condition `evidence.stock.verdict ==
  "pass"` cannot be judged: `evidence.stock` is missing
  ✓ forbid no-debt: does not apply
    false  args.amount < 0
             args.amount = 250
  ✗ transition small: the condition `args.amount <= values.limit` does not
      hold
    false  args.amount <= values.limit
             args.amount = 250
             values.limit = 100
  ✗ transition large: the condition `evidence.stock.verdict == "pass"` cannot
      be judged: `evidence.stock` is missing
    error  evidence.stock.verdict == "pass"
             cannot be judged: `evidence.stock` is missing
    error  evidence.stock.fresh == true
             cannot be judged: `evidence.stock` is missing
\N{EN DASH} holds
\N{EN DASH} budget
\N{EN DASH} preconditions
\N{EN DASH} approval

Denied by rule `large` at check `conditions`: the condition
`evidence.stock.verdict == "pass"` cannot be judged: `evidence.stock` is missing
The client is told: denied, the run goes on. Do not repeat this call as it is.
Choose another step, or tell the user what is not allowed.
A reading of the policy, not advice: the transition that is nearest to allowing
it is `small`; what it lacks:
  ✗ `args.amount <= values.limit`
"""


def test_it_ends_with_0_for_what_is_allowed_and_3_for_what_is_not(policy: str) -> None:
    assert document(policy, "--tool", "pay", "--args", '{"amount": 5}', *CLERK, code=0)["allowed"] is True
    assert document(policy, "--tool", "pay", "--args", '{"amount": 5}', code=3)["allowed"] is False


def test_a_condition_shows_what_it_read_and_a_missing_value_says_so(policy: str) -> None:
    found = document(policy, "--tool", "pay", "--args", '{"amount": 250}', *CLERK, code=3)
    assert ended(found)["conditions"] == "refused"
    assert ended(found)["holds"] == "unreached"
    looks = looked(found, "conditions")
    assert looks["forbid no-debt"]["conditions"] == [
        {"expression": "args.amount < 0", "holds": False, "why": None, "seen": {"args.amount": 250}}
    ]
    assert looks["transition small"]["conditions"][0]["seen"] == {"args.amount": 250, "values.limit": 100}
    assert looks["transition large"]["conditions"][0] == {
        "expression": 'evidence.stock.verdict == "pass"',
        "holds": None,
        "why": "`evidence.stock` is missing",
        "seen": {},
    }
    assert found["reading"][0] == "the transition that is nearest to allowing it is `small`; what it lacks:"


def test_all_of_a_state_can_be_said(policy: str) -> None:
    state = [*CLERK, "--evidence", "stock=pass", "--spent", "calls=3", "--account", "daily.calls=49"]
    asked = document(policy, "--tool", "pay", "--args", '{"amount": 250}', *state, code=3)
    assert (asked["outcome"], ended(asked)["approval"]) == ("needs_approval", "asks")
    assert looked(asked, "budget")["budget calls"]["says"] == "3 of 10 used, this takes 1"
    assert looked(asked, "budget")["account accounts.daily.calls"]["says"].startswith("49 of 50 used, this takes 1")
    more = [*state, "--approved", "--now", "2030-06-01T12:00:00Z", "--elapsed", "60"]
    allowed = document(policy, "--tool", "pay", "--args", '{"amount": 250}', *more, code=0)
    assert allowed["at"] == "2030-06-01T12:00:00+00:00"
    failed = document(policy, "--tool", "pay", "--args", '{"amount": 250}', *more, "--probe", "stock=fail", code=3)
    assert ended(failed)["preconditions"] == "refused"
    full = document(policy, "--tool", "pay", "--args", '{"amount": 5}', *CLERK, "--account", "daily.calls=50", code=3)
    assert full["outcome"] == "rate_limited"
    paid = document(policy, "--tool", "pay", "--args", '{"amount": 5}', *CLERK, "--phase", "paid", code=3)
    assert paid["reading"][1] == "a phase of `cart`; the run is in `paid`"


def test_a_tool_is_as_one_says_it_is(policy: str, tmp_path: Path) -> None:
    unnamed = document(policy, "--tool", "list", code=3)
    assert unnamed["call"]["effect"] == "write"
    assert unnamed["call"]["inferred"] == "nothing says that it only reads"
    assert unnamed["reading"] == ["no transition names `list` as a write tool"]
    read = document(policy, "--tool", "list", "--effect", "read", code=0)
    assert read["assumed"] == ["the tool is a read tool, whatever is said of it"]
    schema = tmp_path / "schema.json"
    schema.write_text('{"type": "object", "required": ["amount"]}')
    broken = document(policy, "--tool", "pay", *CLERK, "--schema", str(schema), code=3)
    assert broken["outcome"] == "invalid_arguments"
    hinted = document(policy, "--tool", "list", "--annotations", '{"destructiveHint": true}', code=3)
    assert hinted["call"]["effect"] == "destructive"


def test_a_case_is_explained_and_says_whether_it_holds(policy: str) -> None:
    assert "The case `a small one is paid` holds" in told(policy, "--case", "a small one is paid", code=0)
    wrong = document(policy, "--case", "nobody may pay", code=1)
    assert wrong["case"]["holds"] is False
    assert wrong["case"]["why"].startswith("expected denied, but it is allowed")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--tool", "pay", "--phase", "cat"], "this policy has no phase `cat` (did you mean `cart`?)"),
        (["--tool", "pay", "--evidence", "stok=pass"], "this policy has no verifier `stok`"),
        (["--tool", "pay", "--stale", "stock"], "say `--evidence stock=pass`"),
        (["--tool", "pay", "--evidence", "stock=maybe"], "evidence.stock"),
        (["--tool", "pay", "--evidence", "stock"], "`--evidence` takes NAME=VALUE"),
        (["--tool", "pay", "--args", "{"], "`--args`"),
        (["--tool", "pay", "--args", "[]"], "the arguments of a call are a JSON object"),
        (["--tool", "pay", "--args", "{}", "--args-file", "x"], "give one of them"),
        (["--tool", "pay", "--args-file", "/nowhere"], "cannot be read"),
        (["--tool", "pay", "--spent", "cals=3"], "cals"),
        (["--tool", "pay", "--now", "yesterday"], "now"),
        (["--case", "small", "--role", "clerk"], "a case has its call and its state"),
        (["--tool", "pay", "--account", "weekly.calls=1"], "this policy has no account `weekly`"),
        (["--case", "none"], "no case is named `none`"),
        ([], "`counterfoil explain --help` has all"),
        (["--tool", "pay", "--case", "a small one is paid"], "`counterfoil explain --help` has all"),
        (["--run", "run_1"], "`--run` is judged by its own policy"),
    ],
)
def test_what_makes_no_sense_ends_with_2_and_says_why(policy: str, arguments: list[str], says: str) -> None:
    done = CliRunner().invoke(app, ["explain", policy, *arguments])
    assert done.exit_code == 2, done.output
    assert says in done.stderr
    assert done.stdout == ""


def test_the_page_shows_what_is_printed() -> None:
    page = (Path(__file__).parents[2] / "docs" / "explain.md").read_text(encoding="utf-8")
    shown = page.partition("$ counterfoil explain ")[2].partition("```")[0]
    command, printed = shown.split("--stale tests\n")
    arguments = shlex.split(command.replace("\\\n", " ") + "--stale tests")
    assert undated(told(*arguments, code=3)) == undated(printed)
