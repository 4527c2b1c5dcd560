/* SPDX-License-Identifier: Apache-2.0 */
#include "bin/cayd_conf.h"

#include <errno.h>
#include <unistd.h>

static const char *const log_levels[] = {"debug", "info", "warn", "error", NULL};
static const char *const networks[] = {"none", "filtered", "open", NULL};
static const char *const nestings[] = {"nobody", "admin", "everybody", NULL};
/* In the order of enum cay_filter_way. */
static const char *const steerings[] = {"auto", "bpf", "nft", NULL};
static const char *const e2b_networks[] = {"default", "none", "open", NULL};
static const char *const log_formats[] = {"logfmt", "json", NULL};

/* Key and member: what each of the rooms reads, and the daemon itself. */
#define OWN(key, member)    CAY_CONF_KEY(#key, struct cayd_conf, member)
#define HOST(key, member)   OWN(key, host.member)
#define E2B(key, member)    OWN(key, e2b.member)
#define SERVER(key, member) OWN(key, server.member)
#define FLAG_ONLY           (CAY_CONF_DEFAULT | CAY_CONF_FLAG)

/* clang-format off */
const struct cay_conf_entry cayd_conf_entries[] = {
    {OWN(config, config), .type = CAY_CONF_STRING, .metavar = "FILE", .letter = 'c',
     .sources = FLAG_ONLY | CAY_CONF_ENVIRONMENT, .fallback = "/etc/cay/cayd.conf",
     .help = "Configuration file. It may be absent unless it is named."},
    {HOST(data, data_dir), .type = CAY_CONF_STRING, .metavar = "DIR", .min = 1, .max = 4000,
     .fallback = "/var/lib/cay",
     .help = "Where everything that must survive is kept. One daemon per directory; made if need be, for its owner only."},
    {HOST(run, run_dir), .type = CAY_CONF_STRING, .metavar = "DIR", .min = 1, .max = 90,
     .fallback = "/run/cay",
     .help = "Where the Unix socket cayd.sock is made. Root and the daemon's user administer through it without a key."},
    {OWN(listen, listen), .type = CAY_CONF_LIST, .metavar = "ADDR",
     .fallback = "127.0.0.1:4747",
     .help = "Addresses to serve on: HOST:PORT, [IPV6]:PORT or unix:PATH. Port 0 takes a free one. May be repeated. Callers by TCP need a key."},
    {OWN(tls_cert, tls_cert), .type = CAY_CONF_STRING, .metavar = "FILE",
     .help = "Certificate chain (PEM). With it the TCP addresses speak TLS. Read again on SIGHUP."},
    {OWN(tls_key, tls_key), .type = CAY_CONF_STRING, .metavar = "FILE",
     .help = "Private key (PEM) of the certificate."},
    {OWN(insecure_no_auth, insecure_no_auth), .type = CAY_CONF_BOOL, .fallback = "false",
     .help = "Let anybody who reaches a TCP address do everything. Only for a machine that nobody else can reach."},
    {OWN(log_level, log_level), .type = CAY_CONF_ENUM, .choices = log_levels, .fallback = "info",
     .help = "The least important messages to log."},
    {OWN(log_format, log_format), .type = CAY_CONF_ENUM, .choices = log_formats, .fallback = "logfmt",
     .help = "How to write the log to standard error."},
    {SERVER(access_log, has_access_log), .type = CAY_CONF_BOOL, .fallback = "true",
     .help = "Log one line per request. Pieces of a command's input (SendInput) are many: those that fail are "
             "logged, others only at the level debug."},
    {OWN(max_connections, max_connections), .type = CAY_CONF_INTEGER, .min = 1, .max = 1000000,
     .fallback = "16384", .metavar = "N",
     .help = "How many connections may be open at once. Whoever comes beyond that is disconnected. "
             "One owner or one address gets no more once it has three times as many as are free, "
             "and the last ones are kept for administrators at the Unix socket. "
             "Never more than a quarter of the files that the daemon may have open."},
    {OWN(body_memory, body_memory_bytes), .type = CAY_CONF_SIZE, .metavar = "SIZE", .fallback = "512MiB",
     .help = "Memory that the bodies of all requests under way may take; what goes beyond it is refused. 0 for no limit."},
    {OWN(owner_body_memory, owner_body_memory_bytes), .type = CAY_CONF_SIZE, .metavar = "SIZE", .fallback = "128MiB",
     .help = "Memory that the bodies of one owner's requests under way may take; what goes beyond it is refused. 0 for no limit."},
    {SERVER(head_timeout, head_timeout_ms), .type = CAY_CONF_DURATION, .min = 100, .max = 3600000, .fallback = "10s",
     .help = "How long the head of a request, or a TLS handshake, may take."},
    {SERVER(idle_timeout, idle_timeout_ms), .type = CAY_CONF_DURATION, .min = 100, .max = 86400000, .fallback = "2m",
     .help = "How long a connection may stay open between requests."},
    {SERVER(send_timeout, send_timeout_ms), .type = CAY_CONF_DURATION, .min = 100, .max = 3600000, .fallback = "30s",
     .help = "How long a client may leave an answer unread before it is disconnected."},
    {OWN(shutdown_timeout, shutdown_timeout_ms), .type = CAY_CONF_DURATION, .min = 0, .max = 3600000, .fallback = "30s",
     .help = "How long calls may go on after SIGTERM or SIGINT before they are cut. A second signal cuts at once."},
    {HOST(store, store), .type = CAY_CONF_STRING, .metavar = "STORE", .fallback = "auto",
     .help = "Where file systems of sessions live: overlay, btrfs, zfs, local-disk (no snapshots), or auto to pick what fits the data directory."},
    {HOST(runtime, runtime), .type = CAY_CONF_STRING, .metavar = "RUNTIME", .fallback = "namespaces",
     .help = "What isolates commands of sessions that do not ask for another: namespaces, gvisor (a kernel of its own, by the program runsc), or none (nothing is isolated; for development only)."},
    {HOST(runtimes, runtimes), .type = CAY_CONF_LIST, .metavar = "RUNTIME",
     .help = "Runtimes that a session may ask for besides the default one: namespaces, gvisor, none. With the runtime none, which isolates nothing, only administrators may make sessions and use them, for what runs in these can do to this machine whatever the daemon can. May be repeated."},
    {OWN(init_path, init_path), .type = CAY_CONF_STRING, .metavar = "FILE",
     .help = "The cay-init binary. Found beside cayd or where it was installed unless it is named."},
    {HOST(runsc, runsc), .type = CAY_CONF_STRING, .metavar = "FILE", .max = 200,
     .help = "The program runsc of gVisor, for the runtime gvisor. Looked for in the usual directories unless it is named."},
    {HOST(runsc_platform, runsc_platform), .type = CAY_CONF_STRING, .metavar = "NAME", .max = 32,
     .help = "How gVisor runs commands: one of runsc's platforms, such as ptrace, kvm or systrap. Unset, runsc chooses."},
    {HOST(cgroup_parent, cgroup_parent), .type = CAY_CONF_STRING, .metavar = "NAME", .min = 1, .max = 64,
     .fallback = "cay",
     .help = "Name of the control group under which those of sessions are made. Daemons side by side may share it."},
    {HOST(default_base, default_base), .type = CAY_CONF_STRING, .metavar = "BASE", .min = 1, .max = 128,
     .fallback = "host",
     .help = "The base of a session that is created without naming one."},
    {HOST(snapshot_prefix, snapshot_prefix), .type = CAY_CONF_STRING, .metavar = "WORD", .min = 1, .max = 32,
     .fallback = "turn",
     .help = "The first part of the names of turns, before the number."},
    {HOST(durable_turns, has_durable_turns), .type = CAY_CONF_BOOL, .fallback = "false",
     .help = "Sync every turn and snapshot to the disk before it is acknowledged, so that it survives a loss of power. Without it, --durable asks for that turn by turn."},
    {HOST(port_bind, port_bind), .type = CAY_CONF_STRING, .metavar = "ADDRESS", .min = 1, .max = 45,
     .fallback = "127.0.0.1",
     .help = "Address of this machine on which exposed ports of sandboxes are served, as numbers. Whoever reaches this address reaches the ports without a key."},
    {HOST(port_advertise, port_advertise), .type = CAY_CONF_STRING, .metavar = "HOST", .max = 253,
     .help = "Name or address of this machine as clients of exposed ports know it. Unset, it is port_bind."},
    {E2B(e2b, is_on), .type = CAY_CONF_BOOL, .fallback = "true",
     .help = "Serve clients made for E2B, on the same addresses."},
    {E2B(e2b_domain, domain), .type = CAY_CONF_STRING, .metavar = "NAME[:PORT]", .max = 200,
     .help = "Name below which ports of sandboxes have host names, PORT-ID.NAME, with the port clients use if it is not 443. Every name below it must lead to this machine."},
    {E2B(e2b_template, template), .type = CAY_CONF_STRING, .metavar = "BASE", .max = 128,
     .help = "Base that the E2B template named base stands for. Unset, it is the base of that name, or default_base when there is none."},
    {E2B(e2b_network, network), .type = CAY_CONF_ENUM, .choices = e2b_networks, .fallback = "default",
     .help = "Network of sandboxes made by clients of E2B that do not deny them the internet: none, open, or default, which is what network says."},
    {E2B(e2b_images, images), .type = CAY_CONF_LIST, .metavar = "IMAGE=BASE",
     .help = "Which base stands for an image that E2B templates are built from: IMAGE=BASE, like python:3.12=debian. An image without a tag stands for all its tags, * for every image. Unset, only e2bdev/base is known, and e2b_template is used for it. May be repeated."},
    {HOST(network, network), .type = CAY_CONF_ENUM, .choices = networks, .fallback = "none",
     .help = "The network of a session that is created without naming one: none (a loopback of its own), filtered (what network_rules allow) or open (the internet, but never this machine, private ranges and addresses of cloud metadata)."},
    {HOST(nesting, nesting), .type = CAY_CONF_ENUM, .choices = nestings, .fallback = "admin",
     .help = "Who may make sessions with nesting, in which commands can make namespaces and mounts: nobody, admin (keys of administrators) or everybody. "
             "It opens parts of the kernel in which mistakes are found every year."},
    {HOST(secrets_key, secrets_key), .type = CAY_CONF_STRING, .metavar = "FILE", .max = 4000,
     .help = "File with the key under which secrets of owners are kept (cay secret), made with the first of them, for the daemon's user only. "
             "Unset, it is secrets.key in the data directory; elsewhere, a copy of that directory opens no secret."},
    {HOST(network_steering, network_steering), .type = CAY_CONF_ENUM, .choices = steerings, .fallback = "auto",
     .help = "How connections of filtered networks are led to cay-egress: bpf (sk_lookup), nft (the packet filter's table of connections), or auto, which is the first of them that this kernel has."},
    {HOST(network_pool, network_pool), .type = CAY_CONF_STRING, .metavar = "RANGE", .min = 1, .max = 18,
     .fallback = "100.96.0.0/16",
     .help = "Addresses for sandboxes with an open network, IPv4. Nobody outside sees them; no route of this machine may lead into them. Daemons side by side may share it."},
    {HOST(network_allow, network_allow), .type = CAY_CONF_LIST, .metavar = "RANGE",
     .help = "Ranges that are closed to sandboxes with an open network and that they reach all the same: private ones, like 10.1.0.0/16 or fd12::/32, and networks that this machine is connected to. Never this machine itself. May be repeated."},
    {HOST(network_rules, network_rules), .type = CAY_CONF_LIST, .metavar = "RULE",
     .help = "What a session reaches whose network is filtered because network says so, in the words of 'cay net check': *.example.org:443, @npm. Sessions that choose a filtered network have their own rules instead. May be repeated; without any, nothing is reached."},
    {HOST(network_sets, network_sets), .type = CAY_CONF_LIST, .metavar = "NAME=RULE",
     .help = "A rule of a set that lists of filtered networks may name: corp=*.corp.example:443 is one of @corp. A set that is built in (@debian, @github, @npm, @pypi) is replaced by one of its name. May be repeated; the rules of one name add up."},
    {HOST(network_trust, network_trust), .type = CAY_CONF_STRING, .metavar = "FILE", .min = 1, .max = 400, .fallback = "/etc/ssl/certs/ca-certificates.crt",
     .help = "Certificates, in PEM, of those who vouch for servers, where the TLS of a filtered network is looked into: for secrets and for rules of requests. Read when a sandbox first needs it."},
    {HOST(network_ask_timeout, network_ask_timeout_ms), .type = CAY_CONF_DURATION, .min = 1000, .max = 3600000, .fallback = "60s",
     .help = "How long a connection that a session with a network that asks holds back waits for an answer; then it is refused."},
    {HOST(max_sessions, max_sessions), .type = CAY_CONF_INTEGER, .metavar = "N", .min = 0, .max = 16384,
     .fallback = "0",
     .help = "How many sessions there may be at once; 0 for as many as fit."},
    {HOST(reserve, reserve), .type = CAY_CONF_INTEGER, .metavar = "N", .min = 0, .max = 256,
     .fallback = "8",
     .help = "How many sandboxes may be started ahead and wait for sessions that are still to come, which start sooner then. "
             "As many wait as were asked for at once lately, never more than this; 'cay status' shows the memory that they take. 0 for none."},
    {HOST(max_concurrent_tools, max_concurrent_tools), .type = CAY_CONF_INTEGER, .metavar = "N", .min = 0, .max = 1000000,
     .fallback = "0",
     .help = "How many tool calls may run at the same time in a session that sets no number of its own; the others wait for their turn. 0 for no limit."},
    {HOST(tool_timeout, tool_timeout_ms), .type = CAY_CONF_DURATION, .min = 0, .max = 604800000, .fallback = "0s",
     .help = "How long a command that a tool call runs may take unless the call says otherwise. 0 leaves it to the tool: 2m for bash, 5m for git with a network."},
    {HOST(pause_drain, pause_drain_ms), .type = CAY_CONF_DURATION, .min = 0, .max = 604800000, .fallback = "30s",
     .help = "How long a pause waits for running tools unless the call says otherwise."},
    {HOST(max_snapshots, max_snapshots), .type = CAY_CONF_INTEGER, .metavar = "N", .min = 0, .max = 1000000,
     .fallback = "0",
     .help = "How many snapshots of turns and tools are kept in a session that sets no number of its own; older ones are pruned. 0 for no limit."},
    {HOST(tool_snapshots, takes_tool_snapshots), .type = CAY_CONF_BOOL, .fallback = "false",
     .help = "Take a snapshot after each tool call that may have changed files, in sessions that do not say otherwise."},
    {HOST(quota_sessions, quota_sessions), .type = CAY_CONF_INTEGER, .metavar = "N", .min = 0, .max = 1000000000,
     .fallback = "1000",
     .help = "Sessions that one owner may have; 0 for no limit. Quotas do not bind administrators; 'cay quota set' gives an owner values of its own."},
    {HOST(quota_memory, quota_memory_bytes), .type = CAY_CONF_SIZE, .metavar = "SIZE", .fallback = "0",
     .help = "Memory that the limits of one owner's sessions may add up to; 0 for no limit. It does not bind administrators."},
    {HOST(quota_cpus, quota_cpus), .type = CAY_CONF_DECIMAL, .metavar = "N", .min = 0, .max = 1000000,
     .fallback = "0",
     .help = "Processors that the limits of one owner's sessions may add up to, such as 8 or 0.5; 0 for no limit. It does not bind administrators."},
    {HOST(quota_disk, quota_disk_bytes), .type = CAY_CONF_SIZE, .metavar = "SIZE", .fallback = "0",
     .help = "Disk space that the limits of one owner's sessions, what its bases add to those of everybody, and streams kept for it may add up to; 0 for no limit. It does not bind administrators."},
    {HOST(quota_pids, quota_pids), .type = CAY_CONF_INTEGER, .metavar = "N", .min = 0, .max = 1000000000,
     .fallback = "0",
     .help = "Processes that the limits of one owner's sessions may add up to; 0 for no limit. It does not bind administrators."},
    {HOST(quota_snapshots, quota_snapshots), .type = CAY_CONF_INTEGER, .metavar = "N", .min = 0, .max = 1000000000,
     .fallback = "100000",
     .help = "Snapshots that one owner may have in all its sessions; 0 for no limit. It does not bind administrators."},
    {HOST(quota_ports, quota_ports), .type = CAY_CONF_INTEGER, .metavar = "N", .min = 0, .max = 1000000000,
     .fallback = "256",
     .help = "Ports that one owner may have exposed in all its sessions; 0 for no limit. It does not bind administrators."},
    {HOST(quota_bases, quota_bases), .type = CAY_CONF_INTEGER, .metavar = "N", .min = 0, .max = 1000000000,
     .fallback = "1000",
     .help = "Bases that one owner may have built or published; 0 for no limit. It does not bind administrators."},
    {HOST(quota_streams, quota_streams), .type = CAY_CONF_INTEGER, .metavar = "N", .min = 0, .max = 1000000000,
     .fallback = "4096",
     .help = "Calls that stream (followed events and directories, attached processes, terminals, files on their way) that one owner may have under way; 0 for no limit. It does not bind administrators."},
    {HOST(session_max_memory, session_max_memory_bytes), .type = CAY_CONF_SIZE, .metavar = "SIZE", .fallback = "0",
     .help = "Memory that a session may ask for; 0 for as much as this machine has."},
    {HOST(session_max_pids, session_max_pids), .type = CAY_CONF_INTEGER, .metavar = "N", .min = 0, .max = 4194304,
     .fallback = "32768",
     .help = "Processes that a session may ask for; 0 for no limit."},
    {HOST(session_max_snapshots, session_max_snapshots), .type = CAY_CONF_INTEGER, .metavar = "N", .min = 0, .max = 1000000000,
     .fallback = "10000",
     .help = "Snapshots that a session may have; 0 for no limit. Above it a turn is refused unless the session prunes by itself."},
    {HOST(port_first, port_first), .type = CAY_CONF_INTEGER, .metavar = "N", .min = 0, .max = 65535,
     .fallback = "10000",
     .help = "The lowest port of this machine that callers without an admin key may choose for an exposed port."},
    {HOST(port_last, port_last), .type = CAY_CONF_INTEGER, .metavar = "N", .min = 0, .max = 65535,
     .fallback = "65535",
     .help = "The highest port of this machine that callers without an admin key may choose for an exposed port."},
    {HOST(default_cpus, default_cpus), .type = CAY_CONF_DECIMAL, .metavar = "N", .min = 0, .max = 1024,
     .fallback = "0",
     .help = "How many processors a session without a limit of its own may use, such as 2 or 0.5; 0 for no limit."},
    {HOST(default_memory, default_memory_bytes), .type = CAY_CONF_SIZE, .metavar = "SIZE", .fallback = "2GiB",
     .help = "How much memory a session without a limit of its own may use; 0 for no limit."},
    {HOST(default_pids, default_pids), .type = CAY_CONF_INTEGER, .metavar = "N", .min = 0, .max = 4194304,
     .fallback = "1024",
     .help = "How many processes a session without a limit of its own may have; 0 for no limit."},
    {HOST(default_disk, default_disk_bytes), .type = CAY_CONF_SIZE, .metavar = "SIZE", .fallback = "0",
     .help = "How much disk space a session without a limit of its own may use, its history included; 0 for no limit."},
    {HOST(default_inodes, default_inodes), .type = CAY_CONF_INTEGER, .metavar = "N", .min = 0, .max = 4294967296, .fallback = "0",
     .help = "How many files and directories a session without a limit of its own may add, its history included; 0 for no limit."},
    {HOST(pool_warn, pool_warn), .type = CAY_CONF_RATIO, .metavar = "SHARE", .fallback = "0.85",
     .help = "The host calls itself degraded when this share of the pool is in use."},
    {HOST(pool_critical, pool_critical), .type = CAY_CONF_RATIO, .metavar = "SHARE", .fallback = "0.95",
     .help = "New sessions and snapshots are refused when this share of the pool is in use."},
    {HOST(health_interval, health_interval_ms), .type = CAY_CONF_DURATION, .min = 100, .max = 3600000, .fallback = "30s",
     .help = "How often the daemon checks the health of the host by itself. 'cay status' checks it at once."},
    {HOST(destroy_on_exit, destroys_on_exit), .type = CAY_CONF_BOOL, .fallback = "false",
     .help = "Destroy all sessions when the daemon ends. Otherwise they live on and the next daemon takes them over."},
    {OWN(check, check), .type = CAY_CONF_BOOL, .sources = FLAG_ONLY,
     .help = "Print whether sandboxes can work on this machine with this configuration, and exit; 'cay doctor' shows the same to people."},
    {OWN(print_config, print_config), .type = CAY_CONF_BOOL, .sources = FLAG_ONLY,
     .help = "Print the configuration in effect, with the source of every value, and exit."},
    {OWN(print_config_man, print_config_man), .type = CAY_CONF_BOOL, .sources = FLAG_ONLY,
     .help = "Print the documentation of the configuration file as scdoc and exit."},
    {OWN(help, help), .type = CAY_CONF_BOOL, .sources = FLAG_ONLY, .letter = 'h',
     .help = "Print this help and exit."},
    {OWN(version, version), .type = CAY_CONF_BOOL, .sources = FLAG_ONLY, .letter = 'V',
     .help = "Print the version and exit."},
};
/* clang-format on */

const size_t cayd_conf_entry_count = CAY_COUNT(cayd_conf_entries);

static bool load(struct cay_conf *conf, struct cayd_conf *values, int argc, const char *const *argv,
                 struct cay_error *err)
{
    static const char *const ignored[] = {"CAY_URL",
                                          "CAY_API_KEY",
                                          "CAY_CA_FILE",
                                          "CAY_TEST_RUN",
                                          "CAY_TEST_NAME",
                                          "CAY_TEST_FULL",
                                          "CAY_TEST_CRASH",
                                          "CAY_TEST_SEED",
                                          "CAY_TEST_STEPS",
                                          "CAY_TEST_HOST_ROOT",
                                          NULL};
    int rest = argc;
    if (!cay_conf_load_flags(conf, argc, argv, &rest, err))
        return false;
    if (rest < argc)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "cayd takes no arguments, only flags: '%s'",
                        argv[rest]);
    if (!cay_conf_load_environment(conf, (const char *const *)environ, ignored, err))
        return false;
    if (cay_conf_load_file(conf, values->config, err))
        return true;
    bool is_default = cay_conf_source_of(conf, "config") == CAY_CONF_DEFAULT;
    return is_default && err->sys_errno == ENOENT;
}

bool cayd_conf_load(struct cay_conf *conf, struct cayd_conf *values, int argc,
                    const char *const *argv, struct cay_error *err)
{
    if (!load(conf, values, argc, argv, err))
        return false;
    return values->host.pool_warn <= values->host.pool_critical ||
           cay_fail(err, CAY_R_INVALID_ARGUMENT,
                    "pool_warn is %g and pool_critical is %g: a warning must come first",
                    values->host.pool_warn, values->host.pool_critical);
}
