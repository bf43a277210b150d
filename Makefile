# Needs Python >= 3.10, a C++20 compiler and make; everything else comes from PyPI into .venv.
#
#   PYTHON=python3.12 make setup      another Python
#   TORCH=torch==2.12.0 make setup    another torch (the bridge is compiled for exactly this one)

PYTHON ?= python3
TORCH ?= torch==2.13.0
JOBS ?= 2

# Reads our exports in the tests. Without what it depends on: it asks for all of JupyterLab, and tests need none of it.
TRACE_ANALYSIS := HolisticTraceAnalysis==0.5.0

VENV := .venv
BIN := $(VENV)/bin
# Quiet twice: no warnings about the machine's own package sources either.
PIP := $(BIN)/python -m pip --disable-pip-version-check -qq
SAY = @printf '==> %s\n'

BUILD_FILES := pyproject.toml $(shell find . -name CMakeLists.txt -not -path './.venv/*' -not -path './build/*')
NATIVE_FILES := $(shell find native -name '*.h' -o -name '*.cpp')
PACKAGE_FILES := $(wildcard src/otel_torchprof/__init__.py src/otel_torchprof/*/__init__.py) src/otel_torchprof/version.py
TORCH_STAMP := $(VENV)/.$(subst =,-,$(TORCH))
LINT_BUILD := build/lint

.DEFAULT_GOAL := help
.PHONY: help setup demo test lint bench clean

help:
	@echo 'make setup   .venv with torch (CPU is enough), the package and what its tests need'
	@echo 'make demo    trains a small CNN under opentelemetry-instrument; leaves out/demo.tprof and out/spans.jsonl'
	@echo 'make test    all tests, native ones included'
	@echo 'make lint    ruff, mypy, clang-format, clang-tidy, layer rules'
	@echo 'make bench   every figure beside its anchor'
	@echo 'make clean   removes build products and .venv'

# --- setup: one stamp a stage, so that a second run does nothing -------------------------------------------

setup: $(VENV)/.package

$(VENV)/.python:
	$(SAY) "Creating $(VENV) with $(PYTHON)"
	@command -v $(PYTHON) >/dev/null || { echo 'make: $(PYTHON) not found: install Python 3.10 or newer, or set PYTHON=' >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' \
	  || { echo "make: $$($(PYTHON) -V) is too old: Python 3.10 or newer is needed; set PYTHON=python3.12 or the like" >&2; exit 1; }
	@command -v $${CXX:-c++} >/dev/null || command -v g++ >/dev/null || command -v clang++ >/dev/null \
	  || { echo 'make: no C++ compiler: install g++ (>= 11) or clang (>= 14), or set CXX=' >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) \
	  || { echo 'make: $(PYTHON) -m venv failed: on Debian and Ubuntu, apt-get install python3-venv' >&2; exit 1; }
	@touch $@

$(TORCH_STAMP): $(VENV)/.python
	$(SAY) "Installing $(TORCH) (minutes the first time)"
	@$(PIP) install '$(TORCH)' numpy
	@rm -f $(VENV)/.torch-* && touch $@

$(VENV)/.build-tools: $(VENV)/.python pyproject.toml
	$(SAY) "Installing the build tools"
	@$(PIP) install 'scikit-build-core>=0.11' 'nanobind>=2.4' 'cmake>=3.25' 'ninja>=1.11'
	@touch $@

# Without build isolation: the bridge is compiled against the torch of this environment.
$(VENV)/.package: $(TORCH_STAMP) $(VENV)/.build-tools $(BUILD_FILES) $(NATIVE_FILES) $(PACKAGE_FILES)
	$(SAY) "Building the native core and the torch bridge, installing the package and its test tools (minutes)"
	@CMAKE_BUILD_PARALLEL_LEVEL=$(JOBS) $(PIP) install --no-build-isolation -e '.[test]'
	@$(PIP) install --no-deps '$(TRACE_ANALYSIS)'
	@touch $@

$(VENV)/.dev-tools: $(VENV)/.package
	$(SAY) "Installing the lint tools"
	@$(PIP) install --no-build-isolation -e '.[dev]'
	@touch $@

# For tests of dashboards and alerts only. Without npm these are skipped, in CI they fail.
QUERY_PARSERS := tests/query_parsers/node_modules
$(QUERY_PARSERS): tests/query_parsers/package.json
	@if command -v npm >/dev/null; then \
	  printf '==> %s\n' 'Installing the parsers of PromQL and TraceQL'; \
	  npm install --prefix tests/query_parsers --silent --no-package-lock --no-audit --no-fund && touch $@ \
	    || echo 'make: npm could not install them: the tests that need them will say so' >&2; \
	fi

# Tools that wrap much of what a program uses, each in a folder of its own: only the tests beside them have them. Which
# instrumentations there are for the packages of this environment is theirs to say.
OTHER_TOOLS := $(VENV)/beside
$(OTHER_TOOLS): $(VENV)/.package
	$(SAY) "Installing ddtrace and the instrumentations of opentelemetry-python-contrib"
	@rm -rf $@ $@.new && { $(PIP) install --no-deps --target $@.new/ddtrace ddtrace bytecode envier \
	  && $(BIN)/opentelemetry-bootstrap -a requirements | sed 's/==.*//' | sort -u \
	    | xargs $(PIP) install --no-deps --target $@.new/contrib opentelemetry-util-http \
	  && mv $@.new $@ || echo 'make: they could not be installed: the tests beside them will say so' >&2; }

# --- what people run --------------------------------------------------------------------------------------

# No server: spans go to a file. Two steps are passed over, three are recorded, into one recording.
demo: export OTEL_TRACES_EXPORTER = otlp_file
demo: export OTEL_METRICS_EXPORTER = none
demo: export OTEL_LOGS_EXPORTER = none
demo: export OTEL_SERVICE_NAME = demo
demo: export OTEL_PYTHON_TORCHPROF_OTLP_FILE = out/spans.jsonl
demo: export OTEL_PYTHON_TORCHPROF_RECORDING_DIR = out
demo: export OTEL_PYTHON_TORCHPROF_RUN_ID = demo
demo: export OTEL_PYTHON_TORCHPROF_SCHEDULE = skip_first=2,wait=0,warmup=0,active=3,repeat=1
demo: setup
	@mkdir -p out && rm -f out/demo*.tprof out/spans.jsonl
	$(SAY) "Training a small CNN: opentelemetry-instrument python examples/zero-code/train_cnn.py"
	@$(BIN)/opentelemetry-instrument $(BIN)/python examples/zero-code/train_cnn.py
	@mv out/demo-*.tprof out/demo.tprof
	$(SAY) "Its recording is out/demo.tprof ($$(wc -c < out/demo.tprof) bytes), its spans out/spans.jsonl ($$(wc -c < out/spans.jsonl) bytes of OTLP JSON)"
	$(SAY) "otel-torchprof report out/demo.tprof"
	@$(BIN)/otel-torchprof report out/demo.tprof
	$(SAY) "Next: $(BIN)/otel-torchprof info out/demo.tprof, and $(BIN)/otel-torchprof patterns out/demo.tprof"
	$(SAY) "As a page: $(BIN)/otel-torchprof report out/demo.tprof -o out/demo.html"

test: setup $(QUERY_PARSERS) $(OTHER_TOOLS)
	$(SAY) "Running the tests"
	@$(BIN)/python -m pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder

lint: $(VENV)/.dev-tools
	$(SAY) "ruff"
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --check --quiet .
	$(SAY) "mypy"
	@$(BIN)/mypy --no-error-summary
	$(SAY) "clang-format"
	@$(BIN)/clang-format --dry-run -Werror $(NATIVE_FILES)
	$(SAY) "clang-tidy (minutes)"
	@mkdir -p build && CXX=$${CXX:-c++} $(BIN)/cmake -S . -B $(LINT_BUILD) -G Ninja \
	  -DCMAKE_MAKE_PROGRAM=$(CURDIR)/$(BIN)/ninja -DPython_EXECUTABLE=$(CURDIR)/$(BIN)/python -DTORCHPROF_TESTS=ON \
	  -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON -DTORCHPROF_UNITY=OFF > $(LINT_BUILD).log 2>&1 \
	  || { cat $(LINT_BUILD).log >&2; exit 1; }
	@printf '%s\n' $(filter %.cpp,$(NATIVE_FILES)) | xargs -P $(JOBS) -n 1 $(BIN)/clang-tidy --quiet -p $(LINT_BUILD) 2>/dev/null
	$(SAY) "layer rules"
	@$(BIN)/python -m pytest tests/unit/test_layers.py

bench: setup
	$(SAY) "Measuring (minutes); nothing else should run on this machine"
	@$(BIN)/python -m benchmarks

clean:
	rm -rf $(VENV) build dist out .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
