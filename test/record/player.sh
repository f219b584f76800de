# Plays a session: bash player.sh SESSION FAILED. Each line is typed and run. What
# watches is interrupted when the rollout is complete. The first line that fails is
# written to FAILED, with what it said.

type_out() {
  local i
  for ((i = 0; i < ${#1}; i++)); do
    printf '%s' "${1:i:1}"
    sleep 0.03
  done
  sleep 0.4
  printf '\n'
}

while IFS= read -r line <&3; do
  if [[ $line == '#'* ]]; then
    printf '\n\e[2m'
    type_out "$line"
    printf '\e[0m'
    continue
  fi
  printf '\e[1;32m$\e[0m '
  type_out "$line"
  if [[ $line == *--watch ]]; then
    $line &
    watching=$!
    kubectl ids rollout status nginx >/dev/null
    result=$?
    sleep 2
    kill -TERM $watching
    wait $watching
    printf '^C\n'
  else
    eval "$line" 2>"$2.said"
    result=$?
    cat "$2.said"
  fi
  if ((result != 0)); then
    printf '%s: %s' "$line" "$(<"$2.said")" >"$2"
    exit
  fi
  sleep 1
done 3<"$1"
sleep 3
