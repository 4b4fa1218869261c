#!/usr/bin/env bash
# What the completions of shells offer: commands after a group, options after a command, the values of an option.
set -uo pipefail
cd "$(dirname "$0")/../../client/completion"
failed=0

expect() { # SHELL LINE WORD...: each word is offered for the last word of the line
  local shell=$1 line=$2 offered
  shift 2
  offered=$("offers_of_$shell" "$line")
  for word in "$@"; do
    grep -qxe "$word" <<<"$offered" || { echo "$shell: \"$line\" does not offer $word but: ${offered//$'\n'/ }"; failed=1; }
  done
}

offers_of_bash() {
  bash -c '
    source kintsugi.bash
    IFS=" " read -r -a COMP_WORDS <<<"$1"
    [[ $1 == *" " ]] && COMP_WORDS+=("")
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
    [[ ${COMP_WORDS[0]} == kintsugi ]] && _kintsugi || _kintsugi_daemon "${COMP_WORDS[0]}"
    printf "%s\n" "${COMPREPLY[@]}"' offers "$1"
}

offers_of_zsh() {
  # The functions that show what is offered print it.
  zsh -f -c '
    _describe() { print -l -- "${${(@P)2}[@]%%:*}" }
    _files() { print FILES }
    words=(${(z)1})
    [[ $1 == *" " ]] && words+=("")
    CURRENT=$#words
    PREFIX=$words[CURRENT]
    offer() { source ./_kintsugi }
    offer' offers "$1"
}

for shell in bash zsh; do
  command -v "$shell" >/dev/null || continue
  expect "$shell" "kintsugi " put get policy diagnose
  expect "$shell" "kintsugi policy " list get set
  expect "$shell" "kintsugi put --" --replace --policy --json
  expect "$shell" "kintsugi repair run --shape " star chain auto
  expect "$shell" "kintsugi-mount --" --io-timeout --secret-file
done
[ "$(offers_of_bash "kintsugi cat --")" = $'--trace\n--help' ] || { echo "cat has no --json"; failed=1; }
exit $failed
