"""Answers as Markdown, for agents: the same fields as the JSON, in fewer tokens. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from service.http.answers import iso_time

MEDIA_TYPE: Final = "text/markdown"
KINDS: Final = 20
"""Most kinds that a status names."""
WHY_LEAST: Final = "5"
"""From how many tenths on a component is named beside a score."""

Body = Mapping[str, Any]


def search(body: Body) -> str:
    """A page of compact rows."""
    lines = [f"{len(body['hits'])} hits: kind `ref` title: snippet (score why; tokens if read)"]
    lines += [_row(n, cells, body["components"]) for n, cells in enumerate(body["hits"], 1)]
    return "\n".join([*lines, *_left_out(body), *_next(body), _footer(body)])


def hits(body: Body) -> str:
    """A page of whole hits."""
    lines = []
    for number, hit in enumerate(body["hits"], 1):
        parts = ", ".join(f"{name} {value:g}" for name, value in hit["components"].items() if value)
        lines += [
            f"{number}. {hit['kind']} `{hit['ref']}` {_line(hit['title'])}",
            f"   {hit['score']:.3f} ({parts}); {iso_time(hit['updated_at'])[:16]}; {hit['tokens']}",
            f"   {_line(hit['snippet'])}",
        ]
    return "\n".join([*lines, *_left_out(body), *_next(body), _footer(body)])


def timeline(body: Body) -> str:
    """A document between its neighbours, oldest first."""
    lines = ["oldest first: time kind `ref` title: snippet (tokens if read)"]
    lines += [f"- {_moment(moment)}" for moment in body["before"]]
    if body["here"] is not None:
        lines.append(f"- **here** {_moment(body['here'])}")
    lines += [f"- {_moment(moment)}" for moment in body["after"]]
    return "\n".join([*lines, *_left_out(body), _footer(body)])


def documents(body: Body) -> str:
    """Whole documents."""
    return "\n".join([*_documents(body), _footer(body)])


def prefetch(body: Body) -> str:
    """What was found in time, and what was not tried."""
    lines = [search(body)]
    if body["skipped"]:
        lines.append(f"Not done within {body['budget_ms']} ms: {', '.join(body['skipped'])}.")
    return "\n".join(lines)


def status(body: Body) -> str:
    """What the memory holds."""
    most = sorted(body["documents_by_kind"].items(), key=lambda each: -each[1])
    kinds = ", ".join(f"{count} {kind}" for kind, count in most[:KINDS])
    if len(most) > KINDS:
        kinds += f", and {len(most) - KINDS} kinds more"
    return (
        f"{body['tenant']}: {body['documents']} documents ({kinds or 'none'});"
        f" version {body['version']}, {body['index']['age_ms']} ms old"
    )


def _row(number: int, cells: Sequence[Any], names: Sequence[str]) -> str:
    kind, ref, title, snippet, score, tenths, tokens = cells
    order = sorted(zip(tenths, names, strict=True), key=lambda each: each[0], reverse=True)
    why = "+".join(name for tenth, name in order[:2] if tenth >= WHY_LEAST)
    text = f"{title}: {snippet}" if snippet else title
    return f"{number}. {kind} `{ref}` {text} ({score:.2f}{' ' + why if why else ''}; {tokens})"


def _moment(moment: Body) -> str:
    text = f"{moment['title']}: {moment['snippet']}" if moment["snippet"] else moment["title"]
    when = iso_time(moment["updated_at"])[:16]
    return f"{when} {moment['kind']} `{moment['ref']}` {text} ({moment['tokens']})"


def _documents(body: Body) -> Iterator[str]:
    for document in body["documents"]:
        yield f"# {document['kind']} `{document['ref']}` {_line(document['title'])}"
        yield f"updated {iso_time(document['updated_at'])[:16]}"
        if document["identifiers"]:
            yield f"identifiers: {', '.join(map(_line, document['identifiers']))}"
        for field in ("summary", "meta", "note"):
            if document[field]:
                yield f"\n{document[field]}"
        yield ""
    for cut in body["cut"]:
        yield (
            f"Cut: {cut['field']} of {cut['kind']} `{cut['ref']}` to {cut['chars']} of"
            f" {cut['of_chars']} characters."
        )
    for title, names in (("Left out", body["left_out"]), ("Missing", body["missing"])):
        if names:
            yield f"{title}: " + ", ".join(f"{each['kind']} `{each['ref']}`" for each in names)
    if body["unnamed"]:
        yield f"And {body['unnamed']} more that are cut, missing or left out."


def _left_out(body: Body) -> Iterator[str]:
    if body["left_out"]:
        yield f"{body['left_out']} more left out for want of room."


def _next(body: Body) -> Iterator[str]:
    if body.get("cursor"):
        yield f"More: cursor `{body['cursor']}`"


def _footer(body: Body) -> str:
    parts = []
    if (index := body.get("index")) is not None:
        parts.append(f"version {index['version']}, {index['age_ms']} ms old")
    if (semantic := body.get("semantic")) is not None:
        reason = f" ({semantic['reason']})" if semantic["reason"] else ""
        parts.append(f"semantic {semantic['state']}{reason}")
    tokens = body["tokens"]
    parts.append(
        f"about {tokens['shown']} tokens (±{tokens['error_percent']}%) for {tokens['full']},"
        f" {tokens['saved_percent']}% saved"
    )
    return "; ".join(parts)


def _line(text: str) -> str:
    return " ".join(text.split())
