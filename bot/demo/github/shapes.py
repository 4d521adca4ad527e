"""State -> JSON as GitHub's REST API and webhooks shape it."""

import zlib
from datetime import datetime
from typing import Any

from bot.demo.github.git import ChangedFile, CommitInfo, Git
from bot.demo.github.state import (
    APP_ID,
    ORGANIZATION_ID,
    REPOSITORY_ID,
    Artifact,
    CheckRun,
    Comment,
    Issue,
    Pull,
    Review,
    State,
    Status,
    WorkflowJob,
    WorkflowRun,
)

Json = dict[str, Any]


def stamp(moment: datetime | None) -> str | None:
    """Return a time as GitHub writes it."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ") if moment else None


class Shapes:
    """Writes values of one stand-in; `url` is its web address, the API lies below `/api/v3`."""

    def __init__(self, state: State, git: Git, url: str) -> None:
        self.state = state
        self.git = git
        self.url = url
        self.api = f"{url}/api/v3/repos/{state.full_name}"
        self.html = f"{url}/{state.full_name}"

    def user(self, login: str) -> Json:
        """Return an account."""
        user = self.state.user(login)
        return {
            "id": user.id,
            "login": user.login,
            "type": user.type,
            "node_id": f"U_{user.id}",
            "html_url": f"{self.url}/{user.login}",
            "url": f"{self.url}/api/v3/users/{user.login}",
            "site_admin": False,
        }

    def repository(self) -> Json:
        """Return the repository."""
        owner, name = self.state.full_name.split("/")
        return {
            "id": REPOSITORY_ID,
            "name": name,
            "full_name": self.state.full_name,
            "private": self.state.private,
            "default_branch": "main",
            "owner": {"id": ORGANIZATION_ID, "login": owner, "type": "Organization"},
            "url": self.api,
            "html_url": self.html,
            "clone_url": f"{self.html}.git",
            "fork": False,
            "archived": False,
        }

    def label(self, name: str) -> Json:
        """Return a label."""
        return {"name": name, "color": self.state.labels.get(name, "ededed"), "description": None}

    def issue(self, issue: Issue) -> Json:
        """Return an issue; a pull request's carries the key that tells it from one."""
        shown: Json = {
            "id": issue.id,
            "number": issue.number,
            "title": issue.title,
            "body": issue.body,
            "state": issue.state,
            "user": self.user(issue.user),
            "labels": [self.label(name) for name in issue.labels],
            "author_association": issue.association,
            "created_at": stamp(issue.created_at),
            "updated_at": stamp(issue.updated_at),
            "comments": len(self.state.comments_of(issue.number)),
            "url": f"{self.api}/issues/{issue.number}",
            "html_url": f"{self.html}/issues/{issue.number}",
        }
        if isinstance(issue, Pull):
            shown["html_url"] = f"{self.html}/pull/{issue.number}"
            shown["pull_request"] = {"url": f"{self.api}/pulls/{issue.number}"}
        return shown

    def pull(self, pull: Pull) -> Json:
        """Return a pull request; its `base.sha` is the tip of the base branch, not the merge base."""
        base = self.git.resolve(pull.base_ref) or ""
        merge_base = self.git.merge_base(base, pull.head_sha) or base
        files = self.git.changed_files(merge_base, pull.head_sha)
        return {
            **self.issue(pull),
            "url": f"{self.api}/pulls/{pull.number}",
            "issue_url": f"{self.api}/issues/{pull.number}",
            "draft": pull.draft,
            "merged": pull.merged,
            "merge_commit_sha": pull.merge_commit,
            "mergeable": pull.mergeable,
            "mergeable_state": "clean" if pull.mergeable else "dirty",
            "head": self.branch(pull.head_ref, pull.head_sha),
            "base": self.branch(pull.base_ref, base),
            "requested_reviewers": [self.user(login) for login in pull.requested],
            "requested_teams": [],
            "commits": len(self.git.commits(merge_base, pull.head_sha)),
            "changed_files": len(files),
            "additions": sum(file.additions for file in files),
            "deletions": sum(file.deletions for file in files),
        }

    def branch(self, ref: str, sha: str) -> Json:
        """Return one side of a pull request."""
        owner = self.state.full_name.split("/")[0]
        return {"ref": ref, "sha": sha, "label": f"{owner}:{ref}", "repo": self.repository()}

    def file(self, file: ChangedFile, head: str) -> Json:
        """Return a changed file."""
        shown: Json = {
            "sha": file.blob,
            "filename": file.path,
            "status": file.status,
            "additions": file.additions,
            "deletions": file.deletions,
            "changes": file.additions + file.deletions,
            "contents_url": f"{self.api}/contents/{file.path}?ref={head}",
        }
        if file.patch is not None:
            shown["patch"] = file.patch
        if file.previous:
            shown["previous_filename"] = file.previous
        return shown

    def commit(self, commit: CommitInfo) -> Json:
        """Return a commit."""
        person = {"name": commit.author, "email": f"{commit.author}@example.org", "date": commit.date}
        return {
            "sha": commit.sha,
            "commit": {"message": commit.message, "author": person, "committer": person},
            "author": self.user(commit.author),
            "committer": self.user(commit.author),
            "parents": [{"sha": sha} for sha in commit.parents],
            "url": f"{self.api}/commits/{commit.sha}",
            "html_url": f"{self.html}/commit/{commit.sha}",
        }

    def comment(self, comment: Comment) -> Json:
        """Return a comment; one that an App wrote says so."""
        user = self.state.user(comment.user)
        issue = self.state.issues.get(comment.number)
        return {
            "id": comment.id,
            "user": self.user(comment.user),
            "body": comment.body,
            "created_at": stamp(comment.created_at),
            "updated_at": stamp(comment.updated_at),
            "author_association": self.association(comment.user, issue),
            "performed_via_github_app": {"id": APP_ID, "slug": self.state.slug}
            if user.type == "Bot"
            else None,
            "url": f"{self.api}/issues/comments/{comment.id}",
            "html_url": f"{self.html}/pull/{comment.number}#issuecomment-{comment.id}",
            "issue_url": f"{self.api}/issues/{comment.number}",
        }

    def association(self, login: str, issue: Issue | None) -> str:
        """Return what GitHub calls somebody's relation to the repository."""
        if issue is not None and issue.user == login:
            return issue.association
        permission = self.state.user(login).permission
        return "MEMBER" if permission in {"admin", "write"} else "NONE"

    def review(self, review: Review) -> Json:
        """Return a review."""
        return {
            "id": review.id,
            "user": self.user(review.user),
            "body": review.body,
            "state": review.state,
            "commit_id": review.commit_id,
            "submitted_at": stamp(review.submitted_at),
            "author_association": self.association(review.user, None),
            "html_url": f"{self.html}/pull/{review.number}#pullrequestreview-{review.id}",
        }

    def remarks(self, review: Review) -> list[Json]:
        """Return a review's remarks on lines."""
        return [
            {
                "id": review.id * 100 + index,
                "pull_request_review_id": review.id,
                "user": self.user(review.user),
                "path": path,
                "line": line,
                "body": text,
                "commit_id": review.commit_id,
                "created_at": stamp(review.submitted_at),
                "updated_at": stamp(review.submitted_at),
                "author_association": self.association(review.user, None),
                "html_url": f"{self.html}/pull/{review.number}#discussion_r{review.id * 100 + index}",
            }
            for index, (path, line, text) in enumerate(review.comments)
        ]

    def status(self, status: Status) -> Json:
        """Return a commit status."""
        return {
            "id": status.id,
            "state": status.state,
            "context": status.context,
            "description": status.description,
            "target_url": status.target_url,
            "creator": self.user(status.creator),
            "created_at": stamp(status.created_at),
            "updated_at": stamp(status.created_at),
            "url": f"{self.api}/statuses/{status.sha}",
        }

    def check_run(self, run: CheckRun) -> Json:
        """Return a check run."""
        return {
            "id": run.id,
            "name": run.name,
            "head_sha": run.head_sha,
            "status": run.status,
            "conclusion": run.conclusion,
            "external_id": run.external_id,
            "details_url": run.details_url,
            "html_url": f"{self.html}/runs/{run.id}",
            "started_at": stamp(run.started_at),
            "completed_at": stamp(run.completed_at),
            "output": {
                "title": run.title,
                "summary": run.summary,
                "annotations_count": len(run.annotations),
                "annotations_url": f"{self.api}/check-runs/{run.id}/annotations",
            },
            "app": {"id": APP_ID if run.app == self.state.slug else 15_368, "slug": run.app},
            "check_suite": {"id": run.id + 1, "head_branch": None, "head_sha": run.head_sha},
            "pull_requests": [],
        }

    def check_suite(self, runs: list[CheckRun]) -> Json:
        """Return the suite of one App's check runs on a commit."""
        done = all(run.status == "completed" for run in runs)
        good = {"success", "neutral", "skipped"}
        worst = "success" if all(run.conclusion in good for run in runs) else "failure"
        first = runs[0]
        return {
            "id": first.id + 1,
            "head_branch": None,
            "head_sha": first.head_sha,
            "status": "completed" if done else "in_progress",
            "conclusion": worst if done else None,
            "app": self.check_run(first)["app"],
            "pull_requests": [],
            "latest_check_runs_count": len(runs),
        }

    def workflow_run(self, run: WorkflowRun) -> Json:
        """Return an Actions run; its list of pull requests is empty, as it is for forks."""
        return {
            "id": run.id,
            "name": run.name,
            "path": f".github/workflows/{run.name}.yml",
            "head_sha": run.head_sha,
            "head_branch": run.head_branch,
            "event": run.event,
            "status": run.status,
            "conclusion": run.conclusion,
            "run_attempt": run.run_attempt,
            "run_number": run.id,
            "workflow_id": zlib.crc32(run.name.encode()),
            "head_repository": {"full_name": run.head_repository or self.state.full_name},
            "created_at": stamp(run.created_at),
            "updated_at": stamp(run.created_at),
            "run_started_at": stamp(run.created_at),
            "pull_requests": [],
            "html_url": f"{self.html}/actions/runs/{run.id}",
            "url": f"{self.api}/actions/runs/{run.id}",
            "jobs_url": f"{self.api}/actions/runs/{run.id}/jobs",
            "logs_url": f"{self.api}/actions/runs/{run.id}/logs",
            "artifacts_url": f"{self.api}/actions/runs/{run.id}/artifacts",
            "repository": self.repository(),
        }

    def workflow_job(self, job: WorkflowJob, run: WorkflowRun) -> Json:
        """Return a job of an Actions run."""
        return {
            "id": job.id,
            "run_id": run.id,
            "name": job.name,
            "workflow_name": run.name,
            "check_run_url": f"{self.api}/check-runs/{job.id}",
            "head_sha": run.head_sha,
            "head_branch": run.head_branch,
            "status": job.status,
            "conclusion": job.conclusion,
            "run_attempt": job.run_attempt,
            "runner_name": job.runner_name,
            "labels": ["ubuntu-latest"],
            "started_at": stamp(job.started_at),
            "completed_at": stamp(job.completed_at),
            "html_url": f"{self.html}/actions/runs/{run.id}/job/{job.id}",
            "steps": [],
        }

    def artifact(self, artifact: Artifact, run: WorkflowRun) -> Json:
        """Return an artifact of an Actions run."""
        return {
            "id": artifact.id,
            "name": artifact.name,
            "size_in_bytes": len(artifact.data or b""),
            "expired": artifact.data is None,
            "created_at": stamp(artifact.created_at),
            "archive_download_url": f"{self.api}/actions/artifacts/{artifact.id}/zip",
            "workflow_run": {"id": run.id, "head_sha": run.head_sha},
        }
