"""A comment as GitHub would render it, reduced to the lines that its author wrote as plain text."""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

from markdown_it import MarkdownIt
from markdown_it.token import Token

# More than this is never read for commands or self-reviews: both are short.
READ_LIMIT = 20_000
# Stands for whatever is not plain text (code, a link, an image), so that a line cannot start with it unseen.
OPAQUE = "\ufffc"
TAG = re.compile(r"<(/?)([A-Za-z][A-Za-z0-9-]*)[^<>]*>")
VOID = frozenset(
    {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "wbr"}
)
WORDS = re.compile(r"[^\W_]+", re.UNICODE)
SHA = re.compile(r"[0-9a-f]{7,40}")
# A pasted line is known again if most of its words are those of one of ours; short lines must be equal.
ALIKE = 0.8
LEAST_ALIKE_WORDS = 5


@lru_cache(maxsize=1)
def parser() -> MarkdownIt:
    """Return the parser; escaped characters and entities stay tokens of their own."""
    return MarkdownIt("commonmark", {"maxNesting": 20}).enable("table").disable("text_join")


def plain_lines(body: str) -> list[str]:
    """Return the lines of top-level paragraphs outside any HTML element; whatever is not text is `OPAQUE`."""
    lines: list[str] = []
    depth = 0
    tokens = parser().parse(body[:READ_LIMIT])
    for before, token in zip([None, *tokens], tokens, strict=False):
        if token.type == "html_block":
            depth = max(0, depth + balance(token.content))
        elif token.type == "inline" and depth == 0 and is_top_paragraph(before):
            lines += inline_lines(token.children or ())
    return lines


def is_top_paragraph(opening: Token | None) -> bool:
    """Say whether the token opens a paragraph that lies in no list, quote or table."""
    return opening is not None and opening.type == "paragraph_open" and opening.level == 0


def balance(html: str) -> int:
    """Return opened minus closed elements."""
    total = 0
    for closing, name in TAG.findall(html):
        if name.lower() not in VOID:
            total += -1 if closing else 1
    return total


def inline_lines(children: Sequence[Token]) -> list[str]:
    """Return a paragraph's lines; text inside links and inline HTML elements is opaque."""
    lines, hidden = [""], 0
    for token in children:
        if token.type in ("softbreak", "hardbreak"):
            lines.append("")
            continue
        hidden = max(0, hidden + step(token))
        lines[-1] += token.content if token.type == "text" and not hidden else OPAQUE
    return [line.strip() for line in lines]


def step(token: Token) -> int:
    """Return how a token changes the depth of links and inline HTML."""
    if token.type == "html_inline":
        return balance(token.content)
    return {"link_open": 1, "link_close": -1}.get(token.type, 0)


def words(line: str) -> str:
    """Return a line reduced to its words, commits left out: what stays equal when a comment is pasted."""
    return " ".join(word for word in WORDS.findall(line.casefold()) if not SHA.fullmatch(word))


def all_lines(body: str) -> Iterator[str]:
    """Yield every line of a comment, both as written and as a reader sees it.

    Markers are left out: nobody reads them, and `<!-- prgate:route -->` has the words of `@prgate route`.
    """
    yield from (line for line in body[:READ_LIMIT].split("\n") if not line.lstrip().startswith("<!--"))
    for token in parser().parse(body[:READ_LIMIT]):
        if token.type == "inline":
            yield from rendered_lines(token.children or ())


def rendered_lines(children: Sequence[Token]) -> list[str]:
    """Return a block's lines as they read on the page: code and link texts included."""
    lines = [""]
    for token in children:
        if token.type in ("softbreak", "hardbreak"):
            lines.append("")
        elif token.type in ("text", "code_inline", "text_special"):
            lines[-1] += token.content
    return lines


def known_lines(own_bodies: Sequence[str]) -> frozenset[str]:
    """Return the words of every line that this bot wrote, to recognise them where somebody pasted them."""
    return frozenset(found for body in own_bodies for line in all_lines(body) if (found := words(line)))


def without_pasted(lines: Sequence[str], own: frozenset[str]) -> list[str]:
    """Return the lines that are not copies of the bot's own."""
    return [line for line in lines if words(line) not in own]


def prose_lines(body: str) -> list[str]:
    """Return what somebody wrote in their own words: every line outside quotes, code blocks and HTML."""
    lines: list[str] = []
    quoted = 0
    for token in parser().parse(body[:READ_LIMIT]):
        quoted += {"blockquote_open": 1, "blockquote_close": -1}.get(token.type, 0)
        if token.type == "inline" and not quoted:
            lines += [line for line in rendered_lines(token.children or ()) if line.strip()]
    return lines


def own_words(body: str, bot_bodies: Sequence[str]) -> int:
    """Return how many words of a comment are its author's own: quotes, code and pasted bot text left out."""
    known = [frozenset(line.split()) for line in known_lines(bot_bodies)]
    mine = [words(line).split() for line in prose_lines(body)]
    return sum(len(line) for line in mine if not resembles(line, known))


def resembles(line: Sequence[str], known: Sequence[frozenset[str]]) -> bool:
    """Say whether a line's words are (nearly) those of one of the known lines."""
    said = frozenset(line)
    if len(line) < LEAST_ALIKE_WORDS:
        return said in known
    return any(len(said & one) >= ALIKE * len(said) for one in known)


def quotes_from(body: str, bot_body: str) -> bool:
    """Say whether a comment repeats a whole line (of five words or more) of one of the bot's."""
    known = {line for line in known_lines([bot_body]) if len(line.split()) >= LEAST_ALIKE_WORDS}
    return any(words(line) in known for line in all_lines(body))
