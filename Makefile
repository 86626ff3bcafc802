# Two commands need nothing but Python 3.11+ and make: `make demo` and `make test`.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test check clean

demo: .venv/ready
	$(BIN)/advisor diagnose examples/slow-nvlink-pair || test $$? -eq 1

test: .venv/ready check
	$(BIN)/python -m pytest -q

check: .venv/ready
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/advisor rules check
	$(BIN)/advisor rules test

.venv/ready: pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed, this is " + sys.version.split()[0]) if sys.version_info < (3, 11) else 0'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	touch $@

clean:
	rm -rf .venv .cache build dist
