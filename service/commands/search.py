"""`memlane search "..."`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from service.commands.console import (
    call,
    connection,
    data_option,
    errors_shown,
    json_option,
    result,
    service_options,
)


@click.command()
@click.argument("query")
@service_options
@data_option
@click.option("--limit", default=10, show_default=True, help="Most hits.")
@click.option("--kind", "kinds", multiple=True, help="Only this kind; repeatable.")
@click.option("--explain", is_flag=True, help="Show each hit's components.")
@json_option
def search(
    query: str,
    url: str | None,
    key: str | None,
    data: Path,
    limit: int,
    kinds: tuple[str, ...],
    explain: bool,
    as_json: bool,
) -> None:
    """Ask a tenant's memory."""
    with errors_shown():
        url, key = connection(url, key, data, want="reader")
        body: dict[str, Any] = {"q": query, "limit": limit, "explain": explain}
        if kinds:
            body["kinds"] = list(kinds)
        answer = call("POST", f"{url}/v1/search", key, body=body)
    result(answer, "\n".join(_lines(answer, explain)), as_json=as_json)


def _lines(answer: dict[str, Any], explain: bool) -> list[str]:
    lines = []
    for hit in answer["hits"]:
        lines.append(f"{hit['score']:.3f}  {hit['kind']} {hit['ref']}  {hit['title']}")
        if hit["snippet"]:
            lines.append(f"       {_marked(hit)}")
        if explain:
            parts = [f"{name} {value:g}" for name, value in hit["components"].items() if value]
            lines.append("       " + ", ".join(parts))
    index, semantic = answer["index"], answer["semantic"]
    reason = f" ({semantic['reason']})" if semantic.get("reason") else ""
    lines.append(
        f"{len(answer['hits'])} hits; version {index['version']}, {index['age_ms']} ms old;"
        f" semantic: {semantic['state']}{reason}; {answer['took_ms']['total']:.1f} ms"
    )
    return lines


def _marked(hit: dict[str, Any]) -> str:
    """The snippet with its matches in bold."""
    text, out, at = hit["snippet"], "", 0
    for start, end in hit["marks"]:
        out += text[at:start] + click.style(text[start:end], bold=True)
        at = end
    return f"{out}{text[at:]}"
