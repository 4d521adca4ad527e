"""Keyset paging: a page begins behind the last row of the one before, however many rows there are."""

import base64
import binascii
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from sqlalchemy import and_, or_
from sqlalchemy.sql.elements import ColumnElement
from sqlalchemy.sql.expression import UnaryExpression

MOST_ITEMS = 100
PAGE_SIZE = 50


@dataclass(frozen=True)
class Key:
    """One column of an order, and how its value is read back from a token."""

    column: Any
    kind: type
    down: bool = False

    def order(self) -> UnaryExpression[Any]:
        """Return the column's part of ORDER BY."""
        found: UnaryExpression[Any] = self.column.desc() if self.down else self.column.asc()
        return found

    def behind(self, value: Any) -> ColumnElement[bool]:
        """Return the condition that a row comes after `value`."""
        found: ColumnElement[bool] = self.column < value if self.down else self.column > value
        return found


def after(keys: Sequence[Key], token: str) -> ColumnElement[bool] | None:
    """Return the condition of the rows behind a token's row; None where the token is none of ours."""
    values = read_token(token, keys)
    if values is None:
        return None
    steps = [
        and_(*(key.column == value for key, value in zip(keys[:place], values, strict=False)), here)
        for place, here in enumerate(key.behind(value) for key, value in zip(keys, values, strict=True))
    ]
    return or_(*steps)


def make_token(values: Sequence[Any]) -> str:
    """Return the token of a row by the values of its keys."""
    plain = [value.isoformat() if isinstance(value, date) else value for value in values]
    return base64.urlsafe_b64encode(json.dumps(plain).encode()).decode().rstrip("=")


def read_token(token: str, keys: Sequence[Key]) -> list[Any] | None:
    """Return the values in a token; None where it was not made for these keys."""
    try:
        plain = json.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
        if not isinstance(plain, list) or len(plain) != len(keys):
            return None
        return [read_value(value, key.kind) for value, key in zip(plain, keys, strict=True)]
    except (ValueError, RecursionError, binascii.Error):
        return None


def read_value(value: Any, kind: type) -> Any:
    """Return one value as its column has it. ValueError for another kind."""
    if kind is datetime and isinstance(value, str):
        found = datetime.fromisoformat(value)
        if found.tzinfo is None:
            raise ValueError("a time without a zone")
        return found
    if kind is date and isinstance(value, str):
        return date.fromisoformat(value)
    if isinstance(value, bool) or not isinstance(value, kind):
        raise ValueError(f"not a {kind.__name__}")
    if isinstance(value, int) and abs(value) >= 2**63:
        raise ValueError("too large for a database")
    return value
