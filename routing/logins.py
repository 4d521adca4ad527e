"""Logins as people write them, and as they are compared: GitHub does not tell `@Ann` from `ann`."""

from collections.abc import Iterable


def key(login: str) -> str:
    """Return what a login, `org/team` or e-mail is compared by."""
    return login.strip().removeprefix("@").lower()


def keys(logins: Iterable[str]) -> frozenset[str]:
    """Return what several logins are compared by."""
    return frozenset(key(login) for login in logins)


def unique(logins: Iterable[str]) -> tuple[str, ...]:
    """Return the logins without their `@`, each person once, as first written."""
    first: dict[str, str] = {}
    for login in logins:
        first.setdefault(key(login), login.strip().removeprefix("@"))
    return tuple(first.values())


def is_mail(login: str) -> bool:
    """Say whether an owner is an e-mail address, which nobody can be asked by."""
    return "@" in login.strip().removeprefix("@")
