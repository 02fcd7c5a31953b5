"""`python -m tests.workflow.lint`: Snakemake's own linter, less the one piece of advice that this project does not take.

It wants a conda environment or container on every rule. Here all rules run in the one environment that the clone was
installed into (`requirements.lock`), and every record states the versions that made it.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

NOT_TAKEN = "Specify a conda environment or container for each rule."


def findings(text: str) -> list[str]:
    """The linter's bullets, each with the rule it is about, without the advice not taken."""
    rule, found = "", []
    for line in text.splitlines():
        if line.startswith("Lints for "):
            rule = line.removeprefix("Lints for ").rstrip(":")
        elif re.match(r"    \* ", line) and NOT_TAKEN not in line:
            found.append(f"{rule}: {line.strip(' *')}")
    return found


def main() -> int:
    """Run the linter; print what it found; 1 when that is anything, or when it failed."""
    command = [str(Path(sys.executable).with_name("snakemake")), "--lint", "--config", "study=demo"]
    run = subprocess.run(command, capture_output=True, text=True)
    text = run.stdout + run.stderr
    if "Lints for " not in text and "condition" not in text:
        print(text)
        return 1
    found = findings(text)
    print("\n".join(found) if found else "snakemake --lint: nothing to mend")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
