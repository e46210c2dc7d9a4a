# Every habit of this project. Each target sets up what it needs, so any of them may be the first.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory
# The certificates that the rest of the machine trusts, a company's proxy included.
export UV_SYSTEM_CERTS ?= true

BIN := .venv/bin
UV := $(BIN)/uv
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	"$$p" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo "$$p" && break; done)
UV_VERSION := $(shell sed -n 's/^uv==//p' requirements/bootstrap.in)
COMPILE := $(UV) pip compile --quiet --universal --generate-hashes --python-version 3.11 \
	--no-emit-index-url --no-emit-find-links --custom-compile-command "make lock"

# Each test process has one Spark session and one broker. Much of the suite waits, so more of them than cores.
WORKERS ?= 4

say = @printf '\033[1m%s\033[0m\n' "$(1)"

.PHONY: help
help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: install
install: .venv/.installed ## Set up .venv with everything pinned
	@echo "Ready: $$($(BIN)/python --version) in .venv"

.PHONY: demo
demo: .venv/.installed ## From nothing to tables: a broker, records, two crashes and a check of every record
	@$(BIN)/tidemark demo

.PHONY: test
# It starts many processes of Python: none should have to compile again what another one compiled.
test: export PYTHONDONTWRITEBYTECODE :=
test: .venv/.installed ## The whole suite
	@$(BIN)/python -m tidemark.platform.jvm.ready
	$(call say,Running the whole suite in $(WORKERS) processes)
	@$(BIN)/python -m pytest -p tools.progress -n $(WORKERS) --dist loadfile --no-loadscope-reorder \
		--durations=40 --durations-min=10

.PHONY: test-fast
test-fast: .venv/.installed ## The tests that need neither Spark nor a broker
	@$(BIN)/python -m pytest tests/unit

.PHONY: test-cluster
test-cluster: .venv/.installed ## The ingest on a standalone Spark cluster of processes that are killed in mid-batch
	@$(BIN)/python -m tidemark.platform.jvm.ready
	@$(BIN)/python -m pytest tests/cluster

.PHONY: test-matrix
test-matrix: .venv/.installed ## The suite's short part on each Python 3.11-3.13 and Java 17, 21 that is here
	@$(BIN)/python -m tidemark.platform.jvm.ready
	@.ci/matrix

.PHONY: test-lowest
# An old version may warn about its neighbours, which are the newest.
test-lowest: .venv/.uv ## The unit tests with the lowest versions of the dependencies that pyproject.toml allows
	@mkdir -p .cache
	@[ -x .cache/lowest/bin/python ] || $(UV) venv --quiet --python $(BIN)/python .cache/lowest
	@$(UV) pip compile --quiet --resolution lowest-direct --no-emit-index-url --no-emit-find-links \
		--annotation-style line --python .cache/lowest/bin/python --group spark pyproject.toml \
		| grep -F '(pyproject.toml)' > .cache/lowest.txt
	@$(UV) pip install --quiet --python .cache/lowest/bin/python --constraint .cache/lowest.txt \
		--group spark --group test --group build --editable .
	@.cache/lowest/bin/python -m pytest -q tests/unit -W default::DeprecationWarning

.PHONY: test-runtimes
test-runtimes: .venv/.installed ## The product's path on Spark 4.0, 4.1 and by Databricks Connect 17.3, 18 and 19
	@$(BIN)/python -m tidemark.platform.jvm.ready
	@.ci/runtimes

.PHONY: check
check: .venv/.installed ## Format, lint, types, spelling, dead and duplicate code, architecture, docs
	$(call say,Format)
	@$(BIN)/ruff format --check .
	$(call say,Lint)
	@$(BIN)/ruff check .
	$(call say,Types)
	@$(BIN)/mypy
	$(call say,Spelling)
	@$(BIN)/codespell $$(git ls-files '*.py' '*.md' '*.toml' '*.yml' Makefile)
	$(call say,Dead code)
	@$(BIN)/vulture
	$(call say,Duplicate code)
	@$(BIN)/pylint --score=no --disable=all --enable=duplicate-code --min-similarity-lines=8 src/tidemark
	$(call say,Architecture)
	@$(BIN)/python -m pytest -q tests/unit/test_architecture.py
	$(call say,Documentation)
	@$(MAKE) docs

.PHONY: bench
bench: .venv/.installed ## Measure against other ways, in turn, on one topic: table, JSON and plot in bench/results
	@$(UV) pip install --quiet --python $(BIN)/python --require-hashes -r requirements/bench.txt
	@$(BIN)/python bench/ingest.py --out bench/results $(BENCH)

.PHONY: bench-scaling
bench-scaling: .venv/.installed ## Cost as table, bad records, partitions, streams and cores grow; starts and small batches
	@$(UV) pip install --quiet --python $(BIN)/python --require-hashes -r requirements/bench.txt
	@$(BIN)/python -m tidemark.platform.jvm.ready
	@$(BIN)/python bench/growth.py --out bench/results $(BENCH)

.PHONY: bench-long
bench-long: .venv/.installed ## Memory over batches without end, beside the bare way: make bench-long MINUTES=60
	@$(UV) pip install --quiet --python $(BIN)/python --require-hashes -r requirements/bench.txt
	@$(BIN)/python -m tidemark.platform.jvm.ready
	@$(BIN)/python bench/long.py --out bench/results --minutes $(or $(MINUTES),60) $(BENCH)

.PHONY: soak
soak: .venv/.installed ## Load with random faults: make soak MINUTES=20 SEED=1; the books at the end
	@$(BIN)/python -m tidemark.platform.jvm.ready
	@$(BIN)/python -m tools.soak.soak --minutes $(or $(MINUTES),20) --seed $(or $(SEED),1)

.PHONY: docs
docs: .venv/.installed ## Build the documentation site into site/, strictly
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --clean

.PHONY: bundle-check
bundle-check: .venv/.installed ## Check the Databricks bundle: shape, rules, typed models
	@$(BIN)/tidemark bundle check

.PHONY: notebook
notebook: .venv/.installed ## Run a notebook on a local broker: make notebook NAME=ingest
	@$(BIN)/python -m tidemark.platform.jvm.ready
	@$(BIN)/python -m tools.notebook_run $(or $(NAME),ingest)

.PHONY: notebooks
notebooks: .venv/.installed ## Run every notebook in a kernel that has nothing of Tidemark but what its first cell installs
	@$(BIN)/python -m tidemark.platform.jvm.ready
	@$(BIN)/python -m tools.plain_notebooks

.PHONY: dbx
dbx: .venv/.installed ## Write conf/deployment.yml for workspaces on dbx, and have dbx deploy it to a stand-in
	@$(BIN)/tidemark bundle dbx
	@[ -x build/dbx/bin/python ] || $(UV) venv --quiet --python $(BIN)/python build/dbx
	@$(UV) pip sync --quiet --python build/dbx/bin/python --require-hashes requirements/dbx.txt
	@PATH="$$PWD/$(BIN):$$PATH" sh .ci/wheel
	@$(BIN)/python .ci/deploy_by_dbx.py build/dbx/bin/dbx conf/deployment.yml

.PHONY: wheel
wheel: .venv/.uv ## Build the wheel into dist/; one that is equal stays as it is
	@PATH="$$PWD/$(BIN):$$PATH" sh .ci/wheel

.PHONY: fmt
fmt: .venv/.installed ## Format the code and mend what the linter can
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

.PHONY: lock
lock: .venv/.uv ## Resolve the pinned requirements again
	$(call say,Resolving requirements)
	@$(COMPILE) requirements/bootstrap.in -o requirements/bootstrap.txt
	@$(COMPILE) --group dev pyproject.toml -o requirements/dev.txt
	@$(COMPILE) requirements/dbx.in -o requirements/dbx.txt
	@for each in requirements/runtimes/*.in; do \
		$(COMPILE) --python-version 3.12 pyproject.toml $$each -o $${each%.in}.txt; done
	@$(COMPILE) --group bench -c requirements/dev.txt -o requirements/bench.txt

.PHONY: clean
clean: ## Remove caches and build products; .venv and .tidemark stay
	@rm -rf .mypy_cache .pytest_cache .ruff_cache .hypothesis dist build site spark-warehouse metastore_db derby.log
	@find . -name __pycache__ -type d -not -path './.venv/*' -prune -exec rm -rf {} +

# The pinned uv in a new environment. An environment that has this uv already is kept.
.venv/.uv: requirements/bootstrap.txt
	@if [ -z "$(PYTHON)" ]; then \
		echo "Python 3.11 or newer is needed; found: $$(python3 --version 2>&1 || echo none)." >&2; \
		echo "hint: sudo apt-get install python3 python3-venv, brew install python@3.12, or PYTHON=/path/to/python3.11 make install" >&2; \
		exit 1; fi
	@if [ "$$($(UV) --version 2>/dev/null | cut -d' ' -f2)" != "$(UV_VERSION)" ]; then \
		printf '\033[1m%s\033[0m\n' "Creating .venv with $$($(PYTHON) --version)"; \
		$(PYTHON) -m venv --clear .venv || { echo "hint: on Debian and Ubuntu, sudo apt-get install python3-venv" >&2; exit 1; }; \
		$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/bootstrap.txt; \
	fi
	@touch $@

.venv/.installed: .venv/.uv requirements/dev.txt pyproject.toml
	$(call say,Installing the pinned requirements into .venv)
	@$(UV) pip sync --quiet --compile-bytecode --python $(BIN)/python --require-hashes requirements/dev.txt
	@$(UV) pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation -e .
	@# Each Python worker of Spark and each command imports it anew, and many a container sets PYTHONDONTWRITEBYTECODE.
	@$(BIN)/python -m compileall -q src
	@touch $@
