"""A service with a small table of its own: the transport half as real processes, without the decision half.

`python dummy.py web PORT` | `worker [CONCURRENCY]` | `beat`; settings by environment, effects into a file.
"""

import json
import os
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bot.app import Wiring, create_app
from bot.dispatch import JobSpec, RetryLater, UserError
from bot.events import Event, MalformedPayload, RepoRef
from bot.github import GitHubFault
from bot.log import configure
from bot.serving import serve_app
from bot.settings import load_settings
from bot.webhook import Reading
from bot.working import sweep_forever, work

if TYPE_CHECKING:
    from bot.clients import Clients


def parse(name: str, payload: Mapping[str, Any]) -> Event:
    if name == "pull_request" and "number" not in payload:
        raise MalformedPayload("pull_request: number is missing")
    repo = payload.get("repository")
    return Event(
        name=name,
        action=payload.get("action", ""),
        repo=RepoRef(**repo) if repo else None,
        number=payload.get("number"),
        sha=payload.get("subject"),
    )


def jobs_for(event: Event, _own: Collection[str]) -> Sequence[JobSpec]:
    if event.repo is None or event.number is None:
        return []
    repo_id, number = event.repo.id, event.number
    if event.name == "issue_comment":
        return [JobSpec("command", repo_id, number, event.sha or "", f"command:{event.sha}")]
    if event.name != "pull_request":
        return []
    return [
        JobSpec(verb, repo_id, number, event.sha or "", f"{verb}:{repo_id}:{number}")
        for verb in ("route", "ci")
    ]


def note(what: str, spec: JobSpec) -> None:
    """Append one line, whole or not at all, so that a killed process leaves no half of it."""
    line = {"at": time.time(), "pid": os.getpid(), "what": what, "verb": spec.verb, "number": spec.number}
    with Path(os.environ["DUMMY_EFFECTS"]).open("ab", buffering=0) as file:
        file.write(json.dumps({**line, "subject": spec.subject}).encode() + b"\n")


def run(spec: JobSpec, clients: "Clients") -> None:
    """Do a job as its subject says: `slow` sleeps, `fail` fails, `later` waits once, `refuse` speaks."""
    if spec.verb not in ("route", "ci", "command"):
        return  # a regular chore's
    note("start", spec)
    time.sleep(float(os.environ.get("DUMMY_SECONDS", "0.4" if spec.subject.startswith("slow") else "0")))
    flag = Path(os.environ["DUMMY_EFFECTS"]).with_name(f"flag-{spec.verb}-{spec.number}")
    if spec.subject == "fail" and not flag.exists():
        raise RuntimeError("this job always fails")
    if spec.subject == "later" and not flag.exists():
        flag.touch()
        raise RetryLater(datetime.now(UTC) + timedelta(seconds=0.5), "pace")
    if spec.subject == "outage" and len(list(flag.parent.glob(f"{flag.name}*"))) < 2:
        flag.with_name(f"{flag.name}-{time.time_ns()}").touch()
        raise GitHubFault(502, "bad gateway")
    if spec.subject == "refuse":
        raise UserError("please add a description")
    note("end", spec)


def main(arguments: Sequence[str]) -> int:
    settings = load_settings()
    configure(settings.log_level, settings.secrets())
    role = arguments[0]
    if role == "web":
        reading = Reading(parse, jobs_for)
        serve_app(create_app(settings, Wiring(reading, lambda _: None)), "127.0.0.1", int(arguments[1]))
    elif role == "worker":
        return work(settings, int(arguments[1]), run)
    else:
        sweep_forever(settings)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
