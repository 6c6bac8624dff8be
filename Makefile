# Each target makes .venv by itself. PORT is the friendly address of the local stack; PYTHON is the Python 3.11 to use.
PORT ?= 4566
PYTHON ?= $(shell for each in python3.11 python3 python; do \
	$$each -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' 2>/dev/null && echo $$each && break; done)
VENV := .venv
READY := $(VENV)/ready
RUN := $(VENV)/bin/python
# The scanner of templates, the auditor of locks, MkDocs, and the foreign clients of the tests pin what does not go with ours.
CHECKOV := .venv-checkov/ready
AUDIT := .venv-audit/ready
MKDOCS := .venv-docs/ready
# Locks name every package with the digests of its files: nothing else is installed, and nothing is resolved.
HASHED := --disable-pip-version-check --require-hashes --no-deps
# uv installs a lock in half of pip's time. It does not read pip's configuration of another index or certificate: then pip installs.
install = { $(VENV)/bin/uv pip install -qq --native-tls --compile-bytecode --python $(1)/bin/python $(HASHED) -r $(2) 2>/dev/null \
	|| $(1)/bin/python -m pip install -qq $(HASHED) -r $(2); }

.DEFAULT_GOAL := help
.PHONY: help demo first-pipeline logins oidc unit test test-thorough client-pythons client-file check checkov docs lock audit browser axe nginx agents viewer viewer-check up down package deploy diff destroy smoke bench bench-spark bench-live job fuzz mutants soak upstream

help: ## what there is
	@grep -hE '^[a-z-]+:.*##' Makefile | sed 's/:.*##/ -/'

demo: $(READY) ## the main job, from an empty machine to a finished log
	@$(RUN) -m local.demo

PYTEST := PYTHONDONTWRITEBYTECODE= $(RUN) -m pytest
# Three at once on two cores: the tests of the stack and of the jobs are mostly waiting.
WHOLE := -n 3 --dist loadfile --no-loadscope-reorder

unit: $(READY) ## quick tests, below a minute: no stack, Spark or browser, and a sample of all cases; ARGS="-k name"
	@RUNLAKE_TESTS=fast $(PYTEST) -n 3 --dist worksteal -q tests/unit tests/functional tests/contract client/tests $(ARGS)

test: $(READY) ## all tests; ARGS="-k name" to choose, ARGS="-n 0" for one process
	@$(PYTEST) $(WHOLE) $(ARGS)

test-thorough: $(READY) ## all tests with every case, hours; before a release
	@RUNLAKE_TESTS=thorough $(PYTEST) $(WHOLE) $(ARGS)

PYTHONS := 3.9 3.10 3.11 3.12 3.13
client-pythons: $(READY) ## the client's programs on each Python that is installed: PYTHONS="3.9 3.13"
	@for each in $(PYTHONS); do \
		command -v python$$each >/dev/null && python$$each -c '' 2>/dev/null || { echo "runlake: there is no Python $$each"; continue; }; \
		venv=.venv-client-$$each && { test -x $$venv/bin/runlake || { python$$each -m venv $$venv && $$venv/bin/pip install -qq ./client; } } \
		&& echo "runlake: $$($$venv/bin/python -V), click $$($$venv/bin/python -c 'import importlib.metadata as m; print(m.version("click"))')" \
		&& RUNLAKE_CLIENT_PYTHON=$(CURDIR)/$$venv/bin/python $(PYTEST) -q -n 0 $(OF_PROGRAMS:%=client/tests/test_%.py) $(ARGS) || exit 1; done
OF_PROGRAMS := pythons exec outcomes runs heartbeats signals

client-file: $(READY) ## the client as one file, build/runlake.pyz, for any Python from 3.9 on
	@rm -rf build/pyz && $(VENV)/bin/uv pip install -qq --native-tls --python-version 3.9 --target build/pyz ./client
	@rm -rf build/pyz/bin && $(RUN) -m zipapp build/pyz -m runlake_command:main -p '/usr/bin/env python3' -c -o build/runlake.pyz && chmod 755 build/runlake.pyz
	@echo "runlake: build/runlake.pyz"

check: $(READY) ## lint, format, types, documents, template
	@$(RUN) -m ruff check .
	@$(RUN) -m ruff format --check .
	@$(RUN) -m mypy
	@$(RUN) -m docs.generate --check
	@$(RUN) -m local package

# Beside packages of Python: tests/prerequisites.py has these made when the first test that needs one begins.
browser:
	@test -x "$(CHROMIUM)" || { test -z "$(CHROMIUM)" && { test -x /usr/bin/chromium-headless-shell || test -x /usr/bin/chromium \
		|| $(call debian,chromium-headless-shell); }; } \
		|| $(call missing,Chromium is missing: apt-get install chromium-headless-shell or chromium$(comma) or CHROMIUM=path)

axe:
	@test -d viewer/node_modules/axe-core || { cd viewer && npm ci --no-audit --no-fund --silent; } \
		|| $(call missing,axe-core is missing: install Node 20 and run make viewer)

oidc:
	@test -d tests/oidc/node_modules/oidc-provider || { $(call node) && cd tests/oidc && npm ci --no-audit --no-fund --silent; } \
		|| $(call missing,oidc-provider could not be installed)

nginx:
	@test -x /usr/sbin/nginx || $(call debian,nginx-light) || $(call missing,nginx is missing: apt-get install nginx-light)

agents:
	@test -x /usr/sbin/syslog-ng || $(call debian,syslog-ng-core syslog-ng-mod-http) \
		|| $(call missing,syslog-ng is missing: apt-get install syslog-ng-core syslog-ng-mod-http)

viewer: ## build the web page into chalicelib/viewer/, and test its parts; needs Node 20
	@$(call node)
	@cd viewer && npm ci --no-audit --no-fund --silent && npm run --silent build && npm test --silent

viewer-check: viewer ## whether chalicelib/viewer/ is what viewer/ builds; needs Node 20
	@test -z "$$(git status --porcelain chalicelib/viewer)" || $(call missing,chalicelib/viewer/ is not what viewer/ builds: run make viewer and commit it)

up: $(READY) ## start the stack on PORT; PARAMS="Name=Value ..."
	@$(RUN) -m local up --port $(PORT) $(GIVEN)

down: $(READY) ## stop the stack on PORT
	@$(RUN) -m local down --port $(PORT)

package: $(READY) ## the template and the zip that are deployed, in build/; ARCH=arm64
	@$(RUN) -m local package $(if $(ARCH),--architecture $(ARCH))

STAGED = --stage $(or $(STAGE),$(error which stage? STAGE=prod, a file of infra/stages/)) \
	$(if $(BUCKET),--bucket $(BUCKET)) $(if $(PROFILE),--profile $(PROFILE))
GIVEN = $(foreach each,$(PARAMS),--parameter '$(each)')

deploy: $(READY) ## create or update a stage; STAGE=prod PARAMS="Name=Value ..." BUCKET=artifacts PROFILE=name
	@$(RUN) -m deploy deploy $(STAGED) $(GIVEN)

diff: $(READY) ## what deploy would change, and change nothing; as deploy
	@$(RUN) -m deploy diff $(STAGED) $(GIVEN)

destroy: $(READY) ## delete a stage; its buckets stay, unless DATA=delete; STAGE=name
	@$(RUN) -m deploy destroy $(STAGED) $(if $(DATA),--data $(DATA))

smoke: export TOKEN := $(TOKEN)
smoke: $(READY) ## test a deployed address; URL=https://... TOKEN=bearer
	@$(RUN) -m deploy smoke --url $(or $(URL),$(error which address? URL=, the output ApiUrl))

checkov: $(READY) $(CHECKOV) ## scan the templates; what is let through says why
	@$(RUN) -m local package
	@$(CHECKOV:ready=bin/python) -m checkov.main --config-file infra/checkov.yaml -f build/sam.yaml infra/deployer.yaml

docs: $(MKDOCS) ## build the documents' site into build/site/; fails for a link or an anchor that leads nowhere
	@$(MKDOCS:ready=bin/python) -m mkdocs build --strict

lock: $(READY) ## make the locks anew after a change of the pins, with the digests of the package index
	@$(RUN) -m local.locks

audit: $(READY) $(AUDIT) ## look the locked packages up in the database of known vulnerabilities; Node's too, where npm is
	@for each in requirements.lock requirements-dev.lock infra/checkov.lock infra/audit.lock infra/docs.lock infra/uv.lock; do \
		echo "runlake: auditing $$each" && $(AUDIT:ready=bin/pip-audit) --strict --require-hashes --disable-pip --no-deps -r $$each || exit 1; done
	@! npm --version >/dev/null 2>&1 || (cd viewer && npm audit --omit=dev)

job: $(READY) ## a job in bulk against the stack on PORT; NAME=backfill, ARGS="--help"
	@$(RUN) -m local job --port $(PORT) $(NAME) $(ARGS)

bench: $(READY) ## the measurements of docs/performance.md
	@$(RUN) -m bench $(ARGS)

bench-spark: $(READY) ## the measurements of the jobs on Spark, an hour or so
	@$(RUN) -m bench.spark $(ARGS)

bench-live: $(READY) ## what who follows a run waits for, in a browser too; ARGS="hour", ARGS="crowd last-page"
	@PYTHONPATH=client/src $(RUN) -m bench.live $(ARGS)

fuzz: $(READY) ## feed the decoders a million inputs, and measure small bodies that may be costly; ARGS="--costs 10000 --seed 7 costs"
	@$(RUN) -m tests.fuzz $(ARGS)

mutants: $(READY) ## change decisive lines one at a time: the tests must notice; ARGS="runlog --only Compactor"
	@$(RUN) -m tests.mutants $(ARGS)

first-pipeline: $(READY) ## the blocks of docs/first-pipeline.md, one after the other, on the emulator
	@RUNLAKE_TESTS=thorough $(PYTEST) -n 0 -q tests/integration/test_first_pipeline.py $(ARGS)

logins: $(READY) ## logins at a real OpenID provider, also beside jobs that sign, on a stack; needs Node 20
	@RUNLAKE_TESTS=thorough $(PYTEST) -n 0 -q tests/browser/test_openid_provider.py tests/browser/test_jobs_and_people.py $(ARGS)

upstream: $(READY) ## the datalake's own tests of its API against a local stack; CHECKOUT=folder or address of planetlabs/datalake
	@$(RUN) -m tests.integration.datalake.upstream --upstream $(or $(CHECKOUT),$(error which checkout? CHECKOUT=folder, or the address of planetlabs/datalake)) $(ARGS)

soak: $(READY) ## 200 connectors for 3 minutes on a store that fails and is killed; ARGS="--seconds 30 --seed 7". Then 200 random days of the client
	@$(RUN) -m bench.soak $(ARGS)
	@PYTHONPATH=client/src $(RUN) -m client.tests.random_days --seeds 200

$(READY): requirements-dev.lock infra/uv.lock
	@test -n "$(PYTHON)" || $(call missing,Python 3.11 is missing: install it or name it with PYTHON=path)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' || $(call missing,$(PYTHON) is not Python 3.11)
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || $(call missing,Python has no venv: install python3.11-venv)
	@echo "runlake: installing into $(VENV), once, in about a minute"
	@$(PYTHON) -m venv $(VENV)
	@$(RUN) -m pip install -qq $(HASHED) -r infra/uv.lock || $(call missing,the packages could not be installed)
	@$(call install,$(VENV),requirements-dev.lock) || $(call missing,the packages could not be installed)
	@touch $@

.venv-checkov/ready: infra/checkov.lock | $(READY)
	@echo "runlake: installing checkov into $(@D), once, in about a minute"
	@$(PYTHON) -m venv $(@D)
	@$(call install,$(@D),$<) || $(call missing,checkov could not be installed)
	@touch $@

.venv-audit/ready: infra/audit.lock | $(READY)
	@echo "runlake: installing pip-audit into $(@D), once"
	@$(PYTHON) -m venv $(@D)
	@$(call install,$(@D),$<) || $(call missing,pip-audit could not be installed)
	@touch $@

.venv-docs/ready: infra/docs.lock | $(READY)
	@echo "runlake: installing MkDocs into $(@D), once"
	@$(PYTHON) -m venv $(@D)
	@$(call install,$(@D),$<) || $(call missing,MkDocs could not be installed)
	@touch $@

.venv-%/ready: tests/integration/%/requirements.lock | $(READY)
	@echo "runlake: installing the $* client for the tests into $(@D), once, in about a minute"
	@$(PYTHON) -m venv $(@D)
	@$(call install,$(@D),$<) || $(call missing,the $* client could not be installed)
	@touch $@

node = npm --version >/dev/null 2>&1 || $(call missing,the viewer is built with Node 20 or later: install nodejs and npm)
comma := ,
debian = { apt-get update -qq && apt-get install -y -qq --no-install-recommends $(1) >/dev/null; }
missing = { echo "runlake: $(1)"; exit 1; }
