#!/usr/bin/env bash
# Runs the example against a server of its own, and looks at what came of it.
# WINDROW_BIN names the server's binary, and COUNT_BIN the example's.
set -euo pipefail
: "${WINDROW_BIN:?must name the windrow binary, such as target/debug/windrow}"
: "${COUNT_BIN:?must name the example, such as target/debug/count-words}"

work="$(mktemp -d)"
server= worker=
trap 'for pid in $worker $server; do kill "$pid" 2>/dev/null || true; done; rm -rf "$work"' EXIT

"$WINDROW_BIN" serve --data-dir "$work/data" --listen 127.0.0.1:0 --rpc-listen off \
    >"$work/log" 2>&1 &
server=$!
for _ in $(seq 300); do
    WINDROW_SERVER="$(grep -om1 'http://127\.0\.0\.1:[0-9]*' "$work/log" || true)"
    [ -n "$WINDROW_SERVER" ] && break
    sleep 0.1
done
: "${WINDROW_SERVER:?the server did not start: $(cat "$work/log")}"
export WINDROW_SERVER

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
id="$("$COUNT_BIN" add "$work/three.txt" | awk '{print $2}')"
for _ in $(seq 300); do
    "$COUNT_BIN" show "$id" | grep -q '^ *3 ' && break
    sleep 0.1
done
kill -TERM "$worker"
wait "$worker"
worker=
grep -qx 'settled: completed 1' "$work/settled"
echo "the example does what it says"
