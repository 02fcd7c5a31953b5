"""`xsa <verb>`: one verb a stage, and verbs that look at studies. What a verb needs is imported when it runs."""

from __future__ import annotations

import errno
import importlib
import pkgutil
import signal
import sys
from typing import Any

import click

import xsa.commands
from xsa.commands.options import CONTEXT
from xsa.commands.stages import stage_verb
from xsa.store.errors import UserError
from xsa.study.source import nearest
from xsa.study.stages import STAGES

# Verb -> module of `xsa.commands`. A name that Python reserves has an underscore behind it there.
VERBS = {
    module.name.rstrip("_").replace("_", "-"): f"{xsa.commands.__name__}.{module.name}"
    for module in pkgutil.iter_modules(xsa.commands.__path__)
    if module.name not in ("options", "stages")
}


class Verbs(click.Group):
    """Finds a verb by its name, and turns UserError into one sentence."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The stages in the order in which data flows, then the rest."""
        return [*STAGES, *sorted(VERBS)]

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name in STAGES:
            return stage_verb(name)
        return importlib.import_module(VERBS[name]).command if name in VERBS else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does; a name that is no verb is refused with the nearest one."""
        if not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            ctx.fail(f"there is no verb {args[0]!r}; {nearest(args[0], self.list_commands(ctx))}")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except UserError as error:
            click.secho(f"xsa {ctx.invoked_subcommand}: ", fg="red", bold=True, err=True, nl=False)
            click.echo(str(error), err=True)
            ctx.exit(2)
        except BrokenPipeError:
            ctx.exit(0)
        except OSError as error:
            if error.errno != errno.ENAMETOOLONG:
                raise
            click.echo(f"xsa {ctx.invoked_subcommand}: no file can have so long a name: {error.filename}", err=True)
            ctx.exit(2)


@click.group(cls=Verbs, context_settings=CONTEXT)
@click.version_option(package_name="xsa", prog_name="xsa")
def main() -> None:
    """Reproduce "Exclusive Self-Attention Beyond AdamW", stage by stage.

    Snakemake calls these verbs; each also runs by hand, from the project's folder.

    Exit codes: 0 done, 2 something to mend (the message says what), 75 stopped after its state was saved (run it again
    to go on), 143 ended by SIGTERM.
    """


def run() -> None:
    """Entry of the console script: SIGTERM ends a verb as Ctrl-C does, so that `finally` clauses run."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    main()


if __name__ == "__main__":
    run()
