"""Forms that change something: their fields, and the proof that they came from our own page."""

from collections.abc import Mapping
from typing import Annotated
from urllib.parse import parse_qsl

from fastapi import Depends, HTTPException, Request

from bot.dashboard.auth.visitor import Visitor, csrf_holds

LARGEST_BYTES = 20_000
MOST_FIELDS = 40


async def read_fields(request: Request) -> Mapping[str, str]:
    """Return the fields of a URL-encoded form. 413 for one that is too large, 415 for another kind."""
    if request.headers.get("content-type", "").partition(";")[0].strip() != (
        "application/x-www-form-urlencoded"
    ):
        raise HTTPException(415, "send a form")
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > LARGEST_BYTES:
            raise HTTPException(413, "this form is too large")
    try:
        pairs = parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=MOST_FIELDS)
    except ValueError:
        raise HTTPException(413, "this form has too many fields") from None
    return dict(pairs)


Fields = Annotated[Mapping[str, str], Depends(read_fields)]


async def own_form(request: Request, fields: Fields) -> Visitor:
    """Return the signed-in visitor whose own form this is. 401 for nobody, 403 for a foreign form."""
    visitor: Visitor = request.state.visitor
    if visitor.login is None:
        raise HTTPException(401, "sign in to change something")
    if not csrf_holds(visitor, fields.get("csrf", "")):
        raise HTTPException(403, "this form is not from your session; reload the page and send it again")
    return visitor


Signed = Annotated[Visitor, Depends(own_form)]
