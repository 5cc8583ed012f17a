# Everything a contributor needs: `make demo`, `make test`, `make check`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PYTEST_ARGS ?= -n auto --dist worksteal
WORKFLOWS := $(wildcard .github/workflows/*.yml samples/workflows/*.yml) evalgate/cli/scaffold/github-workflow.yml

.PHONY: .venv demo demo-judge demo-users test check docs pictures lint format lock benchmarks clean

# One virtual environment for everything, with locked releases; rebuilt when the project file or the lock changes.
.venv: $(VENV)/.ready

# Python compiles the part of these packages that is imported, unless the variable forbids it.
COMPILE := $(if $(PYTHONDONTWRITEBYTECODE),,--no-compile)

$(VENV)/.ready: pyproject.toml requirements/test.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check $(COMPILE) --upgrade "pip>=25.1"
	$(BIN)/pip install --quiet --disable-pip-version-check $(COMPILE) \
		--editable . --group test --group check --constraint requirements/test.txt
	touch $@

demo: .venv
	$(BIN)/python samples/demo.py

demo-judge: .venv
	$(BIN)/python samples/judge/demo.py

demo-users: .venv
	$(BIN)/python samples/users/demo.py

test: .venv
	$(BIN)/pytest $(PYTEST_ARGS)

check: lint docs
	$(BIN)/zizmor --offline --pedantic --strict-collection .github action.yml composite/action.yml $(WORKFLOWS)
	$(BIN)/check-jsonschema --builtin-schema vendor.github-actions action.yml composite/action.yml
	$(BIN)/check-jsonschema --builtin-schema vendor.github-workflows $(WORKFLOWS)
	$(BIN)/check-jsonschema --builtin-schema custom.github-workflows-require-timeout $(WORKFLOWS)
	$(BIN)/check-jsonschema --builtin-schema vendor.gitlab-ci samples/ci/gitlab-ci.yml
	$(BIN)/check-jsonschema --builtin-schema vendor.bitbucket-pipelines samples/ci/bitbucket-pipelines.yml
	$(BIN)/check-jsonschema --regex-variant nonunicode --builtin-schema vendor.azure-pipelines samples/ci/azure-pipelines.yml
	$(BIN)/check-jsonschema --builtin-schema vendor.buildkite samples/ci/buildkite.yml
	$(BIN)/check-jsonschema --builtin-schema vendor.dependabot .github/dependabot.yml

# A warning, as of a link that leads nowhere, fails the build. The variable hides a notice about mkdocs-material's successor.
docs: .venv
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

# The pictures of the README, from the story of `make demo`; needs a Chromium.
pictures: .venv
	$(BIN)/python docs/pictures.py

lint: .venv
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: .venv
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# The lock files follow pyproject.toml; `make lock UPGRADE=1` takes the newest releases that fit. Only uv is needed.
lock:
	test -x $(BIN)/uv || { $(PYTHON) -m venv $(VENV) && $(BIN)/pip install --quiet --disable-pip-version-check "uv>=0.9"; }
	$(BIN)/python requirements/lock.py $(if $(UPGRADE),--upgrade)

benchmarks: .venv
	$(BIN)/python -m benchmarks

clean:
	rm -rf $(VENV) build dist *.egg-info
