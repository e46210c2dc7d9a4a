"""`tidemark adopt`: take over a table whose marks are missing, another stream's, or in doubt."""

from __future__ import annotations

import uuid
from typing import Annotated

import typer
from rich.console import Console

from tidemark.cli.options import DEFAULT_CONFIG, AsJson, Config, Target, open_settings, print_json
from tidemark.operations.adopt import MarksFrom, adoptable_marks
from tidemark.operations.adopt import adopt as take_over

app = typer.Typer(help="Take over a table: set its marks from its rows, or keep those it has.")


@app.callback(invoke_without_command=True)
def adopt(
    *,
    stream: Annotated[str, typer.Option("--stream", "-s", help="The stream that is to own the table.")],
    marks_from: Annotated[
        MarksFrom, typer.Option("--marks", help="Where the marks come from.")
    ] = MarksFrom.ROWS,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    config: Config = DEFAULT_CONFIG,
    target: Target = None,
    as_json: AsJson = False,
) -> None:
    """Stop every writer of the table first. Shows the marks and asks before it sets them."""
    from tidemark.platform.open_session import session_for
    from tidemark.source.topics import KafkaAdmin
    from tidemark.streams.targets import targets_of

    settings = open_settings(config, target)
    settings.stream(stream)
    spark = session_for(settings)
    admin = KafkaAdmin(settings.kafka)
    for one in targets_of(spark, settings, stream, run=uuid.uuid4().hex):
        adopted = adoptable_marks(spark, admin, one, marks_from)
        marks = adopted.marks
        if not yes:
            Console(stderr=True).print(f"{one.table}: next offsets to read {dict(marks)}", highlight=False)
            typer.confirm("Set these marks?", abort=True, err=True)
        state = take_over(spark, admin, one, adopted)
        told = {"stream": one.name, "table": str(one.table), "version": state.version, "marks": dict(marks)}
        if as_json:
            print_json(told)
        else:
            Console().print(f"{one.table}: marks set in version {state.version}", highlight=False)
