"""`poe mutate [--survivors] [MODULE ...]`: mutants of kernel modules, and survivors that nobody has judged yet.

mutmut does the work, without its mutants of texts: what a verdict says is compared where somebody reads it, and there
are as many of them as of all others. What was run is not run again until its module changes; `--survivors` runs those
that survived once more, for new tests. Survivors are judged in `survivors.md`, by their text: line numbers move.
"""

import os
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import libcst as cst
from mutmut import __main__ as mutmut
from mutmut.configuration import config
from mutmut.mutation import file_mutation
from mutmut.mutation.data import SourceFileMutationData
from mutmut.mutation.diff_apply import get_diff_for_mutant
from mutmut.mutation.mutators import mutation_operators
from mutmut.state import state
from mutmut.utils.format_utils import mangled_name_from_mutant_name

JUDGED = Path(__file__).with_name("survivors.md")
LINE = re.compile(r"^- (?P<function>\S+): `` (?P<was>.*?) `` => `` (?P<now>.*?) ``")
SURVIVED = {0, 5, 33}
"""Exit codes: all tests passed, none was there."""
TIMEOUT = {24, 36, 152, 255, -24}

Survivor = tuple[str, str, str, str]
"""Module, function, and what it said and says now."""
Found = tuple[SourceFileMutationData, str, int | None]
"""Of a mutant: its module, its name, and the exit code of its tests; None where they were not run."""


def found(names: Any = ()) -> list[Found]:
    """The mutants of that name."""
    return mutmut.collect_source_file_mutation_data(mutant_names=tuple(names))[0]


def run(modules: list[str], *, survivors: bool) -> None:
    """Runs what was not run yet, and the survivors again if that is wanted."""
    patterns = [f"gateway.kernel.{name}.*" for name in modules]
    collect = mutmut.collect_source_file_mutation_data

    def quick_first(*, mutant_names: Any) -> Any:
        tests, took = state().tests_by_mangled_function_name, state().duration_by_test
        for name, those in tests.items():
            tests[name] = dict.fromkeys(sorted(those, key=lambda one: took[one])).keys()  # type: ignore[assignment]
        all_of_them, by_path = collect(mutant_names=mutant_names)
        wanted = {None, *(SURVIVED if survivors else ())}
        return [one for one in all_of_them if one[2] in wanted], by_path

    mutmut.collect_source_file_mutation_data = quick_first
    mutmut._run(patterns, int(os.environ.get("MUTATE_CHILDREN", "2")))
    mutmut.collect_source_file_mutation_data = collect


def judged() -> dict[Survivor, str]:
    """The survivors that somebody judged, each with its whole line."""
    module, known = "", {}
    for line in JUDGED.read_text().splitlines():
        if line.startswith("## "):
            module = line[3:].strip("` ")
        elif match := LINE.match(line):
            known[module, match["function"], match["was"], match["now"]] = line
    return known


def survivor(module: str, name: str) -> Survivor:
    """A mutant, as `survivors.md` names it."""
    changed = [line for line in get_diff_for_mutant(name).splitlines() if not line.startswith(("---", "+++"))]
    was, now = (" ".join(line[1:].strip() for line in changed if line.startswith(sign)) for sign in "-+")
    function = re.sub("^x[_ǁ]", "", mangled_name_from_mutant_name(name).rpartition(".")[2]).replace("ǁ", ".")
    return module, function, was, now


def report(modules: list[str]) -> int:
    """Says how many there are of each kind, and which survivors are not judged; 1 if there are such."""
    counts: dict[str, Counter[str]] = {}
    known, survived, unjudged = judged(), set[Survivor](), 0
    for data, name, code in found(f"gateway.kernel.{module}.*" for module in modules):
        path = str(data.path)
        fate = "survived" if code in SURVIVED else "timed out" if code in TIMEOUT else "killed"
        counts.setdefault(path, Counter())["not run" if code is None else fate] += 1
        if code in SURVIVED:
            survived.add(one := survivor(path, name))
            if one not in known:
                unjudged += 1
                print(f"{name}, not judged, in {path}:\n- {one[1]}: `` {one[2]} `` => `` {one[3]} ``")
    for path, by_fate in sorted(counts.items()):
        print(f"{path}: {by_fate.total()} mutants; {', '.join(f'{n} {fate}' for fate, n in sorted(by_fate.items()))}")
    for one, line in known.items():
        if one[0] in counts and one not in survived:
            print(f"judged, and not among the survivors of {one[0]}:\n{line}")
    return 1 if unjudged else 0


def main(asked: list[str]) -> int:
    """Of these modules, or of all."""
    vars(file_mutation)["mutation_operators"] = [one for one in mutation_operators if one[0] is not cst.BaseString]
    modules = [one for one in asked if not one.startswith("--")] or [Path(one).stem for one in config().only_mutate]
    if "--report" not in asked:
        run(modules, survivors="--survivors" in asked)
    return report(modules)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
