"""`tidemark compare`: two tables of one topic, by coordinates and content."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tidemark.cli.options import DEFAULT_CONFIG, AsJson, Config, Target, open_settings
from tidemark.cli.output import print_json, stdout, table_of
from tidemark.contract.errors import UsageError

if TYPE_CHECKING:
    from tidemark.config.destination import TableRef
    from tidemark.config.settings import Settings

app = typer.Typer(add_completion=False)


@app.command()
def compare(
    left: Annotated[str, typer.Argument(help="A stream, a folder or a catalog name.")],
    right: Annotated[str, typer.Argument(help="A stream, a folder or a catalog name.")],
    *,
    ignore: Annotated[
        list[str] | None, typer.Option("--ignore", help="Column to leave out. Repeatable.")
    ] = None,
    everything: Annotated[
        bool, typer.Option("--everything", help="All rows, also those that only one has landed so far.")
    ] = False,
    config: Config = DEFAULT_CONFIG,
    target: Target = None,
    as_json: AsJson = False,
) -> None:
    """Exit code 1 where they differ."""
    from tidemark.operations.compare import compare as compare_tables
    from tidemark.platform.open_session import session_for

    settings = open_settings(config, target)
    tables = [_table(settings, name) for name in (left, right)]
    found = compare_tables(session_for(settings), *tables, ignore=tuple(ignore or ()), everything=everything)
    if as_json:
        print_json(found.as_dict())
    else:
        counts = ("same", "different", "only_left", "only_right", "doubled")
        rows = [(name.replace("_", " "), getattr(found, name)) for name in counts]
        console = stdout()
        console.print(table_of(("", "records"), rows, title=f"{found.left} and {found.right}"))
        for kind, places in found.examples.items():
            console.print(f"{kind}: {', '.join(f'{p}:{o}' for _, p, o in places)} (partition:offset)")
        if found.below is not None:
            ends = ", ".join(f"{p}: {o}" for p, o in found.below.items())
            console.print(
                f"left out: records from these offsets on (partition: offset), which one may lack yet: {ends}"
            )
        if found.left_out:
            console.print(f"columns of one table only, left out: {', '.join(found.left_out)}")
    if not found.equal:
        raise typer.Exit(1)


def _table(settings: Settings, name: str) -> TableRef:
    from tidemark.config.destination import TableRef
    from tidemark.platform.session import s3_scheme

    stream, _, kind = name.partition(":")
    if stream in settings.streams:
        tables = settings.tables(stream, scheme=s3_scheme())
        chosen = kind or ("decoded" if "decoded" in tables else "landing")
        if chosen not in tables:
            raise UsageError(f"stream {stream} has no {chosen} table", f"it has: {', '.join(tables)}")
        return tables[chosen]
    return TableRef(path=settings.location(name)) if "/" in name else TableRef(name=name)
