#!/usr/bin/env bash
# Runs the example against a server of its own, and looks at what came of it.
# WINDROW_BIN names the server's binary; PYTHON the interpreter, python3 by default.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
: "${WINDROW_BIN:?must name the windrow binary, such as target/debug/windrow}"
python="${PYTHON:-python3}"
export PYTHONPATH="$here/../../clients/python/src"

work="$(mktemp -d)"
server=
trap '[ -z "$server" ] || kill "$server" 2>/dev/null || true; rm -rf "$work"' EXIT

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

"$python" "$here/count.py" add "$work"/{fox.txt,three.txt,bytes.bin,gone.txt}
"$python" "$here/count.py" add "$work/fox.txt" | grep -q '^duplicate'
"$python" "$here/count.py" work --drain
shown="$("$python" "$here/count.py" show)"
echo "$shown"
grep -q '^ *9  fox.txt' <<<"$shown"
grep -q '^ *3  three.txt' <<<"$shown"
grep -q 'failed  bytes.bin .* is not text' <<<"$shown"
grep -q 'failed  gone.txt .* does not exist' <<<"$shown"
echo "the example does what it says"
