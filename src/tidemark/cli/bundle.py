"""`tidemark bundle`: check the Databricks bundle without a workspace, and write its generated files."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from tidemark.bundle.check import RULES, check_bundle
from tidemark.bundle.compute import Flavour, compute_file, file_of, job_names
from tidemark.bundle.dbx import DEPLOYMENT_FILE, deployment_of
from tidemark.bundle.source import read_bundle
from tidemark.cli.options import AsJson
from tidemark.cli.output import print_json, stderr, stdout
from tidemark.contract.errors import UsageError

app = typer.Typer(add_completion=False)

Folder = Annotated[Path, typer.Option("--folder", help="Folder of databricks.yml.", metavar="FOLDER")]
HERE = Path()


@app.command()
def check(*, folder: Folder = HERE, as_json: AsJson = False) -> None:
    """Check shape, rules and typed models of every target, without a workspace. Exit code 2 at a fault."""
    findings = check_bundle(folder)
    if as_json:
        print_json({"ok": not findings, "findings": [asdict(f) for f in findings]})
    else:
        console = stdout()
        for finding in findings:
            console.print(f"{finding.file}:{finding.line}: {finding.rule}: {finding.problem}", markup=False)
            console.print(f"    hint: {finding.fix}", style="cyan", markup=False)
        targets = ", ".join(read_bundle(folder).targets)
        faults = f"{len(findings)} fault{'' if len(findings) == 1 else 's'}" if findings else "No fault"
        console.print(f"{faults} by {len(RULES)} rules in targets {targets}.")
    if findings:
        raise typer.Exit(2)


@app.command()
def compute(
    flavour: Annotated[Flavour, typer.Argument(help="How the jobs of the target run.")],
    *,
    target: Annotated[str, typer.Option("--target", "-t", help="Which target.")],
    folder: Folder = HERE,
) -> None:
    """Write resources/compute.<target>.yml: job clusters with continuous streams, or serverless by schedule."""
    source = read_bundle(folder)
    if target not in source.targets:
        raise UsageError(f"the bundle has no target {target}", f"it has {', '.join(source.targets)}")
    path = file_of(source, target)
    path.write_text(compute_file(target, flavour, job_names(source)), encoding="utf-8")
    stderr().print(f"wrote {path.relative_to(source.root)}")


@app.command()
def dbx(
    *,
    node_type: Annotated[
        str, typer.Option("--node-type", help="Node type of the clusters; it depends on the cloud.")
    ] = "i3.xlarge",
    folder: Folder = HERE,
) -> None:
    """Write conf/deployment.yml, from the bundle, for workspaces that still use dbx."""
    source = read_bundle(folder)
    path = source.root / DEPLOYMENT_FILE
    text, unmapped = deployment_of(source, node_type=node_type)
    path.write_text(text, encoding="utf-8")
    stderr().print(
        "\n".join([f"wrote {DEPLOYMENT_FILE}", *(f"not in dbx: {line}" for line in unmapped)]), markup=False
    )
