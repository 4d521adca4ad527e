"""Module pages: every shape of front matter that pages were seen with, and hostile ones."""

import time
from pathlib import Path

from routing.modules import parse_page
from routing.ownership import Ownership

FULL = """---
title: Attention Kernels
kind: module
status: draft
ownership_status: provisional
owners:
  - "@ann"
  - "bob"
document_stewards: ["@stella"]
required_reviewers:
  - "@rita"
primary_code_paths:
  - pkg/attention/**
  # a comment inside the list
  - pkg/ops.py
primary_code_path_owners:
  - paths: [pkg/attention/flash/**]
    owners: ["@flo"]
primary_path_exceptions:
  - path: pkg/attention/cache.py
    owner: ../cache.md
related_code_paths:
  - pkg/platforms/*/quant/**
depends_on:
  - ../cache.md
  - missing.md
validation_paths:
  - tests/attention/**
upstream_refs: []
last_reviewed: 2026-13-45
last_verified_commit: 0123
---
# Attention
owners: "@nobody"
"""


def test_every_field_is_read() -> None:
    page = parse_page("docs/m/kernels/attention.md", FULL)
    assert page is not None
    assert (page.title, page.kind, page.status, page.is_provisional) == (
        "Attention Kernels",
        "module",
        "draft",
        True,
    )
    assert page.owners == ("@ann", "@bob")
    assert (page.document_stewards, page.required_reviewers) == (("@stella",), ("@rita",))
    assert page.owners_of("pkg/attention/flash/a.py") == ("@ann", "@bob", "@flo")
    assert page.owners_of("pkg/ops.py") == ("@ann", "@bob")
    assert page.related.find("pkg/platforms/cuda/quant/x.py") is not None
    assert page.validation.find("tests/attention/test_a.py") is not None
    assert page.depends_on == ("docs/m/cache.md", "docs/m/kernels/missing.md")
    exception = page.exception_for("pkg/attention/cache.py")
    assert exception is not None
    assert exception.page == "docs/m/cache.md"
    assert page.problems == ()


def test_nulls_single_texts_and_absent_fields_are_survived() -> None:
    text = '---\nowners: "@ann"\nprimary_code_paths: pkg/**\nrelated_code_paths:\nvalidation_paths: ~\n---\n'
    page = parse_page("m/a.md", text)
    assert page is not None
    assert page.owners == ("@ann",)
    assert page.primary.find("pkg/x") is not None
    assert not page.related
    assert page.problems == ()


def test_a_page_without_front_matter_is_no_module() -> None:
    assert parse_page("m/a.md", "# Archive\n---\nowners: x\n---\n") is None
    assert parse_page("m/a.md", "") is None


def test_byte_order_mark_and_crlf_are_accepted() -> None:
    page = parse_page("m/a.md", '\ufeff---\r\nowners: ["@ann"]\r\n---\r\ntext')
    assert page is not None
    assert page.owners == ("@ann",)


def test_faults_are_named_and_leave_the_rest_alone() -> None:
    paths = 'primary_code_paths: [pkg/**, "a***b", [3]]'
    text = f'---\nowners: ["@ann", "not a handle", {{a: b}}]\n{paths}\ndepends_on: {{a: b}}\n---\n'
    page = parse_page("m/a.md", text)
    assert page is not None
    assert page.owners == ("@ann",)
    assert page.primary.find("pkg/a") is not None
    said = " | ".join(page.problems)
    assert len(page.problems) == 5
    assert "'not a handle' is not a handle" in said
    assert "three stars" in said
    assert "`depends_on` is not a list" in said


def test_an_unquoted_handle_says_how_to_write_it() -> None:
    page = parse_page("m/a.md", "---\nkind: module\nowners: [@ann]\n---\n")
    assert page is not None
    (problem,) = page.problems
    assert "line 3" in problem
    assert "quotes" in problem


def test_hostile_front_matter_is_refused_quickly() -> None:
    bomb = "---\na: &a [x,x,x,x,x,x,x,x]\n" + "".join(f"b{n}: &b{n} [*a,*a,*a]\n" for n in range(9)) + "---\n"
    texts = [
        bomb,
        "---\n" + "[" * 30_000 + "\n---\n",
        "---\n" + "- " * 5_000 + "\n---\n",
        "---\na: [" + "x," * 20_000 + "]\n---\n",
        "---\nnever: closed\n",
        "---\n" + "a" * 100_000 + "\n---\n",
        "---\na: !!python/object/apply:os.system ['true']\n---\n",
        "---\n? {a: b}\n: c\n---\n",
        "---\njust a text\n---\n",
        "---\n\x00\x01\n---\n",
    ]
    start = time.perf_counter()
    for text in texts:
        page = parse_page("m/a.md", text)
        assert page is not None
        assert page.problems, text[:40]
    assert time.perf_counter() - start < 5


def test_names_are_phrases_not_single_words() -> None:
    page = parse_page("docs/m/quantization.md", '---\ntitle: Quantization\nowners: ["@ann"]\n---\n')
    assert page is not None
    assert all(phrase.strip().count(" ") for phrase in page.names)
    assert page.tags == {" quantization "}


def test_a_folder_is_read_in_githubs_order_and_no_link_leads_out(tmp_path: Path) -> None:
    root, outside = tmp_path / "tree", tmp_path / "outside.md"
    pages = root / "docs" / "m"
    pages.mkdir(parents=True)
    (root / ".github").mkdir()
    (root / "CODEOWNERS").write_text("* @second\n")
    (root / ".github" / "CODEOWNERS").write_bytes(b"* @first # \xff\n")
    (pages / "a.md").write_text('---\nowners: ["@ann"]\nprimary_code_paths: [pkg/**]\n---\n')
    outside.write_text('---\nowners: ["@eve"]\nprimary_code_paths: ["**"]\n---\n')
    (pages / "z.md").symlink_to(outside)
    ownership = Ownership.from_folder(root, "docs/m")
    assert ownership.codeowners_path == ".github/CODEOWNERS"
    match = ownership.match("x")
    assert match is not None
    assert match.owners == ("@first",)
    assert list(ownership.pages) == ["docs/m/a.md"]
    assert list(Ownership.from_folder(root, "../..").pages) == []


def test_a_repository_without_any_ownership_is_fine(tmp_path: Path) -> None:
    ownership = Ownership.from_folder(tmp_path)
    assert ownership.match("a") is None
    assert ownership.primary("a") == ()
