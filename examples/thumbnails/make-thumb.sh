#!/usr/bin/env bash
# Makes the thumbnail of one picture: windrow work --queue thumbs -- ./make-thumb.sh [FOLDER]
#
# The payload is on standard input: {"path": "/photos/cat.jpg", "width": 200}. The thumbnail goes to
# FOLDER, ./thumbs by default, and what is written to standard output is the item's result.
# An item may be handed out again after a crash, so the thumbnail of a picture has always the same
# name, and it gets that name when it is whole.
set -euo pipefail

# How a command ends says what becomes of its item, and why it did is what it wrote last.
bad_data() { echo "$*" >&2; exit 65; } # failed: trying again would not help
gone() { echo "$*" >&2; exit 66; }     # failed: there is nothing left to do
needs() { echo "$*" >&2; exit 69; }    # tried again, later than usual
again() { echo "$*" >&2; exit 75; }    # tried again
progress() { echo "$*" >"${WINDROW_PROGRESS:-/dev/null}"; }

for tool in jq pamscale jpegtopnm pngtopam giftopnm pnmtojpeg; do
    command -v "$tool" >/dev/null || needs "$tool is not installed here (Debian: netpbm, jq)"
done

payload="$(cat)"
path="$(jq -er '.path | strings' <<<"$payload" 2>/dev/null)" || bad_data "the payload names no path"
width="$(jq -er '.width // 200 | numbers | floor' <<<"$payload" 2>/dev/null)" &&
    ((width >= 1 && width <= 4096)) || bad_data "a width is from 1 to 4096"
[ -f "$path" ] || gone "$path is not there"

# What it is, say its first bytes; its name may be wrong.
case "$(head -c 4 -- "$path" | od -An -tx1 | tr -d ' \n')" in
    ffd8ff*) decode=(jpegtopnm) ;;
    89504e47) decode=(pngtopam -mix -background=white) ;;
    47494638) decode=(giftopnm -image=1) ;;
    *) bad_data "$path is no JPEG, PNG or GIF" ;;
esac

folder="$(realpath -m -- "${1:-thumbs}")"
mkdir -p -- "$folder" || again "cannot make $folder"
scratch="$(mktemp -d)" || again "no room for scratch files"
trap 'rm -rf -- "$scratch"' EXIT

progress "1/3 reading"
# `cat` fails if the disk is full, the decoder if the picture is damaged.
set +e
"${decode[@]}" <"$path" 2>"$scratch/why" | cat >"$scratch/picture"
ended=("${PIPESTATUS[@]}")
set -e
((ended[1] == 0)) || again "cannot write scratch files"
((ended[0] == 0)) || bad_data "$path cannot be read: $(tail -n1 "$scratch/why")"

progress "2/3 scaling"
read -r full_width full_height < <(pamfile -size "$scratch/picture")
# No picture is made larger than it was.
box=$((full_width > full_height ? full_width : full_height))
((box <= width)) || box="$width"
pamscale -xyfit "$box" "$box" "$scratch/picture" >"$scratch/small" 2>"$scratch/why" ||
    again "cannot scale $path: $(tail -n1 "$scratch/why")"

progress "3/3 writing"
name="$(basename -- "$path")"
name="${name%.*}-$(printf %s "$path" | sha256sum | head -c 12).jpg"
part="$folder/.$name.${WINDROW_ID:-alone}"
{ pnmtojpeg -quality=85 "$scratch/small" >"$part" && mv -T -- "$part" "$folder/$name"; } 2>"$scratch/why" ||
    { rm -f -- "$part"; again "cannot write $folder/$name: $(tail -n1 "$scratch/why")"; }

read -r small_width small_height < <(pamfile -size "$scratch/small")
jq -nc --arg thumbnail "$folder/$name" --argjson bytes "$(stat -c %s -- "$folder/$name")" \
    --argjson width "$small_width" --argjson height "$small_height" \
    '{thumbnail: $thumbnail, width: $width, height: $height, bytes: $bytes}'
