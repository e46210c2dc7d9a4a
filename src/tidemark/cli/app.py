"""The root command: finds sub-commands, renders errors, and returns exit codes.

Exit codes: 0 done, 1 stopped by a failure, 2 wrong use or configuration. Data goes to standard output,
everything else to standard error. A module is imported when its command is called, so that `tidemark
--help` is fast, and commands without Spark run where it is not installed.
"""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from collections.abc import Sequence
from importlib import metadata
from typing import Annotated, Any, NamedTuple

import typer
import typer.core
import typer.main
from rich.console import Console
from rich.text import Text

from tidemark.config.reading.faults import ConfigurationFaults
from tidemark.config.redaction import masked_text
from tidemark.contract.errors import TidemarkError
from tidemark.contract.escaping import escape_control_characters


class Entry(NamedTuple):
    """A sub-command: its name, the module in `tidemark.cli` that has its `app`, and its line in the help."""

    name: str
    module: str
    help: str


COMMANDS = (
    Entry(
        "demo",
        "demo",
        "From nothing to tables: a broker, records, two crashes and the check that nothing is lost.",
    ),
    Entry("check", "check", "Report every fault of the configuration and the schemas at once."),
    Entry("doctor", "doctor", "Check this machine: Java, jars, broker, files; report what to fix."),
    Entry("broker", "broker", "Start and stop a local Kafka broker, produce sample records."),
    Entry("ingest", "streams.ingest", "Land the streams' records in their tables, each exactly once."),
    Entry("status", "streams.status", "Marks, end offsets, lag and last commit of each stream."),
    Entry("decode", "decode", "Show the route, code and row of payloads in a file."),
    Entry(
        "dead-letters", "dead_letters.commands", "List, show, fix, replay, park and export rejected records."
    ),
    Entry("adopt", "streams.adopt", "Take over a table that has rows and no marks."),
    Entry("rewind", "streams.rewind", "Set a stream's marks back or forward."),
    Entry("backfill", "streams.backfill", "Decode an offset range again with today's schema and rules."),
    Entry("compare", "streams.compare", "Compare two tables by coordinates and content."),
    Entry(
        "maintain", "streams.maintain", "Compact, vacuum and clean up the tables; safe while streams write."
    ),
    Entry("fingerprints", "streams.fingerprints", "Show and reset the memory of the fingerprint mode."),
    Entry("breaker", "streams.breaker", "Show and reset circuit breakers."),
    Entry("serve", "serve", "Health, metrics and the console over HTTP."),
    Entry("listen", "listen", "Hand records of topics to your code or a job, at least once."),
    Entry("reports", "reports", "Request reports over landed tables, and create them."),
    Entry("bundle", "bundle", "Check the Databricks bundle, choose its compute, write the file for dbx."),
)


class LazyGroup(typer.core.TyperGroup):
    """Lists its commands by name and help line, and imports a command's module when it is called."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self._entries = {entry.name: entry for entry in COMMANDS}
        for entry in COMMANDS:
            self.add_command(typer.core.TyperCommand(entry.name, help=entry.help), entry.name)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and (entry := self._entries.pop(args[0], None)):
            self.add_command(load_command(entry), entry.name)
        return super().resolve_command(ctx, args)


def load_command(entry: Entry) -> Any:
    """The command of the entry's module. Its help begins with the entry's line."""
    command = typer.main.get_command(importlib.import_module(f"tidemark.cli.{entry.module}").app)
    command.name = entry.name
    command.help = f"{entry.help}\n\n{command.help or ''}".strip()
    return command


app = typer.Typer(
    cls=LazyGroup,
    name="tidemark",
    help="Lands Kafka topics in Delta Lake tables, each record exactly once, and loses none.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)


def _version(value: object) -> None:
    if value:
        typer.echo(f"tidemark {metadata.version('tidemark')}")
        raise typer.Exit


@app.callback()
def _root(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", envvar="TIDEMARK_DEBUG", help="Print tracebacks of errors.")
    ] = False,
) -> None:
    pass


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code. Errors are rendered here, for every command alike."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in arguments or os.environ.get("TIDEMARK_DEBUG", "").lower() in ("1", "true", "yes")
    if "--debug" in arguments[1:]:  # allowed anywhere
        arguments = ["--debug", *(a for a in arguments if a != "--debug")]
    try:
        code = app(arguments, prog_name="tidemark", standalone_mode=True)
    except SystemExit as e:
        return e.code if isinstance(e.code, int) else int(e.code is not None)
    except KeyboardInterrupt:
        _say("stopped")
        return 1
    except BrokenPipeError:
        # The reader of the pipe has ended: print nothing more, not even when Python flushes at its exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as e:
        return render_error(e, debug=debug)
    return code if isinstance(code, int) else 0


def render_error(error: Exception, *, debug: bool = False) -> int:
    """Print the error for a person, on standard error, and return the exit code it means."""
    if debug:
        Console(stderr=True, highlight=False).print(
            Text(masked_text("".join(traceback.format_exception(error))))
        )
    if isinstance(error, ConfigurationFaults):
        _say(f"{error.title} [{error.condition}]")
        for fault in error.faults:
            place = f"{fault.file}:{fault.line}" if fault.line else fault.file
            _say(fault.problem, label=f"  {place}  {fault.key}".rstrip() + ":", style="bold")
            if fault.hint:
                _say(fault.hint, label="    hint:", style="cyan")
        return error.exit_code
    if isinstance(error, TidemarkError):
        _say(f"{error.message} [{error.condition}]")
        if error.hint:
            _say(error.hint, label="hint:", style="cyan")
        return error.exit_code
    if isinstance(error, ModuleNotFoundError) and (error.name or "").split(".")[0] in ("pyspark", "delta"):
        _say("this command needs Spark, which is not installed here")
        _say("pip install 'pyspark==4.2.0' 'delta-spark==4.4.0'", label="hint:", style="cyan")
        return 1
    _say(f"unexpected {type(error).__name__}: {str(error).strip() or 'no message'}")
    if not debug:
        _say("run it again with --debug for the traceback", label="hint:", style="cyan")
    return 1


def _say(text: str, *, label: str = "error:", style: str = "bold red") -> None:
    line = Text.assemble((label, style), " ", escape_control_characters(masked_text(text)))
    Console(stderr=True, highlight=False, soft_wrap=True).print(line)


if __name__ == "__main__":
    sys.exit(main())
