/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A few lines for each shell; the program itself knows the words. Names come from a broker and so
 * from strangers: no shell evaluates them, and each is quoted before it stands on a command line.
 */
#include "tools/cli/shells.h"

#include <string.h>

/* \002 is the program's name, \003 the same with '_' in place of '-'. */
static const char bash_text[] =
    "# Completion of \002 for bash; `\002 completion bash` prints it.\n"
    "_\003() {\n"
    "    local line=${COMP_LINE:0:COMP_POINT} current before text words\n"
    "    read -ra words <<<\"$line\"\n"
    "    [[ $line == *[[:space:]] ]] && words+=('')\n"
    "    current=${words[-1]#[\\'\\\"]}\n"
    "    words[-1]=$current\n"
    "    # A word of bash begins behind '=' and ':', too.\n"
    "    before=${current%\"${COMP_WORDS[COMP_CWORD]#[\\'\\\"]}\"}\n"
    "    COMPREPLY=()\n"
    "    while IFS=$'\\t' read -r text _; do\n"
    "        case $text in\n"
    "            $'\\001files') compopt -o default 2>/dev/null ;;\n"
    "            $'\\001folders') compopt -o dirnames 2>/dev/null ;;\n"
    "            *)\n"
    "                printf -v text %q \"${text#\"$before\"}\"\n"
    "                COMPREPLY+=(\"$text\")\n"
    "                ;;\n"
    "        esac\n"
    "    done < <(\"$1\" __complete \"${words[@]:1}\" 2>/dev/null)\n"
    "}\n"
    "complete -F _\003 \002\n";

static const char zsh_text[] =
    "#compdef \002\n"
    "# Completion of \002 for zsh; `\002 completion zsh` prints it.\n"
    "_\002() {\n"
    "    local text help\n"
    "    local -a rows\n"
    "    while IFS=$'\\t' read -r text help; do\n"
    "        case $text in\n"
    "            $'\\001files') _files ;;\n"
    "            $'\\001folders') _files -/ ;;\n"
    "            *) rows+=(\"${${text//\\\\/\\\\\\\\}//:/\\\\:}:$help\") ;;\n"
    "        esac\n"
    "    done < <(\"${words[1]}\" __complete \"${(@Q)words[2,CURRENT-1]}\" \"${(Q)PREFIX}\" "
    "2>/dev/null)\n"
    "    ((!$#rows)) || _describe \002 rows\n"
    "}\n"
    "if [[ $funcstack[1] == _\002 ]]; then _\002 \"$@\"; else compdef _\002 \002; fi\n";

static const char fish_text[] =
    "# Completion of \002 for fish; `\002 completion fish` prints it.\n"
    "function __\003_complete\n"
    "    set -l words (commandline -opc)\n"
    "    set -l current (commandline -ct)\n"
    "    $words[1] __complete $words[2..] \"$current\" 2>/dev/null | while read -l row\n"
    "        switch $row\n"
    "            case \\x01files\n"
    "                __fish_complete_path \"$current\"\n"
    "            case \\x01folders\n"
    "                __fish_complete_directories \"$current\"\n"
    "            case '*'\n"
    "                printf '%s\\n' $row\n"
    "        end\n"
    "    end\n"
    "end\n"
    "complete -c \002 -f -a '(__\003_complete)'\n";

static void print(const char *text, const char *name, FILE *out)
{
    for (; *text != '\0'; text++) {
        if (*text != '\002' && *text != '\003') {
            (void)fputc(*text, out);
            continue;
        }
        for (const char *at = name; *at != '\0'; at++) {
            (void)fputc(*text == '\003' && *at == '-' ? '_' : *at, out);
        }
    }
}

bool amb_cli_shell_print(const struct amb_cli_program *program, const char *shell, FILE *out)
{
    static const struct {
        const char *shell, *text;
    } shells[] = {{"bash", bash_text}, {"zsh", zsh_text}, {"fish", fish_text}};
    for (size_t i = 0; i < sizeof(shells) / sizeof(shells[0]); i++) {
        if (strcmp(shell, shells[i].shell) == 0) {
            print(shells[i].text, program->name, out);
            return true;
        }
    }
    return false;
}
