#!/bin/sh
# Compiles the kernels for 64-bit Arm (NEON) and runs neon_check.cc in qemu's user-mode emulator.
# usage: neon_check.sh SOURCE_DIR BUILD_DIR; exit status 77: not possible on this machine (a skipped test).
set -eu
source=$1
build=$2
cxx=aarch64-linux-gnu-g++
for need in "$cxx" qemu-aarch64; do
  if ! command -v "$need" >/dev/null; then
    echo "skipped: $need is not installed (Debian: g++-aarch64-linux-gnu, qemu-user)"
    exit 77
  fi
done
highway=$(pkg-config --variable=includedir libhwy)
mkdir -p "$build/include"
# Highway's headers are the same for every processor, but its folder also holds this machine's own headers.
ln -sfn "$highway/hwy" "$build/include/hwy"
cd "$build"
rm -f ./*.o
pids=
for file in "$source"/src/kernels/*.cc; do
  "$cxx" -std=c++20 -O2 -Wall -Wextra -Werror -ffp-contract=off \
    '-DHWY_DISABLED_TARGETS=(HWY_SVE|HWY_SVE2|HWY_SVE_256|HWY_SVE2_128)' \
    -I"$build/include" -I"$source/include" -I"$source/src" \
    -c "$file" &
  pids="$pids $!"
done
# The plain loops that set the yardstick are compiled as on x86, where g++ does not contract a·b + c by default.
"$cxx" -std=c++20 -O2 -Wall -Wextra -Werror -ffp-contract=off \
  '-DHWY_DISABLED_TARGETS=(HWY_SVE|HWY_SVE2|HWY_SVE_256|HWY_SVE2_128)' \
  -I"$build/include" -I"$source/include" -I"$source/src" -I"$source/tests" \
  -c "$source/tests/kernels/neon_check.cc" -o neon_check.o
for pid in $pids; do wait "$pid"; done
"$cxx" -static ./*.o -pthread -o neon_check
qemu-aarch64 ./neon_check
