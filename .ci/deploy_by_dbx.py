"""`dbx deploy` of each environment of a deployment file, to a stand-in for a workspace that keeps what it is sent.

Ends with 1 where dbx fails, a job does not arrive, or a file that a job names was not uploaded.
Usage: deploy_by_dbx.py DBX DEPLOYMENT_FILE, in a folder with dist/ and conf/.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

ARTIFACTS = "dbfs:/dbx/tidemark"
RUN = {
    "run_id": "1", "run_uuid": "1", "experiment_id": "1", "status": "RUNNING", "lifecycle_stage": "active",
    "start_time": 1, "artifact_uri": f"{ARTIFACTS}/1/artifacts",
}  # fmt: skip
EXPERIMENT = {
    "experiment_id": "1", "name": "/Shared/dbx/tidemark", "artifact_location": ARTIFACTS,
    "lifecycle_stage": "active",
}  # fmt: skip
ANSWERS: dict[str, Any] = {
    "mlflow/experiments/get-by-name": {"experiment": EXPERIMENT},
    "mlflow/experiments/get": {"experiment": EXPERIMENT},
    "mlflow/runs/create": {"run": {"info": RUN, "data": {}}},
    "mlflow/runs/get": {"run": {"info": RUN, "data": {}}},
    "mlflow/runs/update": {"run_info": RUN},
    "jobs/list": {"jobs": [], "has_more": False},
    "jobs/create": {"job_id": 1},
}


class Workspace(ThreadingHTTPServer):
    """Keeps the jobs that are created and the files that are uploaded."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.jobs: list[dict[str, Any]] = []
        self.files: set[str] = set()


class Answer(BaseHTTPRequestHandler):
    server: Workspace

    def answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path = urlsplit(self.path).path
        if path.startswith("/dbfs/"):
            self.server.files.add(path)
        elif path.endswith("/jobs/create"):
            self.server.jobs.append(json.loads(body))
        found = json.dumps(next((a for name, a in ANSWERS.items() if path.endswith(name)), {})).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(found)))
        self.end_headers()
        self.wfile.write(found)

    do_GET = do_POST = do_PUT = do_PATCH = answer

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: what counts is in the workspace."""


def files_named(value: Any) -> set[str]:
    """Places in the stand-in's file system that a job's settings name."""
    if isinstance(value, dict):
        return set().union(*map(files_named, value.values()))
    if isinstance(value, list):
        return set().union(*map(files_named, value))
    text = str(value)
    return {text.replace("dbfs:/", "/dbfs/")} if text.startswith(("/dbfs/", "dbfs:/")) else set()


def deploy(dbx: str, folder: Path, environment: str) -> Workspace:
    with Workspace() as workspace:
        threading.Thread(target=workspace.serve_forever, daemon=True).start()
        places = {"workspace_directory": EXPERIMENT["name"], "artifact_location": ARTIFACTS}
        project = {"environments": {environment: {"profile": "none", "properties": places}}}
        (folder / ".dbx").mkdir(exist_ok=True)
        (folder / ".dbx/project.json").write_text(json.dumps(project))
        # dbx drops the port of a host, so the stand-in is its proxy.
        kept = {k: v for k, v in os.environ.items() if not k.lower().endswith("_proxy")}
        proxy = {"HTTP_PROXY": f"http://127.0.0.1:{workspace.server_port}"}
        login = {"DATABRICKS_HOST": "http://workspace.invalid", "DATABRICKS_TOKEN": "none"}
        done = subprocess.run(
            [dbx, "deploy", "--environment", environment, "--no-rebuild", "--branch-name", "none"],
            cwd=folder,
            env={**kept, **proxy, **login, "PYTHONWARNINGS": "ignore"},
            capture_output=True,
            text=True,
        )
        if done.returncode:
            sys.stderr.write(done.stdout + done.stderr)
            raise SystemExit(f"dbx deploy --environment {environment} failed")
        workspace.shutdown()
        return workspace


def main(dbx: str, file: Path) -> int:
    written = yaml.safe_load(file.read_text(encoding="utf-8"))["environments"]
    wrong = False
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for name in ("conf", "dist"):
            shutil.copytree(name, folder / name)
        for environment, of in written.items():
            workspace = deploy(dbx, folder, environment)
            names = sorted(job["name"] for job in workspace.jobs)
            missing = files_named(workspace.jobs) - workspace.files
            sys.stdout.write(f"{environment}: dbx deployed {len(names)} jobs, {len(workspace.files)} files\n")
            if names != sorted(job["name"] for job in of["workflows"]) or missing:
                sys.stderr.write(f"{environment}: jobs {names}; not uploaded: {sorted(missing)}\n")
                wrong = True
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main(str(Path(sys.argv[1]).absolute()), Path(sys.argv[2])))
