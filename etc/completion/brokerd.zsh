#compdef brokerd
# Completion of brokerd for zsh; `brokerd completion zsh` prints it.
_brokerd() {
    local text help
    local -a rows
    while IFS=$'\t' read -r text help; do
        case $text in
            $'\001files') _files ;;
            $'\001folders') _files -/ ;;
            *) rows+=("${${text//\\/\\\\}//:/\\:}:$help") ;;
        esac
    done < <("${words[1]}" __complete "${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}" 2>/dev/null)
    ((!$#rows)) || _describe brokerd rows
}
if [[ $funcstack[1] == _brokerd ]]; then _brokerd "$@"; else compdef _brokerd brokerd; fi
