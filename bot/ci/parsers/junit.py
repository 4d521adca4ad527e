"""JUnit reports: failing and passing test cases; hostile XML is refused, broken XML says nothing."""

import re
from collections.abc import Iterable
from xml.etree.ElementTree import Element, ParseError

from bot.ci.failures import Failure, Found, cut, test_key
from bot.ci.parsers import tracebacks

STAGE = re.compile(r"^failed on (?:setup|teardown) with \"(.*?)\"?$")
SIZE_LIMIT = 64 * 1024 * 1024
CASES_LIMIT = 200_000


def parse(text: str) -> Found:
    """Return the failing cases of a report; a report that cannot be read finds nothing."""
    from defusedxml.common import DefusedXmlException
    from defusedxml.ElementTree import fromstring

    if not text or len(text) > SIZE_LIMIT:
        return Found()
    try:
        root = fromstring(text.encode("utf-8", "replace"))
    except (ParseError, DefusedXmlException, ValueError, RecursionError):
        return Found()
    failures: dict[str, Failure] = {}
    passed: set[str] = set()
    for case in cases(root):
        name = case_name(case)
        bad = first_child(case, ("failure", "error"))
        if bad is not None:
            failures[test_key(name)] = case_failure(name, bad)
        elif (
            first_child(case, ("skipped", "flakyFailure", "flakyError", "rerunFailure", "rerunError")) is None
        ):
            passed.add(test_key(name))
    ran = bool(failures or passed)
    return Found(tuple(failures.values()), frozenset(passed - failures.keys()), None, ran=ran)


def cases(root: Element) -> Iterable[Element]:
    """Return the test cases of a report, within a limit."""
    for number, case in enumerate(root.iter("testcase")):
        if number >= CASES_LIMIT:
            return
        yield case


def first_child(case: Element, names: tuple[str, ...]) -> Element | None:
    """Return the first child with one of these names."""
    return next((child for child in case if child.tag in names), None)


def case_name(case: Element) -> str:
    """Return `path::Class::test`; the path comes from `file`, else from the dotted class name."""
    name = case.get("name") or ""
    parts = [part for part in (case.get("classname") or "").split(".") if part]
    file = case.get("file")
    classes = parts[first_class(parts) :]
    if file and file.endswith((".py", ".rs", ".go", ".ts", ".js", ".tsx")):
        head = file
    else:
        module = parts[: first_class(parts)]
        python = bool(module) and (
            module[-1].startswith("test") or module[-1].endswith("_test") or len(module) > 1
        )
        head = "/".join(module) + ".py" if python else ".".join(module)
    return "::".join(part for part in (head, *classes, name) if part) or "unnamed"


def first_class(parts: list[str]) -> int:
    """Return where a dotted class name turns from modules to classes."""
    return next((index for index, part in enumerate(parts) if part[:1].isupper()), len(parts))


def case_failure(name: str, bad: Element) -> Failure:
    """Return one failing case."""
    body = (bad.text or "")[:200_000]
    message = (bad.get("message") or "").strip() or body.strip()
    first = message.split("\n", 1)[0].strip()
    staged = STAGE.match(first)
    first = staged.group(1) if staged else first
    raised = tracebacks.raised_in(first)
    kind = bad.get("type") or None
    exception = raised[0] if raised else kind if kind and tracebacks.looks_like_class(kind) else None
    file = name.split("::")[0] if "::" in name else None
    return Failure(
        "test",
        name,
        exception,
        cut(raised[1] if raised else first),
        paths=(file,) if file else (),
        file=file,
    )
