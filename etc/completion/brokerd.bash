# Completion of brokerd for bash; `brokerd completion bash` prints it.
_brokerd() {
    local line=${COMP_LINE:0:COMP_POINT} current before text words
    read -ra words <<<"$line"
    [[ $line == *[[:space:]] ]] && words+=('')
    current=${words[-1]#[\'\"]}
    words[-1]=$current
    # A word of bash begins behind '=' and ':', too.
    before=${current%"${COMP_WORDS[COMP_CWORD]#[\'\"]}"}
    COMPREPLY=()
    while IFS=$'\t' read -r text _; do
        case $text in
            $'\001files') compopt -o default 2>/dev/null ;;
            $'\001folders') compopt -o dirnames 2>/dev/null ;;
            *)
                printf -v text %q "${text#"$before"}"
                COMPREPLY+=("$text")
                ;;
        esac
    done < <("$1" __complete "${words[@]:1}" 2>/dev/null)
}
complete -F _brokerd brokerd
