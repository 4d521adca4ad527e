"""GraphQL: the one query that the service asks, for the status of accounts."""

import re

from fastapi import APIRouter
from pydantic import BaseModel

from bot.demo.github.api.frame import Here
from bot.demo.github.hub import Hub
from bot.demo.github.shapes import Json

router = APIRouter()
FIELD = re.compile(r"(\w{1,20}): user\(login: \$(\w{1,20})\) \{ status \{ indicatesLimitedAvailability \} \}")


class Query(BaseModel):
    """A query with its variables."""

    query: str
    variables: dict[str, str] = {}


@router.post("/graphql")
def graphql(hub: Here, query: Query) -> Json:
    """Answer `POST /graphql`: an account that is not there is null and an error beside the others."""
    data, errors = {}, []
    for alias, variable in FIELD.findall(query.query):
        login = query.variables.get(variable, "")
        data[alias] = account(hub, login)
        if data[alias] is None:
            says = f"Could not resolve to a User with the login of '{login}'."
            errors.append({"type": "NOT_FOUND", "path": [alias], "message": says})
    return {"data": data, **({"errors": errors} if errors else {})}


def account(hub: Hub, login: str) -> Json | None:
    """Return an account's status; None for an account that is not there."""
    found = next(
        (user for user in hub.state.users.values() if user.login.casefold() == login.casefold()), None
    )
    if found is None:
        return None
    return {"status": {"indicatesLimitedAvailability": True} if found.busy else None}
