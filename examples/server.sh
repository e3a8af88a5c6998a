# For the examples' try.sh, which source it: a directory, and a server of their own in it.
# WINDROW_BIN names the server's binary. Afterwards `work` is the directory, and WINDROW_SERVER says where the server is.
# When the script ends, so do the server and whatever `started` names, and the directory goes.
: "${WINDROW_BIN:?must name the windrow binary, such as target/debug/windrow}"

work="$(realpath "$(mktemp -d)")"
started=()
trap 'for pid in "${started[@]}"; do kill "$pid" 2>/dev/null || true; done; rm -rf "$work"' EXIT

"$WINDROW_BIN" serve --data-dir "$work/data" --listen 127.0.0.1:0 --rpc-listen off >"$work/log" 2>&1 &
started+=($!)
for _ in $(seq 300); do
    WINDROW_SERVER="$(grep -om1 'http://127\.0\.0\.1:[0-9]*' "$work/log" || true)"
    [ -n "$WINDROW_SERVER" ] && break
    sleep 0.1
done
: "${WINDROW_SERVER:?the server did not start: $(cat "$work/log")}"
export WINDROW_SERVER
