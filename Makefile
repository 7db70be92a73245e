# The CUDA convolution lab. `make` alone lists what there is.

# Such a path breaks the scripts that pip installs, and the commands below.
UNFIT := $(strip $(foreach character," ' ` \ $$,$(findstring $(character),$(CURDIR))))
ifneq ($(UNFIT),)
$(error the path of this checkout, $(CURDIR), has $(UNFIT) in it: move it to a folder without)
endif

ifndef PYTHON
PYTHON := $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
    $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
endif
VENV   ?= .venv
LAB    := .venv-lab
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
MODULES := $(addsuffix /node_modules/.package-lock.json,playground engine/hostcuda/wasm/js)
JOBS   ?= 2
# The packages, each after those that it needs, and the tests of all but the engine. The last ones are dealt out in twos,
# and both processes then make what the tests of a file share: so those that share a browser come first.
PROJECTS := engine/pyproject.toml pyproject.toml classroom/pyproject.toml playground/pyproject.toml
TESTS  := $(wildcard playground/tests) $(wildcard classroom/tests) $(wildcard tests)
PYTEST := $(BIN)/python -m pytest --quiet
# The engine's tests run in its folder, with its own configuration.
ENGINE := cd engine && "$(abspath $(BIN))/python" -m pytest --quiet
NBVAL  := --nbval --nbval-current-env --nbval-cell-timeout=300

# In a container JupyterLab has no browser to open, and is reached from outside. It prints its address, with a token.
# It takes an address once: one in ARGS is the one.
CONTAINER := $(wildcard /.dockerenv /run/.containerenv)
OUTSIDE = $(if $(CONTAINER),--no-browser $(if $(findstring --ip,$(ARGS)),,--ip=0.0.0.0))

PIP    := -m pip --disable-pip-version-check --quiet

# Whatever the caller's environment says: hundreds of Python processes start, and each would compile what it imports.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help report site playground test thorough exhaustive floors clang aarch64 lint types lab student doctor bench pictures venv gpu browser lock clean distclean
.DEFAULT_GOAL := help

help:  ## List these targets
	@echo "The CUDA convolution lab"; echo
	@sed -nE 's/^([a-z0-9]+):[^#]*## (.*)/  make \1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{printf "%-18s%s\n", $$1, $$2}'

report: $(STAMP)  ## Execute the notebooks on this machine's engine and write reports/index.html; NOTEBOOKS=01, ARGS=--all with the closer looks
	@$(BIN)/labkit report $(NOTEBOOKS) $(ARGS)

site: $(STAMP) $(if $(filter 2,$(words $(wildcard $(MODULES)))),playground)  ## Write the stored report, the documents and the API reference to build/site; ARGS="--out DIR"
	@$(BIN)/labkit site $(ARGS)

playground: $(STAMP) $(MODULES)  ## Build the page for kernels in a browser, which `make site` adds from then on (needs node)
	@$(BIN)/python playground/build.py build/playground

$(MODULES): %/node_modules/.package-lock.json: %/package-lock.json
	@command -v npm >/dev/null || { echo "make: npm is missing. Install Node.js 20 or newer: https://nodejs.org" >&2; exit 1; }
	@npm --prefix $* ci --ignore-scripts --no-audit --no-fund

# ARGS="-k tiling" chooses tests; status 5 is pytest's where it chooses none of one package.
CHOSEN = $(ARGS) $(if $(ARGS),|| [ $$? = 5 ])

# Pages that take longest, 20 seconds to a minute each: `make thorough` executes them, with the closer looks.
LONG := $(wildcard $(addprefix notebooks/,07_* 08* 09* 10* 11* 14* 17* 18*))

test: $(STAMP) lint  ## Test what every page relies on, and most pages against their stored outputs; ARGS="-k NAME"
	@$(ENGINE) -n $(JOBS) --dist loadfile -m "not thorough and not exhaustive" tests $(CHOSEN)
	@$(PYTEST) -n $(JOBS) --dist loadfile -m "not thorough and not exhaustive" $(NBVAL) $(TESTS) \
	    $(filter-out $(LONG),$(wildcard notebooks/*.ipynb notebooks/practice/*.ipynb)) $(CHOSEN)

thorough: $(STAMP)  ## Test everything else: each kernel on every shape, each exercise, the execution modes, browsers, the closer looks
	@$(ENGINE) -n $(JOBS) -m "thorough and not exhaustive" tests $(CHOSEN)
	@$(PYTEST) -n $(JOBS) -m "thorough and not exhaustive" $(TESTS) $(CHOSEN)
	@$(if $(ARGS),,$(PYTEST) -n $(JOBS) --dist loadfile $(NBVAL) $(LONG) $(wildcard notebooks/closer_look/*.ipynb))

exhaustive: $(STAMP)  ## Grade every wrong answer of every exercise, here and in the playground, and a class of attempts whole; the rest of what `make thorough` draws some of; 200 calls to the agents' server
	@$(ENGINE) -n $(JOBS) --dist loadfile -m "exhaustive" tests $(CHOSEN)
	@$(PYTEST) -n $(JOBS) -m "exhaustive" $(TESTS) $(CHOSEN)

floors:  ## Run three notebooks with the oldest versions that pyproject.toml allows, in an environment of their own
	@rm -rf .venv-floors && $(PYTHON) -m venv .venv-floors && .venv-floors/bin/python $(PIP) install -e ./engine -e . nbval \
	    $$($(PYTHON) -c 'import tomllib; lab, engine = (tomllib.load(open(path, "rb"))["project"] \
	            for path in ("pyproject.toml", "engine/pyproject.toml")); \
	        lines = {*engine["dependencies"], *lab["dependencies"], *lab["optional-dependencies"]["notebooks"]}; \
	        print(*(line.partition(",")[0].replace(">=", "==") for line in lines if not line.startswith("hostcuda")))')
	@.venv-floors/bin/python -m pytest --quiet $(NBVAL) \
	    $(addprefix notebooks/,00_start_here.ipynb 01_baseline.ipynb 04_tiling.ipynb)

clang: $(STAMP)  ## Test the engine's delicate parts with clang++ in place of g++
	@export CXX=clang++; $(ENGINE) -n $(JOBS) tests/test_shared.py tests/check/test_instrument.py

aarch64: $(STAMP)  ## Test the engine on aarch64: Debian's g++-aarch64-linux-gnu and qemu-user run it here
	@$(ENGINE) -m thorough -rs tests/test_aarch64.py

lint: $(STAMP)  ## Check the style, the length of modules, which packages import which, and the digests of data/
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --check --quiet . || { echo "make: lay out the files with $(BIN)/ruff format ." >&2; exit 1; }
	@told=$$($(PYTEST) --noconftest tests/test_structure.py) || { echo "$$told"; exit 1; }
	@told=$$($(BIN)/lint-imports --no-logo --no-cache) || { echo "$$told"; exit 1; }
	@cd data && sha256sum --check --quiet MANIFEST.sha256 \
	    || { echo "make: restore data/ with git, or accept what was recorded: $(BIN)/python -m recording manifest" >&2; exit 1; }

types: $(STAMP)  ## Check the types of the modules that pyproject.toml lists
	@$(BIN)/python -c "import basedpyright" 2>/dev/null \
	    || $(BIN)/python $(PIP) install --no-deps --no-compile --require-hashes -r requirements-types.lock
	@$(BIN)/basedpyright --level error

lab: $(LAB)/.installed  ## Open the notebooks in JupyterLab; ARGS="--no-browser --port 9000"
	@$(LAB)/bin/labkit lab $(OUTSIDE) $(ARGS)

student: $(STAMP)  ## Write an edition without solutions to build/student; ARGS="--out DIR --nbgrader"
	@$(BIN)/labkit student $(ARGS)

doctor: $(STAMP)  ## List what this machine has and lacks, with a remedy for each
	@$(BIN)/labkit doctor

bench: $(STAMP)  ## Measure the CPU engine against a plain C++ loop nest
	@$(BIN)/python benchmarks/engine.py

# What the engine compiles for itself takes half a minute, and nothing if it is there. Tests have a cache of their own.
venv: $(STAMP)  ## Install the locked environment into .venv, and compile the engine's own files
	@$(BIN)/hostcuda prepare || true

gpu: $(STAMP)  ## Add PyCUDA and CUPTI to .venv (needs an NVIDIA GPU and nvcc)
	@$(BIN)/python $(PIP) install -e './engine[gpu]' -e .
	@$(BIN)/labkit doctor

browser: $(STAMP) $(LAB)/.installed  ## Add Playwright and JupyterLab: `make thorough` then looks at both in Chromium, too
	@$(BIN)/python $(PIP) install --no-deps --no-compile --require-hashes -r requirements-browser.lock

# The stamp comes last: an interrupted `make` starts over. A lock is complete, so pip need not look for dependencies;
# and each module is compiled when it is first imported, not all of them at once: together half of the time. uv, where it
# is installed, takes a quarter of that.
$(STAMP): requirements.lock $(PROJECTS)
	@$(call install,$(VENV),requirements.lock)

$(LAB)/.installed: requirements-lab.lock $(PROJECTS)
	@$(call install,$(LAB),requirements-lab.lock)

# A job ends with the `make` that started it, also if that is killed: `setsid` gives it a process group of its own.
define install
	set -e; new=; make=$$PPID; \
	guarded() { \
	    $$(command -v setsid || true) "$$@" & job=$$!; \
	    end="{ kill -- -$$job || kill $$job; } 2>/dev/null || true"; \
	    { while kill -0 $$make; do sleep 1; done; eval "$$end"; } >/dev/null 2>&1 & watch=$$!; \
	    trap "$$end; kill $$watch; exit 130" INT TERM HUP; \
	    wait $$job && status=0 || status=$$?; \
	    trap - INT TERM HUP; kill $$watch 2>/dev/null || true; return $$status; \
	}; \
	test -n "$(PYTHON)" || { echo "make: no Python 3.11 or newer found. Install one, or name it: make PYTHON=/path/to/python3" >&2; exit 1; }; \
	$(PYTHON) -c 'import sys; v = sys.version_info; v >= (3, 11) or sys.exit("make: the lab needs Python 3.11 or newer; $(PYTHON) is %d.%d. Name another: make PYTHON=/path/to/python3" % v[:2])'; \
	uv=$$(command -v uv || true); \
	test -x $(1)/bin/python || { echo "Making $(1) with $$($(PYTHON) --version)"; test -e $(1) || new=$(1); \
	        if test "$$uv"; then guarded uv venv --quiet --seed --python $(PYTHON) $(1); else guarded $(PYTHON) -m venv $(1); fi; } \
	    || { rm -rf $$new; echo "make: $(PYTHON) cannot make a virtual environment. On Debian and Ubuntu: sudo apt install python3-venv" >&2; exit 1; }; \
	echo "Installing $(2) into $(1)"; \
	if test "$$uv"; then pip="guarded uv pip install --quiet --python $(1)/bin/python"; \
	    else pip="guarded $(1)/bin/python $(PIP) install --no-compile"; fi; \
	$$pip --no-deps --require-hashes -r $(2); \
	$$pip --no-deps --no-build-isolation -e ./engine -e . -e ./classroom -e ./playground; \
	touch $(1)/.installed
endef

lock:  ## Resolve pyproject.toml's ranges into the lock files again (needs uv)
	@$(call compile,test,requirements.lock)
	@$(call compile,lab,requirements-lab.lock)
	@$(call compile,browser,requirements-browser.lock)
	@$(call compile,types,requirements-types.lock)

define compile
	command -v uv >/dev/null || { echo "make: uv is missing. Install it: python3 -m pip install uv" >&2; exit 1; }; \
	uv pip compile pyproject.toml --extra notebooks --extra $(1) --group pyproject.toml:build --universal \
	    --python-version 3.11 --fork-strategy fewest --generate-hashes --no-emit-index-url --no-emit-find-links --no-emit-package hostcuda \
	    --no-annotate --quiet --upgrade --custom-compile-command 'make lock' -o $(2)
endef

pictures: $(STAMP)  ## Draw docs/images/ and write the tables of README.md and docs/results.md
	@$(BIN)/python -m recording pictures

# Of a folder that a command has marked as its own, the files that it has written: what else is there stays.
WRITTEN := .written-by

clean:  ## Remove the reports, what else was built, and every cache in the checkout; what you have put there stays
	@for mark in $(wildcard reports/$(WRITTEN) build/*/$(WRITTEN)); do (cd $${mark%/*} \
	    && sed -e 1d -e '/^\//d' -e '/\.\./d' $(WRITTEN) | tr '\n' '\0' | xargs -0 rm -f $(WRITTEN)); done
	@rm -rf .ruff_cache .lab $(addsuffix /build,engine classroom playground) $(addprefix build/,bdist.* lib temp.*) \
	    $(foreach folder,. engine classroom playground,$(addprefix $(folder)/,.pytest_cache .hypothesis *.egg-info))
	@find . -name ".venv*" -prune -o -name __pycache__ -type d -exec rm -rf {} +
	@for folder in $(wildcard reports build); do find $$folder -type d -empty -delete; done

distclean: clean  ## Remove the environments, too
	@rm -rf .venv $(LAB) .venv-floors
