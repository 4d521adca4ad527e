"""The processes under load: the bare application, the service with its real wiring, and a worker.

`python -m tests.load.servers bare|service PORT`, `… worker`; settings come from the environment.
"""

import hashlib
import hmac
import sys
from typing import TYPE_CHECKING

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse

from bot.app import create_app
from bot.dispatch import JobSpec
from bot.log import configure
from bot.service import Parts
from bot.serving import serve_app
from bot.settings import Settings, load_settings, secret_list
from bot.wiring import standard_wiring
from bot.working import work

if TYPE_CHECKING:
    from bot.clients import Clients

WORKERS = 2


def bare(settings: Settings) -> FastAPI:
    """Return the yardstick: it verifies the signature and answers, nothing else."""
    app = FastAPI()
    (secret,) = secret_list(settings.webhook_secrets)

    @app.post("/webhooks/github")
    async def take(request: Request) -> JSONResponse:
        body = await request.body()
        wanted = "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
        right = hmac.compare_digest(wanted, request.headers.get("x-hub-signature-256", ""))
        return JSONResponse({"outcome": "new"}, status_code=202 if right else 401)

    return app


def do_nothing(_spec: JobSpec, _clients: "Clients") -> None:
    """Do a job of the backlog: claimed, leased and written off as ever, without the questions to GitHub."""


def main(role: str, *arguments: str) -> int:
    """Run one process until a signal."""
    settings = load_settings()
    configure("WARNING", settings.secrets())
    if role == "worker":
        return work(settings, WORKERS, do_nothing)
    app = bare(settings) if role == "bare" else create_app(settings, standard_wiring(settings, Parts()))
    serve_app(app, "127.0.0.1", int(arguments[0]))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
