# Completion of broker-ctl for fish; `broker-ctl completion fish` prints it.
function __broker_ctl_complete
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
complete -c broker-ctl -f -a '(__broker_ctl_complete)'
