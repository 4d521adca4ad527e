"""The stand-in's verbs: each changes the state and tells the receiver, whoever asked for it."""

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from bot.demo.github.faults import Faults
from bot.demo.github.git import Git
from bot.demo.github.shapes import Shapes
from bot.demo.github.state import (
    CheckRun,
    Comment,
    Issue,
    Pull,
    Review,
    State,
    Status,
    WorkflowJob,
    WorkflowRun,
    now,
)
from bot.demo.github.webhooks import Hooks

CLOSES = re.compile(r"\b(?:fix(?:es|ed)?|close[sd]?|resolve[sd]?)\s*:?\s+#(\d{1,9})\b", re.IGNORECASE)


class Refused(Exception):  # noqa: N818 - it is an answer
    """The request cannot be done: an HTTP status and GitHub's words."""

    def __init__(self, status: int, says: str) -> None:
        super().__init__(says)
        self.status = status
        self.says = says


@dataclass
class Hub:
    """One stand-in: state, repository, shapes, hooks and faults."""

    state: State
    git: Git
    shapes: Shapes
    hooks: Hooks
    faults: Faults

    def emit(self, event: str, action: str, actor: str, **payload: Any) -> None:
        """Tell the receiver that `actor` did something."""
        whole = {**payload, "repository": self.shapes.repository()}
        self.hooks.emit(event, action, whole, self.shapes.user(actor))

    def require_pull(self, number: int) -> Pull:
        """Return a pull request; Refused 404 where there is none."""
        pull = self.state.pull(number)
        if pull is None:
            raise Refused(404, "Not Found")
        return pull

    def require_issue(self, number: int) -> Issue:
        """Return an issue or pull request; Refused 404 where there is none."""
        if number not in self.state.issues:
            raise Refused(404, "Not Found")
        return self.state.issues[number]

    def open_issue(self, number: int, title: str, body: str, author: str, labels: tuple[str, ...]) -> Issue:
        """Open an issue."""
        moment = now()
        issue = Issue(self.state.new_id(), number, title, body, author, list(labels), moment, moment)
        self.state.issues[number] = issue
        self.emit("issues", "opened", author, issue=self.shapes.issue(issue))
        return issue

    def edit_issue(self, number: int, actor: str, **changes: str) -> Issue:
        """Change title, body or state of an issue."""
        issue = self.require_issue(number)
        moved = changes.get("state", issue.state) != issue.state
        for name, value in changes.items():
            setattr(issue, name, value)
        issue.updated_at = now()
        action = {"open": "reopened", "closed": "closed"}[issue.state] if moved else "edited"
        self.emit("issues", action, actor, issue=self.shapes.issue(issue))
        return issue

    def open_pull(
        self,
        number: int,
        branch: str,
        author: str,
        *,
        title: str = "",
        body: str = "",
        base: str = "main",
        labels: tuple[str, ...] = (),
        association: str = "CONTRIBUTOR",
        draft: bool = False,
        created_at: datetime | None = None,
    ) -> Pull:
        """Open a pull request from a branch of the repository."""
        sha = self.git.resolve(branch)
        if sha is None:
            raise Refused(422, f"no branch {branch}")
        moment = created_at or now()
        pull = Pull(
            id=self.state.new_id(),
            number=number,
            title=title or branch,
            body=body,
            user=author,
            labels=list(labels),
            created_at=moment,
            updated_at=now(),
            association=association,
            head_ref=branch,
            head_sha=sha,
            base_ref=base,
            draft=draft,
        )
        self.state.issues[number] = pull
        self.about_pull("opened", author, pull)
        return pull

    def about_pull(self, action: str, actor: str, pull: Pull, **more: Any) -> None:
        """Tell of a pull request."""
        pull.updated_at = now()
        self.emit(
            "pull_request", action, actor, number=pull.number, pull_request=self.shapes.pull(pull), **more
        )

    def push(self, branch: str, sha: str, actor: str) -> None:
        """Move a branch to a commit that the repository has; its pull requests follow."""
        before = self.git.resolve(branch) or "0" * 40
        self.git.move_branch(branch, sha)
        self.pushed(branch, before, sha, actor)

    def commit(self, branch: str, files: dict[str, str], message: str, actor: str) -> str:
        """Push one new commit with these texts and return its sha."""
        before = self.git.resolve(branch) or "0" * 40
        sha = self.git.commit_files(branch, files, message, actor)
        self.pushed(branch, before, sha, actor)
        return sha

    def pushed(self, branch: str, before: str, sha: str, actor: str) -> None:
        """Tell of a branch that moved."""
        self.emit("push", "", actor, ref=f"refs/heads/{branch}", before=before, after=sha, deleted=False)
        for pull in self.state.pulls():
            if pull.head_ref == branch and pull.state == "open":
                pull.head_sha = sha
                self.about_pull("synchronize", actor, pull, before=before, after=sha)

    def edit_pull(self, number: int, actor: str, **changes: Any) -> Pull:
        """Change title, body, draft or mergeable of a pull request."""
        pull = self.require_pull(number)
        action = "edited"
        if "draft" in changes and changes["draft"] != pull.draft:
            action = "converted_to_draft" if changes["draft"] else "ready_for_review"
        for name, value in changes.items():
            setattr(pull, name, value)
        self.about_pull(action, actor, pull)
        return pull

    def merge(self, number: int, actor: str) -> str:
        """Merge a pull request into its base branch and return the new commit; Refused 405 for a conflict."""
        pull = self.require_pull(number)
        before = self.git.resolve(pull.base_ref)
        if pull.state != "open" or pull.draft or before is None:
            raise Refused(405, "Pull Request is not mergeable")
        made = self.git.merge(before, pull.head_sha, f"Merge #{number}: {pull.title}", actor)
        if made is None:
            raise Refused(405, "Pull Request is not mergeable")
        self.git.move_branch(pull.base_ref, made)
        pull.merge_commit = made
        self.pushed(pull.base_ref, before, made, actor)
        self.close(number, actor, merged=True)
        for fixed in CLOSES.findall(pull.body):
            issue = self.state.issues.get(int(fixed))
            if issue is not None and issue.state == "open":
                self.edit_issue(issue.number, actor, state="closed")
        return made

    def close(self, number: int, actor: str, *, merged: bool = False) -> None:
        """Close a pull request; `merged` only marks it."""
        pull = self.require_pull(number)
        pull.state, pull.merged = "closed", merged
        self.about_pull("closed", actor, pull)

    def comment(self, number: int, user: str, body: str) -> Comment:
        """Write a comment."""
        issue = self.require_issue(number)
        if len(body) > 65_536:
            raise Refused(422, "Body is too long (maximum is 65536 characters)")
        moment = now()
        comment = Comment(self.state.new_id(), number, user, body, moment, moment)
        self.state.comments[comment.id] = comment
        issue.updated_at = moment
        self.about_comment("created", user, comment)
        return comment

    def edit_comment(self, comment_id: int, actor: str, body: str) -> Comment:
        """Change a comment's text."""
        comment = self.require_comment(comment_id)
        comment.body, comment.updated_at = body, now()
        comment.edits += 1
        self.about_comment("edited", actor, comment)
        return comment

    def delete_comment(self, comment_id: int, actor: str) -> None:
        """Delete a comment."""
        comment = self.require_comment(comment_id)
        del self.state.comments[comment_id]
        self.about_comment("deleted", actor, comment)

    def require_comment(self, comment_id: int) -> Comment:
        """Return a comment; Refused 404 where there is none."""
        if comment_id not in self.state.comments:
            raise Refused(404, "Not Found")
        return self.state.comments[comment_id]

    def about_comment(self, action: str, actor: str, comment: Comment) -> None:
        """Tell of a comment; it names no head."""
        issue = self.state.issues[comment.number]
        shown = {"issue": self.shapes.issue(issue), "comment": self.shapes.comment(comment)}
        self.emit("issue_comment", action, actor, **shown)

    def react(self, comment_id: int, user: str, content: str) -> bool:
        """Add a reaction; False where it was there."""
        comment = self.require_comment(comment_id)
        if (user, content) in comment.reactions:
            return False
        comment.reactions.append((user, content))
        return True

    def review(
        self, number: int, user: str, state: str, body: str = "", comments: list[dict[str, Any]] | None = None
    ) -> Review:
        """Submit a review: `APPROVED`, `CHANGES_REQUESTED` or `COMMENTED`."""
        pull = self.require_pull(number)
        remarks = [(item["path"], int(item.get("line") or 0), item["body"]) for item in comments or ()]
        review = Review(self.state.new_id(), number, user, body, state, pull.head_sha, now(), remarks)
        self.state.reviews[review.id] = review
        if user in pull.requested:
            pull.requested.remove(user)
        shown = self.shapes.review(review) | {"state": state.lower()}
        self.emit("pull_request_review", "submitted", user, review=shown, pull_request=self.shapes.pull(pull))
        return review

    def remark(self, number: int, user: str, path: str, line: int, body: str) -> dict[str, Any]:
        """Remark on a line of a pull request, outside a review of several; return it as it is shown."""
        pull = self.require_pull(number)
        one = Review(
            self.state.new_id(), number, user, "", "COMMENTED", pull.head_sha, now(), [(path, line, body)]
        )
        self.state.reviews[one.id] = one
        (shown,) = self.shapes.remarks(one)
        about = self.shapes.pull(pull)
        self.emit("pull_request_review_comment", "created", user, comment=shown, pull_request=about)
        return shown

    def request_review(self, number: int, actor: str, logins: list[str]) -> Pull:
        """Ask people for a review; one who may not review makes the whole call fail."""
        pull = self.require_pull(number)
        if len(logins) > 15:
            raise Refused(422, "Could not add requested reviewers: too many")
        for login in logins:
            permission = self.state.users.get(login)
            if login == pull.user:
                raise Refused(422, "Review cannot be requested from pull request author.")
            if permission is None or permission.permission == "none":
                raise Refused(422, "Reviews may only be requested from collaborators.")
        for login in logins:
            if login not in pull.requested:
                pull.requested.append(login)
                asked = self.shapes.user(login)
                self.about_pull("review_requested", actor, pull, requested_reviewer=asked)
        return pull

    def unrequest_review(self, number: int, actor: str, logins: list[str]) -> Pull:
        """Take review requests back."""
        pull = self.require_pull(number)
        for login in set(logins) & set(pull.requested):
            pull.requested.remove(login)
            self.about_pull("review_request_removed", actor, pull, requested_reviewer=self.shapes.user(login))
        return pull

    def label(self, number: int, actor: str, names: list[str]) -> Issue:
        """Add labels."""
        issue = self.require_issue(number)
        for name in names:
            if name not in issue.labels:
                issue.labels.append(name)
                self.state.labels.setdefault(name, "ededed")
                self.about_label("labeled", actor, issue, name)
        return issue

    def unlabel(self, number: int, actor: str, name: str) -> Issue:
        """Remove a label; Refused 404 where it is not there."""
        issue = self.require_issue(number)
        if name not in issue.labels:
            raise Refused(404, "Label does not exist")
        issue.labels.remove(name)
        self.about_label("unlabeled", actor, issue, name)
        return issue

    def about_label(self, action: str, actor: str, issue: Issue, name: str) -> None:
        """Tell of a label."""
        label = self.shapes.label(name)
        if isinstance(issue, Pull):
            self.about_pull(action, actor, issue, label=label)
        else:
            self.emit("issues", action, actor, issue=self.shapes.issue(issue), label=label)

    def set_status(
        self,
        sha: str,
        context: str,
        state: str,
        creator: str,
        *,
        description: str = "",
        url: str | None = None,
    ) -> Status:
        """Set a commit status."""
        if self.git.resolve(sha) is None:
            raise Refused(422, f"No commit found for SHA: {sha}")
        status = Status(self.state.new_id(), sha, context, state, description, url, creator, now())
        self.state.statuses.append(status)
        shown = self.shapes.status(status)
        self.emit("status", "", creator, **shown, sha=sha, name=self.state.full_name, branches=[])
        return status

    def save_check(self, run: CheckRun, actor: str, action: str) -> CheckRun:
        """Keep a check run as it is now and tell of it."""
        if self.git.resolve(run.head_sha) is None:
            raise Refused(422, f"No commit found for SHA: {run.head_sha}")
        self.state.check_runs[run.id] = run
        self.emit("check_run", action, actor, check_run=self.shapes.check_run(run))
        return run

    def rerun_job(self, run: WorkflowRun, job: WorkflowJob, actor: str) -> WorkflowJob:
        """Queue one more attempt of a job of a run that has ended."""
        run.run_attempt, run.status, run.conclusion = run.run_attempt + 1, "queued", None
        fresh = WorkflowJob(
            id=self.state.new_id(),
            run_id=run.id,
            name=job.name,
            status="queued",
            conclusion=None,
            started_at=now(),
            completed_at=None,
            log=None,
            run_attempt=run.run_attempt,
        )
        run.jobs.append(fresh)
        self.run_workflow(run, actor)
        return fresh

    def run_workflow(self, run: WorkflowRun, actor: str) -> WorkflowRun:
        """Keep an Actions run as it is now and tell of it."""
        self.state.workflow_runs[run.id] = run
        action = "completed" if run.status == "completed" else "requested"
        self.emit("workflow_run", action, actor, workflow_run=self.shapes.workflow_run(run))
        return run
