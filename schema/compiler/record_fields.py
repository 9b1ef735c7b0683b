"""Fields whose value is an attribute of the record behind a GraphQL object."""

from __future__ import annotations

from operator import attrgetter
from typing import Any

from strawberry.types.field import StrawberryField

_ATTRIBUTE = "attribute"


class RecordField(StrawberryField):
    """A field that reads an attribute by its path from the GraphQL object, such as `record.write_seq`.

    It is not an argument of the object's constructor: the object only holds its record.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        """See StrawberryField."""
        super().__init__(*args, **options)
        self.init = self.repr = self.compare = False

    @property
    def attribute(self) -> str:
        """The path of the attribute."""
        return str(self.metadata[_ATTRIBUTE])

    def get_result(self, source: Any, info: Any, args: list[Any], kwargs: Any) -> Any:
        """Return the attribute of a source. Called when graphql-core executes the field."""
        return attrgetter(self.attribute)(source)


def reads(attribute: str, *, description: str | None = None) -> Any:
    """Declare a field whose value is an attribute of the object or of its record.

    Example: `mute_status: bool = reads("record.muted")`

    Args:
        attribute: Path from the GraphQL object. The attributes have no side effects: they may be read at any time
            before the object's resolvers are called, and twice.
        description: Of the field in the schema.
    """
    return RecordField(metadata={_ATTRIBUTE: attribute}, description=description)
