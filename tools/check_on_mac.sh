#!/usr/bin/env bash
# Compiles and runs everything that Iron has for Metal on this Mac, and packs what came of it.
#
#   tools/check_on_mac.sh [-o FOLDER] [-f KERNEL] [--dry]
#
# Needs macOS 14, a GPU of Apple's and Python 3.11. With Xcode's Metal tools every kernel is also
# compiled ahead of time. A step that fails does not end the run. Writes FOLDER (build/mac) and
# FOLDER.tar.gz beside it; exit status 1 when a step failed. Nothing is sent anywhere.
#
# --dry runs the same steps on any machine: PYTHON as it is, msl-text for Metal, quick benches on the CPU.
set -o pipefail # not -u: the bash of macOS takes an empty array for an unset one
cd "$(dirname "$0")/.."

out=build/mac
filter=()
dry=
while [ $# -gt 0 ]; do
  case $1 in
    -o) out=$2; shift ;;
    -f) filter+=(-f "$2"); shift ;;
    --dry) dry=1 ;;
    *) sed -n '2,11s/^# \{0,1\}//p' "$0"; exit 2 ;;
  esac
  shift
done

if [ -z "$dry" ] && [ "$(uname)" != Darwin ]; then
  echo "this is no Mac; --dry runs the same steps without one"
  exit 2
fi
rm -rf "$out" "$out.tar.gz"
mkdir -p "$out"
failed=()

# step NAME COMMAND...: its output goes to NAME.log, its verdict to the screen and summary.txt.
step() {
  local name=$1 began=$SECONDS verdict=ok
  shift
  "$@" >"$out/$name.log" 2>&1 || { verdict=FAILED; failed+=("$name"); }
  printf '%-12s %-7s %5d s\n' "$name" "$verdict" $((SECONDS - began)) | tee -a "$out/summary.txt"
}

machine() {
  sw_vers
  uname -a
  git rev-parse HEAD
  git status --short
  if [ -z "$dry" ]; then system_profiler SPHardwareDataType SPDisplaysDataType | grep -v -i serial; fi
  xcrun --version || true
}

install() {
  python3 tools/check_python.py && python3 -m venv build/mac-venv &&
    "$python" -m pip install --editable '.[dev,metal]'
}

emit() {
  "$python" -m iron emit --targets metal:apple7 --emit msl,metallib -o "$out/artefacts" "${filter[@]}"
}

metallib() {
  bash "$out/artefacts/metal/build.sh"
}

contract() {
  if [ -n "$dry" ]; then
    "$python" -m pytest -q tests/contract/test_driver.py -k 'fake and metal and scalars'
  else
    "$python" -m pytest -q -p tools.roads tests/contract/test_driver.py -k 'metal and not fake'
  fi
}

cases() {
  "$python" -m iron test -b "$backend" "${filter[@]}" --json >"$out/cases.json"
}

benches() {
  "$python" -m iron bench -b "$timed" "${filter[@]}" "${quick[@]}" --allow-dirty -vv \
    -o "$out/benches.json"
}

step machine machine
if [ -n "$dry" ]; then
  python=${PYTHON:-python3} backend=msl-text timed=cpu quick=(--quick --peer none)
else
  python=$PWD/build/mac-venv/bin/python backend=metal timed=metal quick=()
  step install install
fi
step device "$python" -m iron device
step emit emit
if xcrun -sdk macosx --find metal >/dev/null 2>&1; then
  step metallib metallib
else
  echo 'metallib     not run: Xcode has no Metal tools (xcode-select --install)' |
    tee -a "$out/summary.txt"
fi
step contract contract
step cases cases
step benches benches

tar -czf "$out.tar.gz" -C "$(dirname "$out")" "$(basename "$out")"
echo "results: $out.tar.gz"
if [ ${#failed[@]} -gt 0 ]; then
  echo "failed: ${failed[*]}"
  exit 1
fi
