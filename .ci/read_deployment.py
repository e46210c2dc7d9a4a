"""Reads a deployment file with dbx's own reader; ends with 1 where a job is not understood."""

from __future__ import annotations

import sys
from pathlib import Path

import yaml
from dbx.api.config_reader import ConfigReader

path = Path(sys.argv[1])
written = yaml.safe_load(path.read_text(encoding="utf-8"))["environments"]
reader = ConfigReader(path)
read = {
    name: sorted(w.name for w in reader.get_environment(name).payload.workflows)
    for name in reader.get_all_environment_names()
}
wanted = {name: sorted(w["name"] for w in of["workflows"]) for name, of in written.items()}
for name, jobs in read.items():
    sys.stdout.write(f"{name}: dbx reads {len(jobs)} jobs\n")
sys.exit(read != wanted)
