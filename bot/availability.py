"""Who of some people says on GitHub that they are busy: asked in one query, kept for minutes.

Source: GitHub's GraphQL API, `User.status.indicatesLimitedAvailability`. What cannot be read (no permission,
no answer, no such account) is not known, and counts as not busy.
"""

import time
from collections.abc import Sequence

from bot.clients import Clients
from bot.dispatch import RetryLater
from bot.github import Cache, Connection, GitHubFault

LIFE_S = 600.0
MOST_PEOPLE = 50
_known = Cache()


def busy_people(clients: Clients, logins: Sequence[str]) -> frozenset[str]:
    """Return those of the accounts that are busy, casefolded."""
    server, now_s = clients.settings.github_api_url, time.monotonic()
    wanted = list(dict.fromkeys(login.casefold() for login in logins))[:MOST_PEOPLE]
    asked = [login for login in wanted if not is_fresh(_known.get((server, login)), now_s)]
    if asked:
        found = ask(clients.github.connection, asked)
        for login in asked:
            _known.put((server, login), (now_s, login in found))
    return frozenset(login for login in wanted if (known := _known.get((server, login))) and known[1])


def is_fresh(known: tuple[float, bool] | None, now_s: float) -> bool:
    """Say whether what is known of somebody is young enough."""
    return known is not None and now_s - known[0] < LIFE_S


def ask(connection: Connection, logins: Sequence[str]) -> frozenset[str]:
    """Return the busy accounts as GitHub has them now; none where it does not say."""
    try:
        found = connection.graphql(query_for(len(logins)), {f"l{n}": login for n, login in enumerate(logins)})
    except (GitHubFault, RetryLater):
        return frozenset()
    return frozenset(login for n, login in enumerate(logins) if is_busy(found.get(f"u{n}")))


def query_for(count: int) -> str:
    """Return one query for `count` accounts; their names travel as variables, never in its text."""
    variables = ", ".join(f"$l{n}: String!" for n in range(count))
    fields = " ".join(
        f"u{n}: user(login: $l{n}) {{ status {{ indicatesLimitedAvailability }} }}" for n in range(count)
    )
    return f"query({variables}) {{ {fields} }}"


def is_busy(user: object) -> bool:
    """Say whether an account's status says so."""
    status = user.get("status") if isinstance(user, dict) else None
    return isinstance(status, dict) and status.get("indicatesLimitedAvailability") is True
