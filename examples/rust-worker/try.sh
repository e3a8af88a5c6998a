#!/usr/bin/env bash
# Runs the example against a server of its own, and looks at what came of it.
# WINDROW_BIN names the server's binary, and COUNT_BIN the example's.
set -euo pipefail
: "${COUNT_BIN:?must name the example, such as target/debug/count-words}"

source "$(dirname "${BASH_SOURCE[0]}")/../server.sh"

printf 'the quick brown fox\njumps over the lazy dog\n' >"$work/fox.txt"
printf 'one two three\n' >"$work/three.txt"
printf '\377\376 no text' >"$work/bytes.bin"

"$COUNT_BIN" add "$work"/{fox.txt,three.txt,bytes.bin,gone.txt} | tee "$work/added"
"$COUNT_BIN" add "$work/fox.txt" | grep -q '^Duplicate'
"$COUNT_BIN" work --drain | tee "$work/settled"
grep -qx 'settled: completed 2, failed 2' "$work/settled"
shown="$(awk '{print $2}' "$work/added" | xargs "$COUNT_BIN" show)"
echo "$shown"
grep -q '^ *9  .*fox.txt' <<<"$shown"
grep -q '^ *3  .*three.txt' <<<"$shown"
grep -q 'failed  .*bytes.bin .* is not text' <<<"$shown"
grep -q 'failed  .*gone.txt .* does not exist' <<<"$shown"

# One that works until it is told to stop.
"$COUNT_BIN" work >"$work/settled" &
worker=$!
started+=("$worker")
id="$("$COUNT_BIN" add "$work/three.txt" | awk '{print $2}')"
for _ in $(seq 300); do
    "$COUNT_BIN" show "$id" | grep -q '^ *3 ' && break
    sleep 0.1
done
kill -TERM "$worker"
wait "$worker"
unset 'started[-1]'
grep -qx 'settled: completed 1' "$work/settled"
echo "the example does what it says"
