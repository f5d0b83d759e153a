"""Fields that a record got after others like it were stored: left out while they hold their default.

So what an earlier version stored is spelled, byte for byte, as it was then.
"""

from typing import Any, ClassVar

from pydantic import BaseModel, Field, SerializerFunctionWrapHandler, model_serializer

_MARK: dict[str, Any] = {"added": True}


def added(default: Any, **limits: Any) -> Any:
    """A field that came later. Its default is what records meant that lack it."""
    return Field(default=default, json_schema_extra=_MARK, **limits)


class Grown(BaseModel):
    """A model some of whose fields may be `added`."""

    added_fields: ClassVar[dict[str, Any]] = {}
    """Name to default."""

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        cls.added_fields = {
            name: one.default for name, one in cls.model_fields.items() if one.json_schema_extra is _MARK
        }

    @model_serializer(mode="wrap")
    def _without_defaults(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        told: dict[str, Any] = handler(self)
        given = self.__dict__
        for name, default in self.added_fields.items():
            value = given[name]
            if value is default or value == default:
                told.pop(name, None)
        return told
