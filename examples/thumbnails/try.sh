#!/usr/bin/env bash
# Runs the example on pictures that it makes, against a server of its own, and looks at what came of it.
# WINDROW_BIN names the server's binary. Wants netpbm and jq.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
export WINDROW_BIN
windrow() { "$WINDROW_BIN" "$@"; }
work_on() { windrow work --queue thumbs --until-empty "$@" -- "$here/make-thumb.sh" "$work/thumbs"; }
fail() { echo "try.sh: $*" >&2; exit 1; }
same() { [ "$2" = "$3" ] || fail "$1 is $2 and should be $3"; }

source "$here/../server.sh"

# Pictures: wide, high, small, with a name that wants quoting, with another ending, damaged, none.
photos="$work/photos"
mkdir -p "$photos/summer"
ppmpat -gingham2 -randomseed=1 640 480 >"$work/wide.ppm"
ppmpat -madras -randomseed=2 300 500 >"$work/high.ppm"
ppmpat -poles -randomseed=3 40 30 >"$work/small.ppm"
pnmtojpeg -quiet "$work/wide.ppm" >"$photos/wide.jpg"
pnmtopng -quiet "$work/high.ppm" >"$photos/summer/a \"high\" one.png"
pnmquant -quiet 64 "$work/small.ppm" 2>/dev/null | pamtogif -quiet >"$photos/small.gif"
pnmtopng -quiet "$work/wide.ppm" >"$photos/in-truth-a-png.jpeg"
head -c 2000 "$photos/wide.jpg" >"$photos/half.jpg"
echo "no picture at all" >"$photos/text.jpg"
cp "$photos/wide.jpg" "$photos/gone.jpg"
echo "not looked for" >"$photos/notes.txt"

same "what was enqueued" "$("$here/add.sh" "$photos" 160)" "7 created"
same "what was enqueued again" "$("$here/add.sh" "$photos" 160)" "7 duplicate"
rm "$photos/gone.jpg"
ended=0
work_on --concurrency 2 >"$work/ended" || ended=$?
same "the exit code of a worker of which some items failed" "$ended" 7

# The item of a picture, as the API shows it.
item() {
    local id
    id="$(windrow list queue:thumbs --json | jq -r --arg key "$1" 'select(.key == $key) | .id')"
    windrow show "$id" --json
}
# What became of a picture: its result says how large the thumbnail is, and so does the file.
check() {
    local shown thumbnail
    shown="$(item "$photos/$1")"
    same "the status of $1" "$(jq -r .status <<<"$shown")" completed
    thumbnail="$(jq -r .result.thumbnail <<<"$shown")"
    same "the size in the result of $1" "$(jq -r '.result | "\(.width) \(.height)"' <<<"$shown")" "$2"
    same "the size of $thumbnail" "$(jpegtopnm -quiet "$thumbnail" | pamfile -size)" "$2"
    same "the bytes of $thumbnail" "$(stat -c %s "$thumbnail")" "$(jq -r .result.bytes <<<"$shown")"
}
check wide.jpg "160 120"
check "summer/a \"high\" one.png" "96 160"
check small.gif "40 30"
check in-truth-a-png.jpeg "160 120"

# What failed, failed for good and at once, and says why.
check_failed() {
    local shown
    shown="$(item "$photos/$1")"
    same "what became of $1" "$(jq -r '"\(.status) \(.attempts) \(.error.class)"' <<<"$shown")" "$2"
    [[ "$(jq -r .error.message <<<"$shown")" == *"$3"* ]] || fail "$1 failed because of $(jq .error <<<"$shown")"
}
check_failed text.jpg "failed 1 bad_data" "is no JPEG, PNG or GIF"
check_failed half.jpg "failed 1 bad_data" "Premature EOF"
check_failed gone.jpg "failed 1 gone" "is not there"
same "the number of thumbnails" "$(find "$work/thumbs" -type f | wc -l)" 4

# Something stands in the way: 75, and tried again until it does not.
windrow settings thumbs backoff.base_ms=100 backoff.cap_ms=100 max_attempts=100 >/dev/null
thumbnail="$(item "$photos/wide.jpg" | jq -r .result.thumbnail)"
rm "$thumbnail"
mkdir "$thumbnail"
windrow delete queue:thumbs --yes >/dev/null
same "what was enqueued later" "$("$here/add.sh" "$photos" 160 && rm "$photos"/{half,text}.jpg)" "6 created"
windrow cancel queue:thumbs half.jpg --yes >/dev/null
windrow cancel queue:thumbs text.jpg --yes >/dev/null
work_on >"$work/ended"
shown="$(item "$photos/wide.jpg")"
same "the status of what could not be written" "$(jq -r .status <<<"$shown")" pending
[[ "$(jq -r .error.message <<<"$shown")" == *"ended with 75: cannot write"* ]] || fail "$(jq .error <<<"$shown")"
rmdir "$thumbnail"

# While it is worked on, it says how far it is.
mkdir "$work/slow"
printf '#!/bin/sh\nuntil [ -e "%s/go" ]; do sleep 0.05; done\nexec %q "$@"\n' "$work" "$(command -v pamscale)" \
    >"$work/slow/pamscale"
chmod +x "$work/slow/pamscale"
PATH="$work/slow:$PATH" "$WINDROW_BIN" work --queue thumbs --max 1 -- "$here/make-thumb.sh" "$work/thumbs" >"$work/ended" &
slow=$!
for _ in $(seq 600); do
    seen="$(item "$photos/wide.jpg" | jq -r '.progress | "\(.current)/\(.total) \(.message)"')"
    [ "$seen" = "2/3 scaling" ] && break
    sleep 0.1
done
same "how far it is" "$seen" "2/3 scaling"
touch "$work/go"
wait "$slow"
check wide.jpg "160 120"

same "what is left" "$(windrow stats --json | jq -r '"\(.pending) \(.processing)"')" "0 0"
leftovers="$(find "$work/thumbs" -name '.*' -print)"
same "half a thumbnail" "$leftovers" ""
echo "the example does what it says"
