"""Groups of commands: their mistakes are one line, and those that few need are loaded when they are used."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from typing import Any, Final, NoReturn

import typer
from typer.core import TyperCommand

from spark_pulsar.cli.frame.help import HelpfulGroup
from spark_pulsar.cli.output.terminal import LostOutput, printable_streams
from spark_pulsar.model.errors import PulsarError
from spark_pulsar.model.extras import installation_of

HELP_NAMES: Final = ["-h", "--help"]
INTERRUPTED: Final = 130
"""Exit status after Ctrl-C, as shells have it."""
_EXTRA: Final = "Got unexpected extra argument"
_UsageError: Final[Any] = typer.BadParameter.__base__
_ClickError: Final[Any] = _UsageError.__base__


class OneLineErrors(HelpfulGroup):
    """A group whose mistakes are one line on standard error: the mistake, and where its help is."""

    def main(
        self,
        args: Any = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """Runs a command and ends with its status; Ctrl-C and a reader that went away end it without a word."""
        if not standalone_mode:
            return super().main(args, prog_name, complete_var, standalone_mode, windows_expand_args, **extra)
        with printable_streams():
            self._run(args, prog_name, complete_var, windows_expand_args, **extra)

    def _run(
        self, args: Any, prog_name: str | None, complete_var: str | None, windows_expand_args: bool, **extra: Any
    ) -> NoReturn:
        try:
            with _interruptible():
                status = super().main(args, prog_name, complete_var, False, windows_expand_args, **extra)
                sys.stdout.flush()  # what cannot be written is an error of the command, not of the interpreter's end
        except _ClickError as error:
            if type(error).__name__ == "NoArgsIsHelpError":
                typer.echo(error.ctx.get_help())
            else:
                sys.stderr.write(f"{_line_of(error)}\n")
            sys.exit(error.exit_code)
        except ModuleNotFoundError as error:
            installation = installation_of(error)
            if installation is None:
                raise
            sys.stderr.write(f"spark-pulsar: {installation}\n")
            sys.exit(1)
        except LostOutput as error:
            if error.strerror:
                sys.stderr.write(f"spark-pulsar: standard output takes no more: {error.strerror}\n")
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # for the flush at the interpreter's end
            sys.exit(1)
        except PulsarError as error:
            sys.stderr.write(f"spark-pulsar: {error}\n")
            sys.exit(1)
        except (typer.Abort, KeyboardInterrupt):
            sys.exit(INTERRUPTED)
        sys.exit(status if isinstance(status, int) else 0)


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """Has Ctrl-C raise KeyboardInterrupt while a command runs; before and after, it ends the process at once."""
    is_deadly = signal.getsignal(signal.SIGINT) is signal.SIG_DFL
    if is_deadly:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        if is_deadly:
            signal.signal(signal.SIGINT, signal.SIG_DFL)


def _line_of(error: Any) -> str:
    text = " ".join(error.format_message().split())
    context = getattr(error, "ctx", None)
    if context is None:
        return f"spark-pulsar: {text}"
    if text.startswith(_EXTRA) and any("--message" in parameter.opts for parameter in context.command.params):
        text = f"{text}: a text follows -m, a file with lines follows --lines"
    return f"{context.command_path}: {text.removesuffix('.')}; see {context.command_path} --help"


def loaded_from(module: str) -> type[TyperCommand]:
    """Returns the class of a command that stands for the Typer `app` of a module, which is imported when the command is
    used: run, completed, or showing its help.

        @app.command("admin", cls=loaded_from("spark_pulsar.cli.admin.app"))
        def admin() -> None: ...
    """

    @cache
    def full_group() -> Any:
        # Typer builds all 470 commands of `admin` at once, which takes a tenth of a second.
        return typer.main.get_command(import_module(module).app)

    class Loaded(TyperCommand):
        def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
            return full_group().make_context(info_name, args, parent=parent, **extra)

    return Loaded
