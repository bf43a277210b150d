#!/usr/bin/env bash
# Everything that needs a GPU, in one go: builds, runs the tests marked `gpu`, keeps golden records, measures.
#
#   tests/gpu/run.sh prepare [BUNDLE]   on a machine with a network: the wheels that `run` needs, and a wheel of
#                                       this package where there is a python3.12 (else `run` builds it)
#   tests/gpu/run.sh [run] [OUT]        on the GPU machine, without a network: ends in a table; exit 0 = all passed
#
# BUNDLE is build/gpu-bundle, OUT is $OUT or build/gpu-out. Made for torch 2.11+cu130 on Python 3.12 and x86-64, which
# the GPU machine has with its CUDA libraries; PYTHON names another Python there. A C++ compiler is needed on it for
# the torch bridge, which fits one exact torch. All stages together take less than 8 minutes: each has a limit, and
# none goes on after that.
# OUT/golden holds the recordings with the versions of driver and CUPTI that made them: as tests/fixtures/gpu they
# are read by machines without a GPU.
set -uo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/../.."
readonly PYTHON_VERSION=3.12
readonly PLATFORM=manylinux_2_28_x86_64
readonly BUNDLE_DEFAULT=build/gpu-bundle
readonly LIMIT_S=465

# What torch brings along itself (numpy, CUDA's libraries) is left out.
readonly REQUIREMENTS=(
  'cmake>=3.25' 'hypothesis>=6.100' 'msgspec>=0.18' 'nanobind>=2.4' 'ninja>=1.11' 'opentelemetry-api>=1.30'
  'opentelemetry-instrumentation>=0.51b0' 'opentelemetry-sdk>=1.30' 'pytest>=8' 'pytest-timeout>=2.3' 'rich>=13'
  'scikit-build-core>=0.11'
)

say() { printf '==> %s\n' "$*"; }
die() { printf 'run.sh: %s\n' "$*" >&2; exit 2; }

prepare() {
  local bundle=${1:-$BUNDLE_DEFAULT} python=${PYTHON:-python3}
  mkdir -p "$bundle"
  say "Downloading wheels for Python $PYTHON_VERSION into $bundle"
  "$python" -m pip download --quiet --disable-pip-version-check --dest "$bundle" --only-binary=:all: \
    --python-version "$PYTHON_VERSION" --implementation cp --platform "$PLATFORM" --platform manylinux_2_17_x86_64 \
    --platform manylinux2014_x86_64 "${REQUIREMENTS[@]}" || die 'the wheels cannot be downloaded: is there a network?'
  # Without what it depends on, which comes with torch.
  "$python" -m pip download --quiet --disable-pip-version-check --dest "$bundle" --only-binary=:all: --no-deps \
    --python-version "$PYTHON_VERSION" --implementation cp --platform "$PLATFORM" --platform manylinux2014_x86_64 \
    cupti-python==13.0.1 || say 'no cupti-python: the tests that compare with it will be skipped'
  build_wheel "$bundle"
  say "$(du -sh "$bundle" | cut -f1) in $bundle: take it along with the working tree, then: tests/gpu/run.sh"
}

# Without a torch there is no prebuilt bridge in it: the GPU machine compiles that in seconds.
build_wheel() {
  local bundle=$1 builder
  builder=$(mktemp -d)
  if ! "python$PYTHON_VERSION" -c '' 2>/dev/null; then
    say "No python$PYTHON_VERSION here: the GPU machine builds the package itself"
    return
  fi
  say "Building the package for Python $PYTHON_VERSION (minutes)"
  if "python$PYTHON_VERSION" -m venv "$builder/venv" \
    && "$builder/venv/bin/pip" install --quiet --disable-pip-version-check --no-index --find-links "$bundle" \
      scikit-build-core nanobind cmake ninja \
    && "$builder/venv/bin/pip" wheel --quiet --disable-pip-version-check --no-build-isolation --no-deps \
      --config-settings=build-dir="$builder/build" --wheel-dir "$bundle" .; then
    say "Built $(basename "$(find "$bundle" -name 'otel_torchprof-*.whl')")"
  else
    say 'It could not be built here: the GPU machine builds it itself'
  fi
  rm -rf "$builder"
}

declare -a NAMES RESULTS SECONDS_TAKEN DETAILS

# stage NAME LIMIT_S COMMAND...: its output goes to OUT/NAME.log, its last line into the table.
stage() {
  local name=$1 limit_s=$2 begin=$SECONDS rc=0 left_s=$((LIMIT_S - SECONDS))
  shift 2
  # `timeout 0` would be none.
  if ((left_s < limit_s)); then limit_s=$((left_s > 1 ? left_s : 1)); fi
  say "$name"
  timeout --kill-after=5 "$limit_s" "$@" >"$OUT_DIR/$name.log" 2>&1 || rc=$?
  NAMES+=("$name")
  SECONDS_TAKEN+=($((SECONDS - begin)))
  DETAILS+=("$(grep -v '^[[:space:]]*$' "$OUT_DIR/$name.log" | tail -1 | cut -c1-110)")
  case $rc in
    0) RESULTS+=(passed) ;;
    124 | 137) RESULTS+=('over its time') ;;
    *) RESULTS+=("failed ($rc)") ;;
  esac
  return $rc
}

table() {
  local failed=0 i
  printf '\n%-10s %-14s %7s  %s\n' stage result seconds 'last line'
  for i in "${!NAMES[@]}"; do
    printf '%-10s %-14s %7s  %s\n' "${NAMES[i]}" "${RESULTS[i]}" "${SECONDS_TAKEN[i]}" "${DETAILS[i]}"
    [[ ${RESULTS[i]} == passed ]] || failed=1
  done
  if [[ -s $OUT_DIR/measure.log ]]; then
    printf '\n'
    awk -F '\t' 'NF == 2 { printf "%-36s %s\n", $1, $2 }' "$OUT_DIR/measure.log"
  fi
  return $failed
}

run() {
  OUT_DIR=${1:-${OUT:-build/gpu-out}}
  local bundle=${BUNDLE:-$BUNDLE_DEFAULT} python=${PYTHON:-python3}
  local venv wheel tag
  mkdir -p "$OUT_DIR"
  "$python" -c 'import torch' 2>/dev/null || die "$python has no torch: set PYTHON to one that has"
  [[ -d $bundle ]] || die "$bundle is missing: make it with tests/gpu/run.sh prepare where there is a network"
  # An environment on top of the one with torch, made outside of OUT, which may be copied back.
  venv=$(mktemp -d)/venv
  stage venv 60 "$python" -m venv --system-site-packages "$venv" || { table; return 1; }
  local pip=("$venv/bin/python" -m pip --disable-pip-version-check install --quiet --no-index --find-links "$bundle")
  stage tools 90 "${pip[@]}" "${REQUIREMENTS[@]}" || { table; return 1; }
  "${pip[@]}" --no-deps cupti-python >/dev/null 2>&1 || true
  tag=$("$venv/bin/python" -c 'import sys; print("cp%d%d" % sys.version_info[:2])')
  wheel=$(find "$bundle" -name "otel_torchprof-*-$tag-$tag-*$(uname -m).whl" | sort | tail -1)
  if [[ -n $wheel ]]; then
    stage package 60 "${pip[@]}" --no-deps "$wheel" || { table; return 1; }
  else
    stage build 240 env CMAKE_BUILD_PARALLEL_LEVEL="$(nproc)" "${pip[@]}" --no-build-isolation --no-deps . \
      || { table; return 1; }
  fi
  export PATH=$venv/bin:$PATH
  stage bridge 60 otel-torchprof build
  stage doctor 60 otel-torchprof doctor
  stage tests 180 "$venv/bin/python" -m pytest -p no:cacheprovider --timeout=120 -m gpu tests/gpu
  stage golden 90 "$venv/bin/python" -m tests.gpu.golden "$OUT_DIR/golden"
  stage measure 90 "$venv/bin/python" -m tests.gpu.measure
  table
}

case ${1:-run} in
  prepare) shift; prepare "$@" ;;
  run) shift || true; run "$@" ;;
  *) die "usage: tests/gpu/run.sh prepare [BUNDLE] | [run] [OUT]" ;;
esac
