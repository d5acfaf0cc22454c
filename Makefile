# Everything sets itself up in .venv from nothing, and is cheap to repeat.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test test-long test-torch lint types tests bench docs clean

demo: .venv/base
	$(BIN)/headcount demo

test: lint types tests

lint: .venv/test
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports --no-logo

types: .venv/test
	$(BIN)/mypy

tests: .venv/test
	$(BIN)/python tests/run.py

test-long: .venv/test
	$(BIN)/pytest -m long

# In an environment of its own: PyTorch is large, and nothing else needs it.
test-torch: .venv-torch/test
	.venv-torch/bin/python benchmarks/torch_tests.py

bench: .venv/bench
	$(BIN)/python benchmarks/engine.py
	$(BIN)/python benchmarks/scale.py

docs: .venv/test .venv-docs/docs
	$(BIN)/python docs/quote.py
	NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build --strict
	$(BIN)/python docs/look.py

# A folder in which the last set-up broke off has no `made` file and is made again.
.venv/made:
	$(PYTHON) -m venv --clear .venv
	touch $@

.venv/base: .venv/made pyproject.toml constraints.txt
	$(BIN)/pip install --quiet --constraint constraints.txt --editable .
	touch $@

.venv/test: .venv/made pyproject.toml constraints.txt
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[test]'
	touch $@ .venv/base

.venv/bench: .venv/made pyproject.toml constraints.txt
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[test,bench]'
	touch $@ .venv/base

.venv-torch/made:
	$(PYTHON) -m venv --clear .venv-torch
	touch $@

.venv-torch/test: .venv-torch/made pyproject.toml constraints.txt
	.venv-torch/bin/pip install --quiet --constraint constraints.txt --editable '.[torch,hub,transformers]' hypothesis pytest
	touch $@

.venv-docs/made:
	$(PYTHON) -m venv --clear .venv-docs
	touch $@

.venv-docs/docs: .venv-docs/made pyproject.toml constraints.txt
	.venv-docs/bin/pip install --quiet --constraint constraints.txt --editable '.[docs]'
	touch $@

clean:
	rm -rf .venv .venv-docs .venv-torch site .mypy_cache .ruff_cache .pytest_cache .hypothesis demo demo.npz
