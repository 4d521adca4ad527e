"""Foreign text made harmless inside a comment: no mention, no HTML, no link, no broken table, no marker."""

import re

COMMENT_LIMIT = 65_536
# Room for the note that says the rest was cut, and for fences that must be closed.
CUT_AT = 64_000
# A word joiner after the sign: the reader sees the same, GitHub sees no mention and no reference.
JOINER = "\u2060"
SPECIAL = re.compile(r"[\\`*_{}\[\]()<>#+!|~$&]")
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]")
TOUCHY = re.compile(r"(?<=@)|(?<=#)(?=\d)|(?<=://)|(?<=\bGH)(?=-\d)|(?<=\bwww)(?=\.)", re.IGNORECASE)
TICKS = re.compile(r"`+")


def one_line(text: str, limit: int = 300) -> str:
    """Return `text` on one line without control characters, cut at `limit` with an ellipsis."""
    flat = " ".join(CONTROL.sub(" ", text[: limit * 8]).split())
    return flat if len(flat) <= limit else flat[: limit - 1].rstrip() + "…"


def text(value: str, limit: int = 300) -> str:
    """Return foreign prose for a line of Markdown: it renders as itself and does nothing."""
    flat = one_line(value, limit)
    calm = TOUCHY.sub(JOINER, flat)
    return SPECIAL.sub(lambda match: "\\" + match[0], calm)


def prose(value: str, limit: int = 600) -> str:
    """Return a sentence of ours with foreign names in backticks: those become code spans, the rest text."""
    parts = one_line(value, limit).split("`")
    if len(parts) % 2 == 0:  # a backtick without its partner
        return text(value, limit)
    return "".join(
        code(part, limit) if place % 2 else keep_blanks(part, limit) for place, part in enumerate(parts)
    )


def keep_blanks(part: str, limit: int) -> str:
    """Return a piece of prose with the blanks at its ends."""
    inner = text(part, limit)
    if not inner:
        return part
    return (" " if part[0] == " " else "") + inner + (" " if part[-1] == " " else "")


def code(value: str, limit: int = 300) -> str:
    """Return foreign text as a code span: mentions and markup in it are dead; a bar cannot break a table."""
    flat = one_line(value, limit).replace("|", "\u01c0") or " "
    longest = max((len(run) for run in TICKS.findall(flat)), default=0)
    fence = "`" * (longest + 1)
    pad = " " if longest or flat.startswith(" ") else ""
    return f"{fence}{pad}{flat}{pad}{fence}"


def block(value: str, limit: int = 8_000) -> str:
    """Return foreign lines as a fenced block which they cannot close."""
    lines = [CONTROL.sub(" ", line) for line in value[:limit].replace("\r\n", "\n").split("\n")]
    body = "\n".join(lines).strip("\n")
    longest = max((len(run) for run in TICKS.findall(body)), default=0)
    fence = "`" * max(3, longest + 1)
    note = "\n… (cut)" if len(value) > limit else ""
    return f"{fence}text\n{body}{note}\n{fence}"


def link(label: str, url: str | None) -> str:
    """Return a link to an http(s) address, or the label alone where the address is none or not one."""
    shown = text(label)
    if not url or not re.fullmatch(r"https?://[^\s<>()\[\]\"'`|\\]{1,1500}", url):
        return shown
    return f"[{shown}]({url})"


def login(name: str) -> str:
    """Return an account in backticks: it is named, not pinged."""
    return code(name.removeprefix("@"), 100)


def mention(name: str) -> str:
    """Return `@name` for an account or a team that is asked on purpose; anything else is only named."""
    bare = name.removeprefix("@")
    if re.fullmatch(r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,38})(?:/[\w.-]{1,100})?", bare):
        return f"@{bare}"
    return login(bare)


def fit(body: str) -> str:
    """Return `body` within GitHub's limit: cut at a line, fences and folds closed, and a note says so."""
    if len(body) <= CUT_AT:
        return body
    kept = body[:CUT_AT].rsplit("\n", 1)[0]
    return kept + closing(kept) + "\n\n_Cut here: the rest does not fit into a comment._\n"


def closing(kept: str) -> str:
    """Return what closes the fences and folds that are open at the end of `kept`."""
    fence = ""
    for line in kept.split("\n"):
        ticks = re.match(r"`{3,}", line.strip())
        if ticks and not fence:
            fence = ticks[0]
        elif fence and line.strip() == fence:
            fence = ""
    folds = kept.count("<details>") - kept.count("</details>")
    return (f"\n{fence}" if fence else "") + "\n\n</details>" * max(0, folds)
