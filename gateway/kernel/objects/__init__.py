"""Functions that conditions call to look into an argument: a path, a statement, a command line, a URL, an amount.

Each is pure and bounded, and tells "true", "false" and "that cannot be told for certain" apart (see `judged`).
`docs/conditions.md` has an example and a pitfall of each.
"""

from collections.abc import Mapping
from types import MappingProxyType

from gateway.kernel.objects import globs, json_text, mail, money, paths, repos, shell, sql, times, urls
from gateway.kernel.objects.judged import MARK as MARK
from gateway.kernel.objects.judged import Function as Function

FUNCTIONS: Mapping[str, Function] = MappingProxyType(
    {
        function.name: function
        for subject in (paths, sql, shell, urls, repos, mail, money, times, globs, json_text)
        for function in subject.FUNCTIONS
    }
)
"""By name, as conditions call them."""
