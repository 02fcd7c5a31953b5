"""HumanEval (Chen et al. 2021, arXiv 2107.03374): from a chat model's answer to a program that tests it.

As nanochat grades it: the answer's first fenced block (all of it, where there is none) must define the whole function;
the imports at the head of the prompt go before it, the published tests and their call after it.
"""

from __future__ import annotations

import re

_FENCED = re.compile(r"```(?:python)?\s*\n(.*?)\n```", re.DOTALL)


def graded_program(answer: str, prompt: str, test: str, entry_point: str) -> str:
    """A program that ends without an exception if and only if the function in `answer` passes `test`."""
    fenced = _FENCED.search(answer)
    code = fenced.group(1) if fenced else answer
    return f"{_imports(prompt)}\n\n{code.strip()}\n\n{test}\ncheck({entry_point})\n"


def _imports(prompt: str) -> str:
    """The import lines at the head of the prompt, up to its first other statement."""
    lines = []
    for line in map(str.strip, prompt.split("\n")):
        if line.startswith(("import ", "from ")):
            lines.append(line)
        elif line and not line.startswith("#"):
            break
    return "\n".join(lines)
