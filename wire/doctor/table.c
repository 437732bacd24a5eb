/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/doctor/table.h"

#include "wire/base/assert.h"

#define ROW(row_id, row_name, row_state)                                                           \
    .id = row_id, .name = row_name, .state = AMB_DOCTOR_##row_state

static const struct amb_doctor_row rows[] = {
    [AMB_DOCTOR_CONFIG_WRONG] =
        {ROW("config-wrong", "configuration", ERROR),
         .looked_at = "the configuration, as a start would read it", .finding = "{fault}",
         .fix = "mend the key that is named; brokerd --test-config says whether it is right"},
    [AMB_DOCTOR_CONFIG_NEWER] =
        {ROW("config-newer", "configuration", WARNING),
         .looked_at = "the time of the configuration file, and that of the start or last reload",
         .finding = "{path} is newer than what holds",
         .fix = "broker-ctl config reload; it says why, if the broker refuses"},

    [AMB_DOCTOR_DESCRIPTORS_SHORT] =
        {ROW("descriptors-short", "descriptors", ERROR),
         .looked_at = "the limit of descriptors, and what server.max_connections needs",
         .finding = "{fault}",
         .fix = "LimitNOFILE= in the unit, --ulimit nofile= of the container, or ulimit -n; else "
                "lower server.max_connections"},
    [AMB_DOCTOR_DESCRIPTORS_FEW] =
        {ROW("descriptors-few", "descriptors", WARNING),
         .looked_at = "Max open files in /proc/self/limits, and server.max_connections",
         .finding = "{limit} descriptors may be open, which is enough for {clients} clients",
         .fix = "LimitNOFILE= in the unit, --ulimit nofile= of the container, or ulimit -n"},
    [AMB_DOCTOR_MEMLOCK] =
        {ROW("memlock", "memlock", WARNING),
         .looked_at = "Max locked memory in /proc/self/limits, where RDMA devices are used",
         .finding = "{limit} bytes may be locked, and RDMA locks all of memory.host.size "
                    "({wanted} bytes)",
         .fix = "LimitMEMLOCK=infinity in the unit, --ulimit memlock=-1 of the container, or "
                "limits.conf"},
    [AMB_DOCTOR_MEMORY_RAM] =
        {ROW("memory-ram", "memory", WARNING),
         .looked_at = "MemTotal in /proc/meminfo, and memory.host.size",
         .finding = "this machine has {limit} bytes of memory, and memory.host.size is {wanted}",
         .fix = "lower memory.host.size: the kernel ends processes when memory runs out"},
    [AMB_DOCTOR_MEMORY_CGROUP] =
        {ROW("memory-cgroup", "memory", WARNING),
         .looked_at = "memory.max of the control group and of those above it, and memory.host.size",
         .finding = "the container has {limit} bytes of memory, and memory.host.size is {wanted}",
         .fix = "give it more (--memory of the container, MemoryMax= in the unit), or lower "
                "memory.host.size: the kernel ends who takes more"},
    [AMB_DOCTOR_ADDRESS_SPACE] =
        {ROW("address-space", "memory", ERROR),
         .looked_at = "the limit of address space, memory.host.size and the workers",
         .finding = "{fault}", .fix = "ulimit -v unlimited, or LimitAS=infinity in the unit"},
    [AMB_DOCTOR_HUGE_PAGES] =
        {ROW("huge-pages", "huge pages", HINT),
         .looked_at = "/sys/kernel/mm/transparent_hugepage/shmem_enabled",
         .finding = "segments lie in pages of 4 KiB: the first touch of each costs more",
         .fix = "echo within_size > /sys/kernel/mm/transparent_hugepage/shmem_enabled, before the "
                "broker starts"},

    [AMB_DOCTOR_CPU_QUOTA] =
        {ROW("cpu-quota", "workers", WARNING),
         .looked_at = "cpu.max of the control group and of those above it, and server.workers",
         .finding = "the control group has {limit} processors, and there are {workers} workers: "
                    "the kernel stops all of them for parts of each period",
         .fix = "raise the quota (--cpus of the container, CPUQuota= in the unit), or lower "
                "server.workers"},
    [AMB_DOCTOR_CPU_AFFINITY] =
        {ROW("cpu-affinity", "workers", WARNING),
         .looked_at = "Cpus_allowed_list in /proc/self/status, and server.workers",
         .finding = "the broker may run on {limit} processors ({list}), and there are {workers} "
                    "workers",
         .fix = "widen the mask (taskset, CPUAffinity= in the unit, --cpuset-cpus), or lower "
                "server.workers"},
    [AMB_DOCTOR_CLOCK_SLOW] =
        {ROW("clock-slow", "clock", WARNING),
         .looked_at = "/sys/devices/system/clocksource/clocksource0/current_clocksource",
         .finding = "the clock source is {source}: each of the {workers} workers makes a system "
                    "call to read the time, some every turn",
         .fix = "the kernel's log says why tsc was left (\"Marking clocksource 'tsc' as "
                "unstable\"); a host whose clock is sound may start with tsc=reliable"},
    [AMB_DOCTOR_CLOCK_FROZEN] =
        {ROW("clock-frozen", "clock", ERROR),
         .looked_at = "two readings of CLOCK_MONOTONIC with work between them",
         .finding = "the clock stands still: {workers} workers would never see a time limit end",
         .fix = "choose another source in "
                "/sys/devices/system/clocksource/clocksource0/current_clocksource, and see the "
                "hypervisor"},

    [AMB_DOCTOR_INTERFACE_MISSING] =
        {ROW("interface-missing", "interfaces", ERROR),
         .looked_at = "transports.trusted, /sys/class/net and /sys/class/infiniband",
         .finding = "{fault}",
         .fix = "ip link shows those that are there; put one of them into transports.trusted"},
    [AMB_DOCTOR_INTERFACE_DOWN] =
        {ROW("interface-down", "interface {name}", WARNING),
         .looked_at = "operstate of each trusted interface in /sys/class/net",
         .finding = "{name} is trusted, and is down",
         .fix = "ip link set it up and see its cable; or take it out of transports.trusted"},
    [AMB_DOCTOR_INTERFACE_SLOW] =
        {ROW("interface-slow", "interface {name}", WARNING),
         .looked_at = "speed of each trusted interface in /sys/class/net",
         .finding = "{name} is trusted, and has {rate} Mb/s (wanted: at least {limit})",
         .fix = "see its cable and switch; or trust a faster interface"},
    [AMB_DOCTOR_INTERFACE_MTU_SMALL] =
        {ROW("interface-mtu-small", "interface {name}", WARNING),
         .looked_at = "mtu of each trusted interface in /sys/class/net",
         .finding = "{name} is trusted, and has packets of {mtu} bytes (wanted: at least {limit})",
         .fix = "ip link set {name} mtu 1500, and 9000 where all of its network can"},
    [AMB_DOCTOR_INTERFACE_MTU] =
        {ROW("interface-mtu", "interface {name}", HINT),
         .looked_at = "mtu and speed of each trusted interface in /sys/class/net",
         .finding = "{name} has {rate} Mb/s and packets of {mtu} bytes",
         .fix = "where all of its network can, an MTU of 9000 costs less CPU time"},
    [AMB_DOCTOR_RDMA_PORT] =
        {ROW("rdma-port", "rdma {device}:{port}", WARNING),
         .looked_at = "state of each port in /sys/class/infiniband",
         .finding = "its port is {state}",
         .fix = "DOWN: see its cable; INIT: an InfiniBand network needs a subnet manager (opensm)"},
    [AMB_DOCTOR_RDMA_CLOSED] =
        {ROW("rdma-closed", "rdma access", WARNING), .looked_at = "/dev/infiniband/uverbs*",
         .finding = "{path} may not be opened by the broker",
         .fix = "the device's group, or a service manager's list of devices (DeviceAllow)"},
    [AMB_DOCTOR_RDMA_HIDDEN] =
        {ROW("rdma-hidden", "ucx infiniband", WARNING),
         .looked_at = "/sys/class/infiniband and /dev/infiniband",
         .finding = "the RDMA device {device} is here, and the kernel's devices in "
                    "/dev/infiniband are not shown here",
         .fix = "run the container with --device /dev/infiniband; on the host: modprobe ib_uverbs"},
    [AMB_DOCTOR_RDMA_DRIVERS] =
        {ROW("rdma-drivers", "ucx infiniband", WARNING),
         .looked_at = "/etc/libibverbs.d, where there are RDMA devices",
         .finding = "libibverbs has no driver for any device (/etc/libibverbs.d)",
         .fix = "install the drivers (Debian, Ubuntu: ibverbs-providers; others: rdma-core)"},
    [AMB_DOCTOR_RDMA_NO_MODULE] =
        {ROW("rdma-no-module", "ucx infiniband", WARNING),
         .looked_at = "UCX's modules, where there are RDMA devices",
         .finding = "the RDMA device {device} is here, and {library} InfiniBand module "
                    "(libuct_ib): its links go by TCP",
         .fix = "install a UCX that has it (Debian, Ubuntu: libucx0 and ibverbs-providers; "
                "others: ucx-ib, DOCA or HPC-X), and set transports.library = \"system\""},

    [AMB_DOCTOR_SOCKET_FOLDER] =
        {ROW("socket-folder", "socket {path}", ERROR),
         .looked_at = "the folder of each Unix listener", .finding = "its folder {folder} {fault}",
         .fix = "make it, and give it to the broker's user (RuntimeDirectory= in the unit), or "
                "name another one in listen"},
    [AMB_DOCTOR_SOCKET_FOLDER_OPEN] =
        {ROW("socket-folder-open", "socket {path}", WARNING),
         .looked_at = "the mode of the folder of each Unix listener",
         .finding = "everybody may write its folder {folder} (mode {mode}), and put another "
                    "socket in its place",
         .fix = "chmod o-w {folder}, or a folder of the broker's own"},
    [AMB_DOCTOR_SOCKET_MODE] =
        {ROW("socket-mode", "socket {path}", WARNING),
         .looked_at = "the mode of each Unix socket, and that of the configuration",
         .finding = "{path} has mode {mode}, and the configuration says {wanted}",
         .fix = "chmod {wanted} {path}; who must connect belongs into its group (?group= of the "
                "listener)"},
    [AMB_DOCTOR_SOCKET_OPEN] =
        {ROW("socket-open", "socket {path}", WARNING),
         .looked_at = "the mode of each Unix listener, auth.token and auth.users",
         .finding = "every local user may connect to {path} (mode {mode}), and nobody is asked who "
                    "he is",
         .fix = "?mode=0660&group=NAME of the listener, or auth.users"},
    [AMB_DOCTOR_SOCKET_GONE] =
        {ROW("socket-gone", "socket {path}", ERROR), .looked_at = "the file of each Unix socket",
         .finding = "{path} is not there any more, or is another one's: nobody comes in by it",
         .fix = "start the broker anew; programs that clean folders must leave this one alone"},
    [AMB_DOCTOR_TOKEN_FILE] =
        {ROW("token-file", "token file", ERROR),
         .looked_at = "the mode of auth.token_file and http.token_file", .finding = "{fault}",
         .fix = "chmod 600, and chown to the broker's user; then make another token, for this "
                "one may be known"},
    [AMB_DOCTOR_TCP_OPEN] =
        {ROW("tcp-open", "tcp", ERROR),
         .looked_at = "tcp:// listeners off loopback, server.insecure, auth.token and auth.users",
         .finding = "{fault}",
         .fix = "listen on tls://, or set auth.users or auth.token_file; at least bind loopback"},
    [AMB_DOCTOR_TCP_PLAIN] = {ROW("tcp-plain", "tcp", HINT),
                              .looked_at = "tcp:// listeners off loopback and server.insecure",
                              .finding = "{url} is not encrypted: payloads can be read on the way",
                              .fix = "listen on tls:// where the network is not yours alone"},
    [AMB_DOCTOR_FILES_SILENT] =
        {ROW("files-silent", "files", WARNING),
         .looked_at = "/proc and /sys, sockets, token files, the files of configuration, TLS, "
                      "users and UCX, and GPU and RDMA devices, for 2 s",
         .finding = "files were not looked at: their file system does not answer, or there is no "
                    "thread for it ({count} looks wait)",
         .fix = "a file system of a network hangs: look at its mounts; a reload waits for it too"},
    [AMB_DOCTOR_COUNTERS_PRIVATE] =
        {ROW("counters-private", "counters", WARNING),
         .looked_at = "server.counters_file and its folder",
         .finding = "counters are private: {why}",
         .fix = "server.counters_file in a folder in memory: then they can be read when the "
                "broker hangs or has gone"},

    [AMB_DOCTOR_UCX_MISSING] =
        {ROW("ucx-missing", "ucx", WARNING),
         .looked_at = "UCX's libraries, where transports.trusted asks for ucx links",
         .finding = "{why}",
         .fix = "install UCX 1.13 or newer (Debian, Ubuntu: libucx0), or see transports.library"},
    [AMB_DOCTOR_UCX_NO_CUDA] =
        {ROW("ucx-no-cuda", "ucx cuda", WARNING),
         .looked_at = "UCX's modules, where the broker has GPU memory and ucx links",
         .finding = "this UCX has no CUDA modules: GPU payloads of ucx links are staged",
         .fix = "install a UCX with CUDA (libuct_cuda.so)"},
    [AMB_DOCTOR_UCX_CUDA_IPC] =
        {ROW("ucx-cuda-ipc", "ucx cuda_ipc", WARNING),
         .looked_at = "the release of UCX, where the broker has GPU memory", .finding = "{why}",
         .fix = "install UCX 1.22.1 or newer; transports.nvlink = \"on\" uses it all the same"},
    [AMB_DOCTOR_UCX_VARIABLES] =
        {ROW("ucx-variables", "ucx variables", WARNING),
         .looked_at = "the environment, where transports.trusted asks for ucx links",
         .finding = "{name} is set in the environment, and is ignored{but}",
         .fix = "unset {name}, and use the keys of transports (transports.ucx takes other "
                "settings)"},
    [AMB_DOCTOR_UCX_RELEASES] =
        {ROW("ucx-releases", "ucx releases", WARNING),
         .looked_at = "the release of UCX here, and that of each client",
         .finding = "client '{name}'{more} has UCX {theirs}, and the broker {own}: {why}",
         .fix = "AMB_UCX_LIBRARY of the client, or transports.library here, names a UCX of the "
                "same release"},

    [AMB_DOCTOR_GPU_HIDDEN] =
        {ROW("gpu-hidden", "gpu driver", WARNING),
         .looked_at = "/proc/driver/nvidia/version, /dev/nvidiactl, /dev/nvidia-uvm, /dev/nvidia*",
         .finding = "the driver is there, and its device {device} is not shown here",
         .fix = "run the container with its GPUs (--gpus all); on the host itself "
                "nvidia-modprobe makes them (-c 255 -c 0, and -u -c 0)"},
    [AMB_DOCTOR_GPU_CLOSED] =
        {ROW("gpu-closed", "gpu driver", WARNING),
         .looked_at = "whether /dev/nvidia* may be opened",
         .finding = "the driver's device {device} may not be opened by this user",
         .fix = "with systemd use ambroker-gpu.service; else see the device's group"},
    [AMB_DOCTOR_GPU_UNUSED] = {ROW("gpu-unused", "gpu driver", WARNING),
                               .looked_at = "memory.cuda.size, where there are GPUs",
                               .finding = "{version}",
                               .fix = "the broker has no GPU memory: set memory.cuda.size"},
    [AMB_DOCTOR_GPU_LOST] = {ROW("gpu-lost", "gpu {gpu}", ERROR),
                             .looked_at = "each pool of GPU memory",
                             .finding = "{model}: out of use: {why}",
                             .fix = "start the broker anew; see the kernel's log for Xid lines"},
    [AMB_DOCTOR_GPU_STUCK] =
        {ROW("gpu-stuck", "gpu {gpu}", ERROR), .looked_at = "each pool of GPU memory",
         .finding = "{model}: has not answered for seconds: copies wait",
         .fix = "see what runs there with nvidia-smi, and the kernel's log for Xid lines"},
    [AMB_DOCTOR_GPU_NO_POOL] = {ROW("gpu-no-pool", "gpu {gpu}", WARNING),
                                .looked_at = "each pool of GPU memory",
                                .finding = "{model}: no pool, host memory serves: {why}",
                                .fix = "the broker tries again by itself"},
    [AMB_DOCTOR_GPU_NO_ROOM] =
        {ROW("gpu-no-room", "gpu {gpu}", WARNING),
         .looked_at = "each pool of GPU memory, and memory.cuda.size",
         .finding = "{model}: no room for a pool of {wanted} bytes: host memory serves",
         .fix = "nvidia-smi shows the processes that have the GPU's memory; end them, or lower "
                "memory.cuda.size: the broker tries again by itself"},
    [AMB_DOCTOR_GPU_FULL] = {ROW("gpu-full", "gpu {gpu}", WARNING),
                             .looked_at = "the part of each pool that is leased",
                             .finding = "{model}: {used} of {limit} bytes leased",
                             .fix = "raise memory.cuda.size, or have readers release sooner"},
    [AMB_DOCTOR_GPU_NOT_EXPORTED] =
        {ROW("gpu-not-exported", "gpu {gpu}", WARNING),
         .looked_at = "whether a pool's memory has a handle of CUDA IPC",
         .finding = "its memory cannot be exported: clients are served by copies",
         .fix = "CUDA IPC needs Linux, one IPC namespace, and no MIG slice that forbids it"},
    [AMB_DOCTOR_GPU_PEERS] = {ROW("gpu-peers", "gpu {gpu} to {other}", WARNING),
                              .looked_at = "peer access between the GPUs of the broker",
                              .finding = "no peer access: copies between them go by the host",
                              .fix = "nvidia-smi topo -p2p r shows why (IOMMU, bridge, driver)"},
    [AMB_DOCTOR_GPU_TRUST] = {ROW("gpu-trust", "gpu trust", WARNING),
                              .looked_at = "memory.cuda.trust", .finding = "{meaning}",
                              .fix = "memory.cuda.trust = \"user\""},
    [AMB_DOCTOR_GPU_USERS] =
        {ROW("gpu-users", "gpu users", WARNING), .looked_at = "the users of clients with GPUs",
         .finding = "GPU messages of {count} are copied, for their user is not the broker's; "
                    "'{name}' of user {uid} is one",
         .fix = "run the broker as the user of its clients; or set memory.cuda.trust = \"all\", by "
                "which every local user may read and write that GPU memory"},
    [AMB_DOCTOR_GPU_MODE] =
        {ROW("gpu-mode", "gpu {gpu} mode", WARNING),
         .looked_at = "the compute mode of each GPU in use",
         .finding = "{mode} mode, and the broker has this GPU: every other process that wants it "
                    "gets error 46",
         .fix = "nvidia-smi -i {pci} -c DEFAULT, or MPS for all processes"},
    [AMB_DOCTOR_GPU_VISIBLE] =
        {ROW("gpu-visible", "gpu visible", WARNING),
         .looked_at = "CUDA_VISIBLE_DEVICES of the broker and of each client with GPUs",
         .finding =
             "client '{name}'{more} has CUDA_VISIBLE_DEVICES={theirs}, and the broker {own}: "
             "GPUs that only one of them sees are served by copies",
         .fix = "start the broker without CUDA_VISIBLE_DEVICES; memory.cuda.devices chooses the "
                "GPUs of its pools"},
    [AMB_DOCTOR_GPU_MPS] =
        {ROW("gpu-mps", "gpu mps", WARNING),
         .looked_at = "whether the broker's GPUs are shared by MPS",
         .finding = "the broker shares its GPUs by MPS: an error of one client ends the GPU memory "
                    "of all, the broker's too",
         .fix = "where the GPUs are in the default mode, start brokerd with "
                "CUDA_MPS_PIPE_DIRECTORY naming an empty folder"},
    [AMB_DOCTOR_GPU_MPS_CLOSED] =
        {ROW("gpu-mps-closed", "gpu mps", WARNING), .looked_at = "the pipe of MPS's control daemon",
         .finding = "MPS is here, and the broker may not open {path}",
         .fix = "MPS serves one user at a time: run the broker as the user of its clients"},
    [AMB_DOCTOR_PEER_MEMORY] =
        {ROW("peer-memory", "gpudirect", WARNING),
         .looked_at = "/sys/module/nvidia_peermem and nv_peer_mem, where RDMA devices are used",
         .finding = "no peer memory module: RDMA goes by host memory, unless it is by dmabuf",
         .fix = "modprobe nvidia_peermem"},

    [AMB_DOCTOR_CLIENT_PID] =
        {ROW("client-pid", "namespaces", HINT),
         .looked_at = "the PID namespace of each local client",
         .finding = "client '{name}'{more} is in another pid namespace: CUDA IPC does not cross "
                    "it, so its GPU payloads are copied",
         .fix = "run its container with --pid=host"},
    [AMB_DOCTOR_CLIENT_IPC] =
        {ROW("client-ipc", "namespaces", HINT),
         .looked_at = "the IPC namespace of each local client",
         .finding = "client '{name}'{more} is in another ipc namespace: CUDA IPC does not cross "
                    "it, so its GPU payloads are copied",
         .fix = "run its container with --ipc=host"},
    [AMB_DOCTOR_CLIENT_NET] =
        {ROW("client-net", "namespaces", HINT),
         .looked_at = "the network namespace of each local client",
         .finding = "client '{name}'{more} is in another net namespace: trusted interfaces and "
                    "loopback listeners are not there",
         .fix = "the Unix socket serves it; for ucx and TCP links run its container with "
                "--network=host"},
    [AMB_DOCTOR_CLIENTS_LEFT_OUT] =
        {ROW("clients-left-out", "namespaces", HINT),
         .looked_at = "/proc, about local clients that do not say their namespaces",
         .finding = "of the local clients that do not say their namespaces, {count} were left out",
         .fix = "run it again: each run looks at {places} processes, and they take turns"},
    [AMB_DOCTOR_CLIENT_RELEASE] =
        {ROW("client-release", "libamb", WARNING),
         .looked_at = "the release of libamb of each client, and that of the broker",
         .finding = "client '{name}'{more} has libamb {theirs}, and the broker is {own}",
         .fix = "install libamb of the broker's release, and start the client anew"},
    [AMB_DOCTOR_CLIENT_TCP] =
        {ROW("client-tcp", "local clients", WARNING),
         .looked_at = "clients on this host that came by TCP",
         .finding = "{count} on this host came by TCP, where payloads are copied; '{name}' is one",
         .fix = "{why}"},
    [AMB_DOCTOR_BROKER_SILENT] = {ROW("broker-silent", "broker", ERROR),
                                  .looked_at = "whether the broker answers this client",
                                  .finding = "no session: {why}", .fix = "{fix}"},

    [AMB_DOCTOR_SUBSCRIPTION_SLOW] =
        {ROW("subscription-slow", "subscription {id}", WARNING),
         .looked_at = "lost_slow of each subscription",
         .finding = "'{pattern}' of client {client} has lost {lost} messages because it was slow",
         .fix = "more credit or readers (a group); or slow = \"block\" or \"spill\" of the topic's "
                "rule"},
    [AMB_DOCTOR_SUBSCRIPTION_BEHIND] =
        {ROW("subscription-behind", "subscription {id}", WARNING),
         .looked_at = "pending_bytes of each subscription",
         .finding = "{waiting} bytes wait for '{pattern}' of client {client} (limit: {limit})",
         .fix = "have it release messages sooner, give it more credit, or share its work in a "
                "group"},
    [AMB_DOCTOR_MEMORY_FULL] =
        {ROW("memory-full", "memory", WARNING),
         .looked_at = "memory for messages, and memory.host.size",
         .finding = "{used} of {limit} bytes of memory for messages are used ({percent} %)",
         .fix = "broker-ctl subs shows who is behind; else raise memory.host.size, or lower "
                "max_bytes and retain of the topics' rules"},
    [AMB_DOCTOR_TOPICS_FULL] =
        {ROW("topics-full", "topics", WARNING),
         .looked_at = "the number of topics, and limits.max_topics",
         .finding = "{used} of {limit} topics are there ({percent} %)",
         .fix = "raise limits.max_topics, or lower limits.topic_idle; names with a number in them "
                "make many"},
    [AMB_DOCTOR_DEAD_LETTERS] =
        {ROW("dead-letters", "dead letters", WARNING),
         .looked_at = "messages that were given up and could not be kept as dead letters",
         .finding = "{lost} messages were given up, and are not even among the dead letters",
         .fix = "read $DLQ topics (broker-ctl sub '$DLQ.>'), or give them more room by a rule with "
                "match = \"$DLQ.>\""},

    [AMB_DOCTOR_WATCHDOG] =
        {ROW("watchdog", "service", WARNING),
         .looked_at = "WATCHDOG_USEC of a broker that a service manager has started",
         .finding = "the unit has no watchdog: a broker that hangs is not started anew",
         .fix = "WatchdogSec=30 in the unit, as etc/ambroker.service has it"},

    [AMB_DOCTOR_TLS_EXPIRED] =
        {ROW("tls-expired", "tls {file}", ERROR),
         .looked_at = "the end of each certificate and list in use",
         .finding = "{path} has expired",
         .fix = "replace the file (broker-ctl tls renew), and have brokerd reload"},
    [AMB_DOCTOR_TLS_EXPIRES] =
        {ROW("tls-expires", "tls {file}", WARNING),
         .looked_at = "the end of each certificate and list in use",
         .finding = "{path} expires in {days} days",
         .fix = "replace the file (broker-ctl tls renew), and have brokerd reload"},
    [AMB_DOCTOR_TLS_GONE] = {ROW("tls-gone", "tls {file}", WARNING),
                             .looked_at = "each file of tls",
                             .finding = "{path} is not there any more",
                             .fix = "brokerd will not start again without it"},
    [AMB_DOCTOR_TLS_NEWER] =
        {ROW("tls-newer", "tls {file}", WARNING), .looked_at = "the time of each file of tls",
         .finding = "{path} is newer than what is in use",
         .fix = "have brokerd reload (SIGHUP); its log says why, if it has refused to"},
    [AMB_DOCTOR_USERS_WRONG] =
        {ROW("users-wrong", "users file", ERROR),
         .looked_at = "the lines of auth.users, where it is newer", .finding = "{why}",
         .fix = "mend the line; the users in force stay until the file is right"},
    [AMB_DOCTOR_USERS_GONE] = {ROW("users-gone", "users file", ERROR), .looked_at = "auth.users",
                               .finding = "{path} is not there any more",
                               .fix = "brokerd will not start again without it"},
    [AMB_DOCTOR_USERS_MODE] = {ROW("users-mode", "users file", ERROR),
                               .looked_at = "the mode and owner of auth.users", .finding = "{why}",
                               .fix = "chmod 600, and chown to root or the broker's user"},
    [AMB_DOCTOR_USERS_NEWER] = {ROW("users-newer", "users file", WARNING),
                                .looked_at = "the time of auth.users",
                                .finding = "{path} is newer than what is in use",
                                .fix = "broker-ctl reload; it says why, if it refuses"},
    [AMB_DOCTOR_USERS_EXPIRE] =
        {ROW("users-expire", "users", WARNING), .looked_at = "until= of each user",
         .finding = "{soon} users expire within 30 days, and {over} have expired; the first one is "
                    "{name} ({days} days)",
         .fix = "broker-ctl user set NAME --until DAY, or rm NAME"},
    [AMB_DOCTOR_AUDIT_STOPPED] = {ROW("audit-stopped", "audit log", ERROR),
                                  .looked_at = "log.audit",
                                  .finding =
                                      "log.audit cannot be written: {why}; commands are refused",
                                  .fix = "make room on that disk"},
    [AMB_DOCTOR_AUDIT_LOST] = {ROW("audit-lost", "audit log", WARNING),
                               .looked_at = "entries of log.audit that were not written",
                               .finding = "{lost} entries were not written",
                               .fix = "the log's lines with the event \"lost\" say when"},
};

_Static_assert(sizeof(rows) / sizeof(rows[0]) == AMB_DOCTOR_CHECKS, "each check has a row");

const struct amb_doctor_row *amb_doctor_row(enum amb_doctor_check check)
{
    amb_assert((unsigned)check < AMB_DOCTOR_CHECKS);
    return &rows[check];
}
