"""The house stays in order: floors, file sizes, the one way to open a file."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LINES_MOST = 400

#: Lower number, lower floor: a module may import its own floor and everything below.
FLOORS = {
    "service.errors": 0,
    "service.settings": 1,
    "service.text": 2,
    "service.ranking": 3,
    "service.index": 4,
    "service.search": 5,
    "service.tenancy": 6,
    "service.replica": 7,
    "service.semantic": 8,
    "service.telemetry": 9,
    "service.node": 10,
    "service.operator": 10,
    "service.http": 11,
    "service.app": 12,
    "service.serve": 13,
    "service.roles": 14,
    "service.commands": 15,
    "service.cli": 16,
    "service.__main__": 17,
    "service.docs": 17,
    "service.sources": 2,  # the client side: it shares settings and errors with the service
}
PURE = ("service.text", "service.ranking")
IMPURE = {"os", "io", "time", "random", "socket", "pathlib", "subprocess", "apsw"}


def modules() -> Iterator[tuple[str, Path, ast.Module]]:
    for package in ("memlane", "service", "embedder", "golden"):
        for path in sorted((ROOT / package).rglob("*.py")):
            name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
            yield name, path, ast.parse(path.read_text())


def imports(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            yield node.module or ""
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def floor(module: str) -> int | None:
    parts = module.split(".")
    for size in range(len(parts), 0, -1):
        if (found := FLOORS.get(".".join(parts[:size]))) is not None:
            return found
    return None


def test_imports_go_down_only() -> None:
    wrong = []
    for name, _, tree in modules():
        own = floor(name)
        if not name.startswith("service.") or own is None:
            continue
        for target in imports(tree):
            theirs = floor(target)
            if theirs is not None and theirs > own:
                wrong.append(f"{name} -> {target}")
    assert wrong == []


def test_every_service_module_has_a_floor() -> None:
    homeless = [n for n, _, _ in modules() if n.startswith("service.") and floor(n) is None]
    assert homeless == []


def test_text_and_ranking_are_pure() -> None:
    wrong = [
        f"{name} -> {target}"
        for name, _, tree in modules()
        if name.startswith(PURE)
        for target in imports(tree)
        if target.split(".")[0] in IMPURE
    ]
    wrong += [
        f"{name}: {ast.unparse(node)}"
        for name, _, tree in modules()
        if name.startswith(PURE)
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr in ("now", "utcnow", "today")
    ]
    assert wrong == []


def test_the_embedder_and_the_service_share_only_the_protocol() -> None:
    protocol = ("embedder.embed_pb2", "embedder.embed_pb2_grpc")
    wrong = [
        f"{name} -> {target}"
        for name, _, tree in modules()
        for target in imports(tree)
        if (name.startswith("embedder") and target.startswith("service"))
        or (
            name.startswith("service")
            and target.startswith("embedder.")
            and not target.startswith(protocol)
        )
    ]
    assert wrong == []


def test_the_client_stands_alone_and_only_the_client_side_uses_it() -> None:
    users = ("memlane", "service.sources", "service.commands", "golden")
    wrong = [
        f"{name} -> {target}"
        for name, _, tree in modules()
        for target in imports(tree)
        if (name.startswith("memlane") and target.startswith(("service", "embedder", "golden")))
        or (target.split(".")[0] == "memlane" and not name.startswith(users))
    ]
    assert wrong == []


def test_only_one_module_opens_sqlite_files_of_tenants() -> None:
    """Any other connection could checkpoint behind Litestream's back; see index/connection.py."""
    allowed = {
        "service/index/connection.py",
        "service/replica/cache.py",
        "service/sources/database.py",  # the client side: files of other programs, its own state
        "golden/peers/fts5.py",  # a peer's tables in memory: no tenant's file
        "golden/rescore_cost.py",  # made-up vectors in memory
    }
    wrong = []
    for _, path, tree in modules():
        for node in ast.walk(tree):
            if isinstance(node, ast.Import) and any(a.name == "sqlite3" for a in node.names):
                wrong.append(f"{path}: sqlite3")
            if (
                isinstance(node, ast.Call)
                and ast.unparse(node.func) in ("apsw.Connection", "Connection")
                and str(path.relative_to(ROOT)) not in allowed
            ):
                wrong.append(f"{path}: {ast.unparse(node)}")
    assert wrong == []


@pytest.mark.parametrize("package", ["memlane", "service", "embedder", "golden", "tests"])
def test_files_hold_one_noun_of_bounded_size(package: str) -> None:
    long = {
        str(path.relative_to(ROOT)): lines
        for path in (ROOT / package).rglob("*.py")
        if "_pb2" not in path.name and (lines := len(path.read_text().splitlines())) > LINES_MOST
    }
    assert long == {}


def packaged(package: str, path: Path, patterns: dict[str, list[str]]) -> bool:
    """Whether a wheel has this file: named for its package, or for whatever folder of code."""
    inside = path.relative_to(ROOT / package)
    named = (p for p in patterns.get(package, []) if p.count("/") + 1 == len(inside.parts))
    beside_code = (path.parent / "__init__.py").exists()
    return any(map(inside.match, named)) or (beside_code and any(map(path.match, patterns["*"])))


def test_every_file_that_is_no_code_is_packaged() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    patterns = project["tool"]["setuptools"]["package-data"]
    code = (".py", ".pyc", ".pyi", ".so", ".proto")
    missing = [
        str(path.relative_to(ROOT))
        for package in ("memlane", "service", "embedder", "golden")
        for path in sorted((ROOT / package).rglob("*"))
        if path.is_file() and path.suffix not in code and not packaged(package, path, patterns)
    ]
    assert missing == []
