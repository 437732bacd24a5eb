# Completion of brokerd for fish; `brokerd completion fish` prints it.
function __brokerd_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    $words[1] __complete $words[2..] "$current" 2>/dev/null | while read -l row
        switch $row
            case \x01files
                __fish_complete_path "$current"
            case \x01folders
                __fish_complete_directories "$current"
            case '*'
                printf '%s\n' $row
        end
    end
end
complete -c brokerd -f -a '(__brokerd_complete)'
