#compdef broker-ctl
# Completion of broker-ctl for zsh; `broker-ctl completion zsh` prints it.
_broker-ctl() {
    local text help
    local -a rows
    while IFS=$'\t' read -r text help; do
        case $text in
            $'\001files') _files ;;
            $'\001folders') _files -/ ;;
            *) rows+=("${${text//\\/\\\\}//:/\\:}:$help") ;;
        esac
    done < <("${words[1]}" __complete "${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}" 2>/dev/null)
    ((!$#rows)) || _describe broker-ctl rows
}
if [[ $funcstack[1] == _broker-ctl ]]; then _broker-ctl "$@"; else compdef _broker-ctl broker-ctl; fi
