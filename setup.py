"""Compiles the tokenizer with mypyc where a C compiler is there; pure Python runs where none is.

`MEMLANE_PURE=1` at build time asks for pure Python. Everything else is in pyproject.toml.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).parent
#: What pays: everything that an indexed or searched text goes through.
COMPILED = (
    "service/text/folding.py",
    "service/text/scan.py",
    "service/text/tokenizer.py",
    "service/text/spans.py",
    "service/text/snippets.py",
    "service/text/identifiers.py",
)


def say(message: str) -> None:
    sys.stderr.write(f"memlane: {message}\n")


def extensions() -> list[Extension]:
    if os.environ.get("MEMLANE_PURE", "0") not in ("", "0"):
        say("MEMLANE_PURE is set: the tokenizer stays pure Python")
        remove_built()
        return []
    try:
        from mypyc.build import mypycify

        found: list[Extension] = mypycify(list(COMPILED), opt_level="3", group_name="memlane_text")
    except (Exception, SystemExit) as error:  # mypyc exits where mypy finds an error
        say(f"the tokenizer stays pure Python: mypyc failed ({error!r})")
        return []
    return found


def remove_built() -> None:
    """Remove what an earlier editable build left beside the sources: it would win over them."""
    for pattern in (*(f"{Path(source).stem}.*" for source in COMPILED), "*__mypyc.*"):
        folder = ROOT if "__mypyc" in pattern else ROOT / "service/text"
        for path in folder.glob(pattern):
            if path.suffix in (".so", ".pyd"):
                path.unlink()


class BuildOrStayPure(build_ext):
    """All extensions or none: they import each other."""

    def run(self) -> None:
        for extension in self.extensions:
            extension.optional = True  # a missing file is no error when wheels are put together
        super().run()

    def build_extensions(self) -> None:
        wanted = list(self.extensions)
        try:
            for extension in wanted:
                self.build_extension(extension)
        except Exception as error:  # whatever the compiler's wrapper raises: the install goes on
            say(f"the tokenizer stays pure Python: the C compiler failed ({error})")
            for extension in wanted:
                Path(self.get_ext_fullpath(extension.name)).unlink(missing_ok=True)
            remove_built()
        else:
            if wanted:
                say("the tokenizer is compiled")


setup(ext_modules=extensions(), cmdclass={"build_ext": BuildOrStayPure})
