#!/bin/sh
# Starts the console in a Databricks App from the wheel beside this file. An app has Python 3.11, and the client of
# runtime 19 needs 3.12: uv takes one that is there, else it brings it, from PYTHON_MIRROR where that is set.
set -eu
[ -z "${PYTHON_MIRROR:-}" ] || export UV_PYTHON_INSTALL_MIRROR="$PYTHON_MIRROR"
command -v uv >/dev/null || pip install --quiet uv
uv python find --no-project --no-python-downloads 3.12 >/dev/null 2>&1 || uv python install --quiet 3.12 || {
  echo "The console needs Python 3.12, which is neither here nor within reach." >&2
  echo "hint: deploy with python_mirror, a mirror of python-build-standalone that the workspace reaches" >&2
  exit 1
}
exec uv run --no-project --python 3.12 --with "$(ls ./*.whl)" --with "databricks-connect==19.3.*" \
  tidemark serve --host 0.0.0.0 --port "$DATABRICKS_APP_PORT" --config conf/tidemark.yml --target "$TIDEMARK_TARGET"
