"""Source trees from repositories that may be hostile."""

import os
from pathlib import Path

import pytest

from perf_runner.checkout import CheckoutError, clean_path, fetch_commit, import_repository, plan_harness


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "git"


def files_of(tree: Path) -> set[str]:
    return {str(path.relative_to(tree)) for path in tree.rglob("*") if not path.is_dir()}


def test_a_tree_holds_the_files_of_its_commit_and_no_repository(toy, folder, tmp_path):
    first = toy.git("rev-parse", "HEAD")
    second = toy.commit({"extra/new.py": "x = 1\n", "toy.py": None})
    repository = import_repository(toy.folder, folder)
    repository.write_tree(first, tmp_path / "one")
    repository.write_tree(second, tmp_path / "two")
    assert "toy.py" in files_of(tmp_path / "one")
    assert files_of(tmp_path / "two") >= {"extra/new.py", "bench/run.py"}
    assert "toy.py" not in files_of(tmp_path / "two")
    assert not (tmp_path / "one" / ".git").exists()


def test_revisions_are_found_by_every_name_that_git_knows(toy, folder):
    first = toy.git("rev-parse", "HEAD")
    toy.git("tag", "v1")
    second = toy.commit({"a": "b"})
    toy.git("branch", "topic")
    repository = import_repository(toy.folder, folder)
    assert {repository.resolve(name) for name in ("HEAD~1", "v1", first, first[:9], "topic~1")} == {first}
    assert {repository.resolve(name) for name in ("HEAD", "main", "topic", "topic^0")} == {second}
    assert repository.parents(second) == (first,)
    assert repository.commits_between(first, second) == (second,)
    assert repository.merge_base(first, second) == first


@pytest.mark.parametrize("revision", ["nope", "--all", "-h", "HEAD~99", "", "main:toy.py", "a b", "\x01"])
def test_a_revision_that_is_none_is_refused_in_words(revision, imported):
    with pytest.raises(CheckoutError, match="no commit is named"):
        imported.resolve(revision)


def test_a_commit_that_no_branch_reaches_can_be_fetched_by_its_sha(toy, folder):
    lost = toy.commit({"lost.py": "1\n"})
    toy.git("reset", "--quiet", "--hard", "HEAD~1")
    repository = import_repository(toy.folder, folder)
    with pytest.raises(CheckoutError):
        repository.resolve(lost)
    fetch_commit(repository, toy.folder, lost)
    assert repository.resolve(lost) == lost


def test_nothing_of_a_hostile_repository_is_executed(toy, folder, tmp_path):
    marker = tmp_path / "executed"
    evil = tmp_path / "evil.sh"
    evil.write_text(f"#!/bin/sh\ntouch {marker}\ncat\n")
    evil.chmod(0o755)
    sha = toy.commit({".gitattributes": "* filter=evil diff=evil\n", "toy.py": "pass\n"})
    for name in ("post-checkout", "post-index-change", "pre-auto-gc", "reference-transaction"):
        hook = toy.folder / ".git" / "hooks" / name
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(f"#!/bin/sh\ntouch {marker}\n")
        hook.chmod(0o755)
    for key in (
        "core.fsmonitor",
        "core.sshCommand",
        "core.pager",
        "core.editor",
        "filter.evil.smudge",
        "filter.evil.clean",
        "filter.evil.process",
        "diff.evil.command",
        "diff.evil.textconv",
        "uploadpack.packObjectsHook",
        "core.alternateRefsCommand",
        "gpg.program",
    ):
        toy.git("config", key, str(evil))
    marker.unlink(missing_ok=True)
    repository = import_repository(toy.folder, folder)
    repository.write_tree(sha, tmp_path / "tree")
    repository.changed(f"{sha}~1", sha, ["toy.py"])
    repository.read(sha, "toy.py")
    assert not marker.exists()
    assert (tmp_path / "tree" / "toy.py").read_text() == "pass\n"


def test_a_submodule_is_neither_fetched_nor_silent(toy, folder, tmp_path):
    fake = "1" * 40
    toy.git("update-index", "--add", "--cacheinfo", f"160000,{fake},vendored")
    (toy.folder / "vendored").mkdir()
    sha = toy.commit(
        {".gitmodules": '[submodule "vendored"]\n\tpath = vendored\n\turl = ext::sh -c "touch /x"\n'}
    )
    repository = import_repository(toy.folder, folder)
    repository.write_tree(sha, tmp_path / "tree")
    assert repository.submodules(sha) == ("vendored",)
    assert list((tmp_path / "tree" / "vendored").iterdir()) == []


def test_the_benchmark_comes_from_the_base_for_both_arms(toy, folder, tmp_path):
    base = toy.git("rev-parse", "HEAD")
    head = toy.commit(
        {"bench/run.py": "print('faster!')\n", "bench/helper.py": "x = 1\n", "toy.py": "pass\n"}
    )
    repository = import_repository(toy.folder, folder)
    harness = plan_harness(repository, base, head, ["bench/**"])
    repository.write_tree(head, tmp_path / "head", harness)
    assert "faster" not in (tmp_path / "head" / "bench" / "run.py").read_text()
    assert not (tmp_path / "head" / "bench" / "helper.py").exists()
    assert (tmp_path / "head" / "toy.py").read_text() == "pass\n"
    assert harness.changed_by_head
    assert "changes its own benchmark (bench/helper.py, bench/run.py)" in harness.notes[0]


def test_a_benchmark_that_only_the_head_has_is_used_for_both_and_said(toy, folder, tmp_path):
    base = toy.git("rev-parse", "HEAD")
    head = toy.commit({"newbench/run.py": "print(1)\n"})
    repository = import_repository(toy.folder, folder)
    harness = plan_harness(repository, base, head, ["newbench"])
    repository.write_tree(base, tmp_path / "base", harness)
    assert (tmp_path / "base" / "newbench" / "run.py").exists()
    assert harness.notes == ("Only the head has the benchmark (newbench): the head's is used for both arms.",)


def test_an_untouched_benchmark_needs_no_note(toy, folder):
    base = toy.git("rev-parse", "HEAD")
    head = toy.slower(2)
    harness = plan_harness(import_repository(toy.folder, folder), base, head, ["bench"])
    assert (harness.sha, harness.notes, harness.changed_by_head) == (base, (), False)


def test_a_link_in_place_of_the_benchmark_leads_no_write_outside(toy, folder, tmp_path):
    base = toy.git("rev-parse", "HEAD")
    outside = tmp_path / "outside"
    outside.mkdir()
    for name in ("__init__.py", "run.py", "function.py"):
        (toy.folder / "bench" / name).unlink()
    (toy.folder / "bench").rmdir()
    (toy.folder / "bench").symlink_to(outside)
    head = toy.commit()
    repository = import_repository(toy.folder, folder)
    repository.write_tree(head, tmp_path / "head", plan_harness(repository, base, head, ["bench"]))
    assert list(outside.iterdir()) == []
    assert not (tmp_path / "head" / "bench").is_symlink()
    assert (tmp_path / "head" / "bench" / "run.py").is_file()


@pytest.mark.parametrize("path", ["../up", "a/../../b", "", "/", ".git/config", "a\0b"])
def test_a_harness_path_outside_the_repository_is_refused(path):
    with pytest.raises(CheckoutError, match="no path inside"):
        clean_path(path)


def test_a_pathspec_with_magic_is_only_a_name(toy, folder):
    base = toy.git("rev-parse", "HEAD")
    head = toy.slower(2)
    repository = import_repository(toy.folder, folder)
    assert repository.changed(base, head, [":(glob)**", "*.py", ":/"]) == ()


def test_trees_are_readable_for_the_sandbox_whatever_the_umask(toy, folder, tmp_path):
    sha = toy.git("rev-parse", "HEAD")
    repository = import_repository(toy.folder, folder)
    before = os.umask(0o077)
    try:
        repository.write_tree(sha, tmp_path / "tree")
    finally:
        os.umask(before)
    assert (tmp_path / "tree" / "bench" / "run.py").stat().st_mode & 0o044 == 0o044
    assert (tmp_path / "tree" / "bench").stat().st_mode & 0o055 == 0o055
    assert (tmp_path / "tree").stat().st_mode & 0o055 == 0o055


def test_a_bundle_is_as_good_as_a_folder(toy, folder, tmp_path):
    base = toy.git("rev-parse", "HEAD")
    head = toy.slower(2)
    toy.git("update-ref", "refs/anything/base", base)
    bundle = tmp_path / "source.bundle"
    toy.git("bundle", "create", "--quiet", str(bundle), "refs/heads/main", "refs/anything/base")
    repository = import_repository(bundle, folder)
    assert (repository.resolve(base), repository.resolve(head)) == (base, head)


@pytest.mark.parametrize("content", [b"", b"garbage\n" * 100, b"# v2 git bundle\n"])
def test_a_broken_bundle_is_refused_in_one_line(content, folder, tmp_path):
    bundle = tmp_path / "source.bundle"
    bundle.write_bytes(content)
    with pytest.raises(CheckoutError) as error:
        import_repository(bundle, folder)
    assert "\n" not in str(error.value)


def test_a_truncated_bundle_is_refused(toy, folder, tmp_path):
    bundle = tmp_path / "source.bundle"
    toy.git("bundle", "create", "--quiet", str(bundle), "main")
    bundle.write_bytes(bundle.read_bytes()[:-100])
    with pytest.raises(CheckoutError):
        import_repository(bundle, folder)


def test_a_folder_that_is_no_repository_is_refused_in_words(tmp_path, folder):
    (tmp_path / "plain").mkdir()
    with pytest.raises(CheckoutError, match="does not appear to be a git repository"):
        import_repository(tmp_path / "plain", folder)
    with pytest.raises(CheckoutError, match="does not exist"):
        import_repository(tmp_path / "absent", folder)


def test_a_file_too_large_to_be_read_is_refused(toy, folder):
    sha = toy.commit({"large.toml": "x" * (5 * 1024**2)})
    repository = import_repository(toy.folder, folder)
    with pytest.raises(CheckoutError, match="larger than 4 MiB"):
        repository.read(sha, "large.toml")
    assert repository.read(sha, "absent.toml") is None
    assert repository.read(sha, "bench") is None
