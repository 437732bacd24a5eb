#compdef broker-bench
# Completion of broker-bench for zsh; `broker-bench completion zsh` prints it.
_broker-bench() {
    local text help
    local -a rows
    while IFS=$'\t' read -r text help; do
        case $text in
            $'\001files') _files ;;
            $'\001folders') _files -/ ;;
            *) rows+=("${${text//\\/\\\\}//:/\\:}:$help") ;;
        esac
    done < <("${words[1]}" __complete "${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}" 2>/dev/null)
    ((!$#rows)) || _describe broker-bench rows
}
if [[ $funcstack[1] == _broker-bench ]]; then _broker-bench "$@"; else compdef _broker-bench broker-bench; fi
