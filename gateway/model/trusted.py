"""Models made by ourselves: their types were checked by mypy, so nothing is validated again at run time."""

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, cast

from pydantic import BaseModel

P = ParamSpec("P")
T = TypeVar("T", bound=BaseModel)


def trusted(kind: Callable[P, T]) -> Callable[P, T]:
    """A maker of models of this kind, at a third of the cost of `kind(...)`; the same arguments, all of them needed.

    Only for values that are ours, where calls are made by the thousand. What comes from outside is validated, and so
    is every record when it is read. `model_construct` would be the same, and costs more than validating.
    """
    model = cast("type[BaseModel]", kind)
    constants = {name: one.default for name, one in model.model_fields.items() if name == "kind"}
    wanted = len(model.model_fields) - len(constants)
    put = object.__setattr__

    def make(**values: Any) -> Any:
        if len(values) != wanted:
            raise TypeError(f"a trusted {model.__name__} is given {wanted} values, not {len(values)}")
        made = model.__new__(model)
        put(made, "__dict__", constants | values)
        put(made, "__pydantic_fields_set__", set(values))
        put(made, "__pydantic_extra__", None)
        put(made, "__pydantic_private__", None)
        return made

    return cast("Callable[P, T]", make)
