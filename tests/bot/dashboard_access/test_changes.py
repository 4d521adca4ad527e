"""What is changed on a page: only by who may, only by our own forms, once, and by the commands' own code."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime

import httpx
import pytest
from sqlalchemy import delete, func, select

from bot.commands import SPECS
from bot.db.models import Job, JobState
from bot.handlers.page import PAGE_VERBS, Order, job_of, order_of, understood
from tests.bot.dashboard_access.conftest import NAME, Site

PAGE = f"/pr/{NAME}/1/change"
JOB = "buildkite/omni · Diffusion"
FIELD = re.compile(r'name="(\w+)" value="([^"]*)"')


@pytest.fixture(autouse=True)
def clean(site: Site) -> Iterator[None]:
    yield
    site.github.faults.planned.clear()


def form_of(client: httpx.Client, marker: str) -> dict[str, str]:
    """Return the hidden fields of the form that holds `marker`."""
    page = client.get(PAGE).text
    forms = [part.partition("</form>")[0] for part in page.split("<form")[1:]]
    (found,) = [form for form in forms if marker in form and 'action="/auth' not in form]
    return dict(FIELD.findall(found))


def queued(site: Site) -> list[Job]:
    with site.service.sessions() as session:
        return list(session.scalars(select(Job).where(Job.verb == "page").order_by(Job.id)))


def test_a_declared_job_becomes_an_order_for_a_worker(site: Site) -> None:
    client = site.browser("writer-1")
    fields = form_of(client, 'name="job"')
    asked = {**fields, "job": JOB, "verb": "unrelated", "reason": "main  fails\nthe same way"}
    assert client.post(PAGE, data=asked).status_code == 303
    (job,) = queued(site)
    order = order_of(job.subject)
    assert order is not None
    assert (order.login, order.words) == (
        "writer-1",
        f"unrelated {JOB} because main fails the same way",
    )
    assert "waits for a worker" in client.get(PAGE).text


def test_a_form_that_is_sent_twice_is_one_order(site: Site) -> None:
    client = site.browser("writer-1")
    fields = {**form_of(client, "Stay silent"), "verb": "pause"}
    for _ in range(3):
        client.post(PAGE, data=fields)
    assert len(queued(site)) == 1
    client.post(PAGE, data=form_of(client, "Stay silent"))
    assert len(queued(site)) == 2


@pytest.mark.parametrize(
    ("login", "status"), [(None, 401), ("stranger-1", 404), ("reader-1", 403), ("writer-1", 303)]
)
def test_a_change_needs_a_sign_in_and_write_permission(site: Site, login: str | None, status: int) -> None:
    client = site.browser(login)
    fields = {"csrf": site.csrf(client), "form": "abcdefgh", "verb": "pause"}
    assert client.post(PAGE, data=fields).status_code == status
    assert len(queued(site)) == (status == 303)


def test_a_form_of_another_site_or_session_changes_nothing(site: Site) -> None:
    client, other = site.browser("writer-1"), site.browser("maintainer-1")
    fields = form_of(client, "Stay silent")
    for csrf in ("", "x", site.csrf(other), "é" * 10):
        assert client.post(PAGE, data={**fields, "csrf": csrf}).status_code == 403
    assert client.post(PAGE, json=fields).status_code == 415
    assert client.post(PAGE, data={**fields, "reason": "x" * 30_000}).status_code == 413
    assert client.post(PAGE, data={**fields, **{f"f{n}": "x" for n in range(60)}}).status_code == 413
    assert queued(site) == []
    assert client.get(PAGE).status_code == 200  # a GET changes nothing, whatever it carries
    client.get(PAGE, params=fields)
    assert queued(site) == []


@pytest.mark.parametrize(
    "fields",
    [
        {"verb": "bench"},
        {"verb": "review"},
        {"verb": "priority", "level": ""},
        {"verb": "unrelated", "job": ""},
        {"verb": "unrelated", "job": JOB, "reason": "word " * 60},
        {"verb": "pause", "form": "x:y"},
        {"verb": "pause", "form": "x" * 200},
        {},
    ],
)
def test_what_no_form_of_ours_says_is_refused(site: Site, fields: dict[str, str]) -> None:
    client = site.browser("writer-1")
    answer = client.post(PAGE, data={"csrf": site.csrf(client), "form": "abcdefgh", **fields})
    assert answer.status_code == 422
    assert queued(site) == []


def test_the_page_is_for_who_may_change(site: Site) -> None:
    answer = site.browser().get(PAGE)
    assert answer.headers["location"] == f"/auth/sign-in?goes_on={PAGE}"
    assert "needs write permission" in site.browser("reader-1").get(PAGE).text
    page = site.browser("writer-1").get(f"{PAGE}.json").json()
    assert page["schema"] == 1
    assert page["red_jobs"] == [JOB]
    assert page["paused"] is False


def test_an_order_says_no_more_than_a_comment_could() -> None:
    verbs = {spec.verb for spec in SPECS}
    assert set(PAGE_VERBS) <= verbs
    assert understood("bench short") is None
    assert understood("") is None
    assert understood("priority") is None
    order = Order("writer-1", "priority high", "abcdefgh")
    assert order_of(job_of(order, 1, 2).subject) == order
    assert order_of("a:b") is None


def dead_job(site: Site, repo_id: int) -> int:
    with site.service.sessions.begin() as session:
        job = Job(
            verb="route",
            repo_id=repo_id,
            number=1,
            state=JobState.DEAD,
            attempts=3,
            created_at=datetime.now(UTC),
            finished_at=datetime.now(UTC),
            error="KeyError: 'canary' (incident 0123)",
        )
        session.add(job)
        session.flush()
        return job.id


def test_maintainers_see_dead_jobs_and_have_them_done_again(site: Site) -> None:
    job_id = dead_job(site, site.repo_id)
    other = dead_job(site, 5)  # nobody here maintains the other repository
    for login in (None, "reader-1", "writer-1"):
        client = site.browser(login)
        assert "canary" not in client.get("/dead").text
        fields = {"csrf": site.csrf(client)}
        assert client.post(f"/dead/{job_id}/replay", data=fields).status_code in (401, 404)
    client = site.browser("maintainer-1")
    page = client.get("/dead.json").json()
    assert [item["id"] for item in page["items"]] == [job_id]
    assert "incident 0123" in client.get("/dead").text
    fields = {"csrf": site.csrf(client)}
    assert client.post(f"/dead/{other}/replay", data=fields).status_code == 404
    assert client.post(f"/dead/{job_id}/replay", data={"csrf": "x"}).status_code == 403
    assert client.post(f"/dead/{job_id}/replay", data=fields).status_code == 303
    with site.service.sessions() as session:
        job = session.get_one(Job, job_id)
        assert (job.state, job.attempts) == (JobState.QUEUED, 0)
        assert session.get_one(Job, other).state is JobState.DEAD
    assert client.get("/dead.json").json()["items"] == []


def test_a_replay_that_is_pressed_twice_replays_once(site: Site) -> None:
    job_id = dead_job(site, site.repo_id)
    client = site.browser("maintainer-1")
    for _ in range(2):
        client.post(f"/dead/{job_id}/replay", data={"csrf": site.csrf(client)})
    with site.service.sessions() as session:
        assert session.scalar(select(func.count()).where(Job.id == job_id)) == 1
        session.execute(delete(Job))
