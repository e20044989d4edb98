# The two commands a newcomer needs: `make demo` and `make test`. `make help` lists the others.
PRESET := release
BUILD := build/$(PRESET)
SSA := $(BUILD)/bin/ssa
PYTHON := .venv/bin/python
JOBS := $(shell nproc)
DEMO := runs/quick

.DEFAULT_GOAL := help
.PHONY: help demo test sanitize bench setup build wheel lint docs clean

help:
	@printf '%s\n' \
	  'make demo   install, build, train softmax and SSA on the in-context tasks, write report.html' \
	  'make test   install, build and run every test' \
	  'make sanitize  kernel tests under the address, undefined-behaviour and thread sanitizers' \
	  'make bench  time the kernels against PyTorch (half an hour; wants an idle machine)' \
	  'make build  install what building needs and build everything' \
	  'make wheel  the Python package as a wheel for the torch of .venv, in dist/' \
	  'make lint   clang-format, clang-tidy and ruff over the sources' \
	  'make docs  build the documentation site into build/docs' \
	  'make clean  remove build/ (keeps .venv and runs/)'

setup:
	@scripts/setup build

build: setup
	@scripts/build $(PRESET)

# Builds what it runs, no tests.
demo: setup
	@scripts/build $(PRESET) ssa
	@echo '[demo] training softmax and SSA on the in-context tasks (at most 10 minutes on 2 cores)'
	$(SSA) reproduce configs/experiments/quick.toml --out $(DEMO)
	$(SSA) theory --json $(DEMO)/theory.json
	PYTHONPATH=$(BUILD)/python $(PYTHON) -m ssa_attention.report $(DEMO) -o report.html
	@du -sh .venv build
	@echo '[demo] done: open report.html in a browser'

test:
	@scripts/setup test
	@scripts/build $(PRESET)
	@echo '[test] running every test'
	ctest --test-dir $(BUILD) --output-on-failure -j $(JOBS)

sanitize:
	@scripts/setup test
	scripts/check_preset asan
	scripts/check_preset tsan

bench:
	@scripts/setup test
	@scripts/build $(PRESET)
	@echo '[bench] kernel tests first: no figures of wrong kernels'
	ctest --test-dir $(BUILD) -R '^kernels\.' -j $(JOBS) --output-on-failure --no-tests=error
	PYTHONPATH=$(BUILD)/python $(PYTHON) bench/attention.py --out bench/results.json --markdown docs/kernels.md

wheel: setup
	@scripts/wheel

lint:
	@scripts/setup test
	scripts/lint

docs: build
	@.venv/bin/python -m pip install -q --disable-pip-version-check -r docs/requirements.txt
	PYTHONPATH=$(BUILD)/python .venv/bin/python -m sphinx -q -b html docs build/docs
	@echo '[docs] open build/docs/index.html'

clean:
	rm -rf build
