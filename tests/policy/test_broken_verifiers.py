"""What is wrong with a verifier is told in its place, each mistake once."""

from pathlib import Path

import pytest

from gateway.outbound.policy_files import PolicyProblems, load_policy
from gateway.runtime.policies import condition_trouble

HEAD = "workflow: w\ntransitions: [{name: a, tools: ['*'], preconditions: [it]}]\nverifiers:\n  it: "
DIGEST = "a digest of files, as `counterfoil pin --files` prints it, is wanted"
BEFORE = "looks at the call's own result, which there is not before the call"
BELOW = "a path below the place is wanted: steps and `/`, no `.`, no `..`, no `/` at either end"


@pytest.mark.parametrize(
    ("verifier", "says"),
    [
        (
            "{pass: [result.ok == true]}",
            "4:3: verifiers.it: say how it looks: `probe`, `command`, `http`, `sql`, `file` or `result`",
        ),
        (
            "{file: {place: a, path: b}}",
            "4:3: verifiers.it: the key `pass` is missing: what it sees must be judged by something",
        ),
        (
            "{command: {place: a, run: [x]}, http: {place: a}}",
            "4:39: verifiers.it.http: `http` and `command` exclude each other",
        ),
        (
            "{result: {}, pass: [result.isError == false]}",
            f"2:55: transitions.0.preconditions.0: `it` {BEFORE}",
        ),
        ("{file: {place: a, path: ../b}, pass: [result.exists == true]}", f"4:31: verifiers.it.file.path: {BELOW}"),
        ("{command: {place: a, run: []}}", "4:33: verifiers.it.command.run: more entries are wanted: no fewer than 1"),
        (
            "{command: {place: a, run: [x], exit: [256]}}",
            "4:45: verifiers.it.command.exit.0: a number of at most 255 is wanted",
        ),
        (
            "{command: {place: a, run: [x], pinned: {t: md5}}}",
            f"4:50: verifiers.it.command.pinned.t: {DIGEST}, not `md5`",
        ),
        (
            "{command: {place: a, run: [x], trusted: {place: a, paths: [b]}}}",
            "4:17: verifiers.it.command: `trusted` names the same place: who can write the one can write the other",
        ),
        (
            "{http: {place: a, path_from: arg.id}}",
            "4:36: verifiers.it.http.path_from: nothing is named `arg.id` here (did you mean `args.id`?)",
        ),
        (
            "{http: {place: a, query: {b: [1]}}}",
            "4:36: verifiers.it.http.query.b: a text, a number, `true` or `false` is wanted",
        ),
        (
            "{http: {place: a, method: PUT}}",
            "4:33: verifiers.it.http.method: one of `GET`, `HEAD`, `POST` is wanted, not `PUT`",
        ),
        (
            "{sql: {place: a, query: 'select :id'}, pass: [result.count == 1]}",
            "4:13: verifiers.it.sql: the query asks for `:id`, which `parameters_from` does not tell",
        ),
        (
            "{command: {place: a, run: [x]}, pass: [result.exti == 0]}",
            "4:53: verifiers.it.pass.0: `result` has no field `exti` (did you mean `exit`?)",
        ),
    ],
)
def test_a_mistake_is_told_once_and_in_its_place(tmp_path: Path, verifier: str, says: str) -> None:
    file = tmp_path / "p.yaml"
    file.write_text(HEAD + verifier)
    with pytest.raises(PolicyProblems) as refused:
        load_policy(file, condition_trouble)
    assert str(refused.value) == f"{file}:{says}"
