#!/usr/bin/env bash
# Enqueues the pictures of a folder: ./add.sh FOLDER [WIDTH]
# The path is the key: a picture that waits already is not enqueued twice.
set -euo pipefail
folder="$(realpath -e -- "${1:?which folder?}")"
width="${2:-200}"

find "$folder" -type f \( -iname '*.jpg' -o -iname '*.jpeg' -o -iname '*.png' -o -iname '*.gif' \) -print0 |
    sort -z |
    jq -Rsc --argjson width "$width" \
        'split("\u0000")[] | select(. != "") | {key: ., source_info: ., payload: {path: ., width: $width}}' |
    "${WINDROW_BIN:-windrow}" enqueue thumbs --ndjson
