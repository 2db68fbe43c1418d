# Each target does its own set-up: a fresh machine needs Python 3.11 (or newer) and make, nothing else.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/installed

.PHONY: demo test test-deep lint bench docs mutants aot conformance-sglang setup clean

setup: $(STAMP)
$(STAMP): requirements.lock pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -r requirements.lock
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	touch $(STAMP)

demo: $(STAMP)
	$(BIN)/kvpoll demo $(ARGS)

lint: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy --strict -p kvpoll

# The explorer looks at the tables before anything of the runtime runs. What needs no threads and no sockets shares the cores.
PURE := tests/protocol tests/evolution tests/spec tests/docs
test: lint
	$(BIN)/pytest -q -m "not deep" -n auto tests/model
	$(BIN)/pytest -q -m "not deep" -n auto $(PURE)
	$(BIN)/pytest -q -m "not deep" --ignore tests/model $(PURE:%=--ignore %)

# Everything, the long runs included. What a run needs from outside (Spin, a C compiler) must be there.
test-deep: lint
	KVPOLL_DEEP=1 $(BIN)/pytest -q -n auto tests/model $(PURE)
	KVPOLL_DEEP=1 $(BIN)/pytest -q --ignore tests/model $(PURE:%=--ignore %)

bench: $(STAMP)
	$(BIN)/python -m benchmarks

docs: $(STAMP)
	$(BIN)/kvpoll docs --write

# The page of the mutants takes minutes, so it is made by itself.
mutants: $(STAMP)
	$(BIN)/kvpoll check --mutants --write docs/mutants.md

# Compiles the TPU kernels for five generations. libtpu is 720 MB under Google's terms, so it has an environment of its own.
AOT := build/aot
aot: $(AOT)/installed
	$(AOT)/bin/python -m pytest -q -p no:xdist tests/kernels/aot
$(AOT)/installed: requirements.lock
	$(PYTHON) -m venv $(AOT)
	$(AOT)/bin/pip install --quiet --disable-pip-version-check -r requirements.lock "libtpu==0.0.42.*"
	$(AOT)/bin/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	touch $@

# SGLang in an environment of its own (3 GB, no GPU), outside CI. Exit status: the files of known failures.
S := examples/conformance/sglang
R := docs/conformance/sglang-0.5.23
conformance-sglang: $(STAMP) .venv-sglang/installed
	$(BIN)/python $(S)/run.py copy --write $(R)-copy.json --known-failing $(S)/known-failing-copy.txt
	$(BIN)/python $(S)/run.py nixl --moving --pairs 2 --write $(R)-nixl.json --known-failing $(S)/known-failing-nixl.txt
	$(BIN)/python $(S)/run.py mooncake --moving --write $(R)-mooncake.json --known-failing $(S)/known-failing-mooncake.txt
	-$(BIN)/python $(S)/wire.py --write $(R)-wire.json
	$(BIN)/python $(S)/page.py --write
.venv-sglang/installed: $(S)/setup.sh $(S)/requirements.txt
	$(S)/setup.sh

clean:
	rm -rf .venv build dist *.egg-info
