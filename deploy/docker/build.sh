#!/bin/sh
# Builds windrow from the present directory and puts it into the one that is named.
# PROFILE chooses another profile of Cargo than dist, PACKAGES what else is built in the same way.
set -eu
out=$1
profile=${PROFILE:-dist}
packages=${PACKAGES:---package=windrow-server}
cargo build --locked --profile "$profile" "$packages" --bin windrow
case $profile in
dev) built=debug ;;
*) built=$profile ;;
esac
install -d "$out"
install -m 0755 "${CARGO_TARGET_DIR:-target}/$built/windrow" "$out/windrow"
"$out/windrow" --version
