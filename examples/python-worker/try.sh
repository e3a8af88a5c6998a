#!/usr/bin/env bash
# Runs the example against a server of its own, and looks at what came of it.
# WINDROW_BIN names the server's binary; PYTHON the interpreter, python3 by default.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
python="${PYTHON:-python3}"
export PYTHONPATH="$here/../../clients/python/src"

source "$here/../server.sh"

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
