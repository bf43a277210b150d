#!/usr/bin/env bash
# Everything that needs a GPU, in one go: builds, keeps golden records, runs the tests marked `gpu`, measures.
#
#   tests/gpu/run.sh prepare [BUNDLE]   on a machine with a network: the wheels that `run` needs, and a wheel of
#                                       this package where there is a Python 3.12 (else `run` builds it)
#   tests/gpu/run.sh [run] [OUT]        on the GPU machine, without a network: ends in a table; exit 0 = all passed
#
# BUNDLE is build/gpu-bundle, OUT is $OUT or build/gpu-out. Made for torch 2.11+cu130 on Python 3.12 and x86-64, which
# the GPU machine has with its CUDA libraries.
#   PYTHON        the Python with torch, python3. What `run` needs is installed on top of it, into a folder that goes.
#   WHEEL_PYTHON  the Python that `prepare` builds the wheel for, python3.12. Where it has torch, the wheel has the
#                 torch bridge for exactly that torch; else a C++ compiler is needed on the GPU machine.
# All stages together take less than 8 minutes: each has a limit, and none goes on after that.
#
# OUT gets table.txt, logs.tar.gz (a log a stage) and golden.tar.gz, new after each stage, so that nothing is lost
# where the time ends. The golden recordings, with the versions of driver and CUPTI that made them, are read by
# machines without a GPU: mkdir -p tests/fixtures/gpu && tar -xzf golden.tar.gz -C tests/fixtures/gpu
set -uo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/../.."
readonly PYTHON_VERSION=3.12
readonly PLATFORM=manylinux_2_28_x86_64
readonly BUNDLE_DEFAULT=build/gpu-bundle
readonly LIMIT_S=465

# What torch brings along itself (numpy, CUDA's libraries) is left out.
readonly REQUIREMENTS=(
  'cmake>=3.25' 'hypothesis>=6.100' 'msgspec>=0.18' 'nanobind>=2.4' 'ninja>=1.11' 'opentelemetry-api>=1.30'
  'opentelemetry-instrumentation>=0.51b0' 'opentelemetry-sdk>=1.30' 'pip>=24' 'pytest>=8' 'pytest-timeout>=2.3'
  'rich>=13' 'scikit-build-core>=0.11'
)

say() { printf '==> %s\n' "$*"; }
die() { printf 'run.sh: %s\n' "$*" >&2; exit 2; }

# environment_on_top PYTHON VENV BUNDLE: an environment that sees what PYTHON sees, and first what it has itself.
# `venv --system-site-packages` would show the packages of the Python that PYTHON's own environment was made from.
# pip comes from the bundle, as distributions leave out what `venv` would make it from.
environment_on_top() {
  local python=$1 venv=$2 pip_wheel
  pip_wheel=$(find "$3" -name 'pip-*.whl' | sort -V | tail -1)
  [[ -n $pip_wheel ]] || { echo "no pip in $3: prepare the bundle anew"; return 1; }
  "$python" -m venv --without-pip "$venv" || return
  # addsitedir, so that .pth files there are followed too.
  "$python" - "$venv" <<'PY' || return
import sys
import sysconfig
from pathlib import Path

below = [folder for folder in sys.path if Path(folder).name in {"site-packages", "dist-packages"}]
own = sysconfig.get_path("purelib", "venv", {"base": sys.argv[1], "platbase": sys.argv[1]})
lines = [f"import site; site.addsitedir({folder!r})\n" for folder in below]
Path(own, "zz_below.pth").write_text("".join(lines), encoding="utf-8")
print("on top of", *below)
PY
  "$venv/bin/python" "$pip_wheel/pip" --disable-pip-version-check install --quiet --no-index --no-deps \
    --ignore-installed "$pip_wheel" || return
  "$venv/bin/python" -c 'import sys; print("environment of", sys.version.split()[0], "in", sys.prefix)'
}

# What the package is built from, in one line.
sources() {
  find src native pyproject.toml CMakeLists.txt -type f -not -path '*/__pycache__/*' -not -name '*.so' -print0 \
    | LC_ALL=C sort -z | xargs -0 sha256sum | sha256sum
}

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

build_wheel() {
  local bundle=$1 python=${WHEEL_PYTHON:-python$PYTHON_VERSION} version builder wheel
  version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)
  if [[ $version != "$PYTHON_VERSION" ]]; then
    say "$python is no Python $PYTHON_VERSION here: the GPU machine builds the package itself (minutes)." \
      "WHEEL_PYTHON=/path/to/python$PYTHON_VERSION names one that is not on the PATH."
    return
  fi
  builder=$(mktemp -d)
  say "Building the package with $python (minutes)"
  # One of an earlier state must not be taken for this one.
  rm -f "$bundle"/otel_torchprof-*.whl
  if environment_on_top "$python" "$builder/venv" "$bundle" \
    && "$builder/venv/bin/python" -m pip --disable-pip-version-check install --quiet --no-index --find-links "$bundle" \
      scikit-build-core nanobind cmake ninja \
    && PATH=$builder/venv/bin:$PATH "$builder/venv/bin/python" -m pip --disable-pip-version-check wheel --quiet \
      --no-build-isolation --no-deps --config-settings=build-dir="$builder/build" --wheel-dir "$bundle" .; then
    wheel=$(find "$bundle" -name 'otel_torchprof-*.whl')
    sources >"$bundle/sources"
    say "Built $(basename "$wheel")," \
      "with $("$python" -m zipfile -l "$wheel" | grep -o 'bridge-[^ ]*\.so' || echo 'no torch bridge in it')"
  else
    say 'It could not be built here: the GPU machine builds it itself'
  fi
  rm -rf "$builder"
}

# What the records and figures depend on. Nobody can look at the machine afterwards.
machine() {
  set +e
  uname -srvm
  grep -s PRETTY_NAME /etc/os-release
  echo "$(nproc) processors: $(grep -m1 'model name' /proc/cpuinfo | cut -d: -f2-)"
  free -m
  df -h "$WORK"
  c++ --version 2>&1 | head -1
  ldd --version 2>&1 | head -1
  cat /proc/driver/nvidia/version
  grep -s RmProfilingAdminOnly /proc/driver/nvidia/params
  env | grep -E '^(CUDA|NVIDIA|LD_LIBRARY_PATH|TORCH|KINETO|PYTORCH|PYTHONPATH)'
  nvidia-smi
  nvidia-smi --format=csv \
    --query-gpu=driver_version,vbios_version,pstate,clocks.sm,clocks.max.sm,persistence_mode,compute_mode,mig.mode.current
  "$1" -VV
  "$1" -m pip list --disable-pip-version-check 2>/dev/null \
    | grep -iE '^(torch|nvidia|cuda|cupti|triton|numpy|opentelemetry|pytest|hypothesis|msgspec|nanobind|pip|scikit) ?'
  # Last, as it is what the table shows.
  "$1" -c '
import torch
gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU"
print("libraries of CUDA:", torch.version.cuda, "cuDNN", torch.backends.cudnn.version())
print(f"torch {torch.__version__}, {gpu}")'
}

declare -a NAMES=() RESULTS=() SECONDS_TAKEN=() DETAILS=() NOTES=()

# stage NAME LIMIT_S COMMAND...: its output goes into logs.tar.gz, its last line into the table.
stage() {
  local name=$1 limit_s=$2 begin=$SECONDS rc=0 left_s=$((LIMIT_S - SECONDS)) place=${#NAMES[@]}
  shift 2
  # `timeout 0` would be none.
  if ((left_s < limit_s)); then limit_s=$((left_s > 1 ? left_s : 1)); fi
  say "$name"
  NAMES+=("$name")
  RESULTS+=('cut off')
  SECONDS_TAKEN+=(0)
  DETAILS+=('')
  # In the background, so that a signal is heard at once.
  timeout --kill-after=5 "$limit_s" "$@" >"$WORK/logs/$name.log" 2>&1 &
  STAGE_PID=$!
  wait "$STAGE_PID" || rc=$?
  STAGE_PID=
  SECONDS_TAKEN[place]=$((SECONDS - begin))
  DETAILS[place]=$(grep -av '^[[:space:]]*$' "$WORK/logs/$name.log" | tail -1 | cut -c1-110)
  case $rc in
    0) RESULTS[place]=passed ;;
    124 | 137) RESULTS[place]='over its time' ;;
    *) RESULTS[place]="failed ($rc)" ;;
  esac
  [[ $rc == 0 ]] || tail -n 40 "$WORK/logs/$name.log"
  save
  return $rc
}

table() {
  local i
  printf '%-10s %-14s %7s  %s\n' stage result seconds 'last line'
  for i in "${!NAMES[@]}"; do
    printf '%-10s %-14s %7s  %s\n' "${NAMES[i]}" "${RESULTS[i]}" "${SECONDS_TAKEN[i]}" "${DETAILS[i]}"
  done
  printf '\n'
  [[ ${#NOTES[@]} == 0 ]] || printf '%s\n' "${NOTES[@]}" ''
  if [[ -s $WORK/logs/measure.log ]]; then
    awk -F '\t' 'NF == 2 { printf "%-36s %s\n", $1, $2 }' "$WORK/logs/measure.log"
  fi
}

# What there is so far. A file that is replaced is whole at any time.
save() {
  local folder
  table >"$WORK/table.txt"
  cp "$WORK/table.txt" "$OUT_DIR/.new" && mv "$OUT_DIR/.new" "$OUT_DIR/table.txt"
  for folder in logs golden; do
    [[ -n $(ls -A "$WORK/$folder") ]] || continue
    tar -czf "$OUT_DIR/.new" -C "$WORK/$folder" . && mv "$OUT_DIR/.new" "$OUT_DIR/$folder.tar.gz"
  done
}

finish() {
  [[ -z ${STAGE_PID:-} ]] || kill "$STAGE_PID" 2>/dev/null
  save
  printf '\n'
  cat "$OUT_DIR/table.txt"
  printf '\n'
  du -h "$OUT_DIR"/*
  rm -rf "$WORK"
}

run() {
  OUT_DIR=${1:-${OUT:-build/gpu-out}}
  local bundle=${BUNDLE:-$BUNDLE_DEFAULT} python=${PYTHON:-python3} venv wheel tag
  [[ -d $bundle ]] || die "$bundle is missing: make it with tests/gpu/run.sh prepare where there is a network"
  mkdir -p "$OUT_DIR"
  WORK=$(mktemp -d)
  mkdir "$WORK/logs" "$WORK/golden"
  export WORK
  trap finish EXIT
  trap 'exit 143' HUP INT TERM
  export -f machine environment_on_top
  export PYTHONUNBUFFERED=1
  # The bridge that is compiled here is for this run alone.
  export XDG_CACHE_HOME=$WORK/cache
  venv=$WORK/venv
  stage machine 90 bash -c 'machine "$@"' - "$python" || die "$python cannot import torch: set PYTHON to one that can"
  stage venv 60 bash -c 'environment_on_top "$@"' - "$python" "$venv" "$bundle" || return 1
  local pip=("$venv/bin/python" -m pip --disable-pip-version-check install --quiet --no-index --find-links "$bundle")
  stage tools 120 "${pip[@]}" "${REQUIREMENTS[@]}" || return 1
  "${pip[@]}" --no-deps cupti-python >/dev/null 2>&1 || true
  export PATH=$venv/bin:$PATH
  tag=$("$venv/bin/python" -c 'import sys; print("cp%d%d" % sys.version_info[:2])')
  wheel=$(find "$bundle" -name "otel_torchprof-*-$tag-$tag-*$(uname -m).whl" | sort | tail -1)
  [[ -z $wheel || $(sources) == "$(cat "$bundle/sources")" ]] \
    || NOTES+=("ATTENTION: $(basename "$wheel") was built from other sources than these; prepare the bundle anew")
  # A wheel of a newer machine may ask for a newer C library than there is here.
  if [[ -z $wheel ]] || ! stage package 60 bash -c '"$@" && python -c "import otel_torchprof._native.core"' - \
    "${pip[@]}" --force-reinstall --no-deps "$wheel"; then
    [[ -z $wheel ]] || NOTES+=("$(basename "$wheel") does not work on this machine: see package.log")
    stage build 240 env CMAKE_BUILD_PARALLEL_LEVEL="$(nproc)" "${pip[@]}" --force-reinstall --no-build-isolation \
      --no-deps . || return 1
  fi
  stage bridge 60 otel-torchprof build
  stage doctor 60 otel-torchprof doctor
  # What it records, tests and figures read.
  stage golden 120 python -m tests.gpu.golden "$WORK/golden"
  # Plugins of the machine's own environment have no part in it.
  stage tests 170 env TORCHPROF_GPU_RECORDINGS="$WORK/golden" PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 \
    python -m pytest -p pytest_timeout -p no:cacheprovider --timeout=100 -vv -ra --durations=10 -m gpu tests/gpu
  stage measure 120 python -m tests.gpu.measure "$WORK/golden"
  local result
  for result in "${RESULTS[@]}"; do
    [[ $result == passed ]] || return 1
  done
}

case ${1:-run} in
  prepare) shift; prepare "$@" ;;
  run) shift || true; run "$@" ;;
  *) die "usage: tests/gpu/run.sh prepare [BUNDLE] | [run] [OUT]" ;;
esac
