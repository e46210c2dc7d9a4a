"""`tidemark adopt`: take over a table whose marks are missing, another stream's, or in doubt."""

from __future__ import annotations

from typing import Annotated

import typer

from tidemark.cli.options import DEFAULT_CONFIG, AsJson, Config, Target, Yes, open_settings
from tidemark.cli.output import print_json, stderr, stdout
from tidemark.cli.streams.targets import open_targets
from tidemark.operations.adopt import MarksFrom, adoptable_marks
from tidemark.operations.adopt import adopt as take_over

app = typer.Typer(add_completion=False)


@app.command()
def adopt(
    *,
    stream: Annotated[str, typer.Option("--stream", "-s", help="The stream that is to own the table.")],
    marks_from: Annotated[
        MarksFrom, typer.Option("--marks", help="Where the marks come from.")
    ] = MarksFrom.ROWS,
    yes: Yes = False,
    config: Config = DEFAULT_CONFIG,
    target: Target = None,
    as_json: AsJson = False,
) -> None:
    """Stop every writer of the table first. The command shows the marks and asks before it sets them."""
    from tidemark.source.topics import KafkaAdmin

    settings = open_settings(config, target, streams=[stream])
    admin = KafkaAdmin(settings.kafka)
    spark, targets = open_targets(settings, stream)
    for one in targets:
        adopted = adoptable_marks(spark, admin, one, marks_from)
        marks = dict(adopted.marks)
        if not yes:
            stderr().print(f"{one.table}: next offsets to read {marks}")
            typer.confirm("Set these marks?", abort=True, err=True)
        version = take_over(spark, admin, one, adopted).version
        if as_json:
            print_json({"stream": one.name, "table": str(one.table), "version": version, "marks": marks})
        else:
            stdout().print(f"{one.table}: marks set in version {version}")
