/* Building the mpirun command line. The comments give the reason for each setting that is not mpirun's default. */
#define _GNU_SOURCE 1 /* asprintf */
#include "launch/command.h"

#include "launch/daemon.h"
#include "launch/network.h"
#include "launch/rank.h"
#include "launch/say.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

extern char **environ;

struct setting {
    const char *name, *value;
};

/* Settings if all ranks are on this host. */
static const struct setting here[] = {
    {"plm", "isolated"},           /* starts no daemons on other hosts, so ssh is not needed */
    {"oob_tcp_if_include", "lo"},  /* does not wait for docker0 or a VPN */
    {"btl", "self,vader"},         /* shared memory; probes no network */
};
/* Settings for all jobs. */
static const struct setting everywhere[] = {
    {"pml", "ob1"},                     /* halves the time to start: does not open libfabric, UCX or PSM */
    {"opal_signal", ""}, /* prints no backtrace: kolorun prints which rank died, and how, in one line */
    {"odls_base_sigkill_timeout", "0"}, /* mpirun only kills stand-ins (rank.h), so waiting would only delay the end */
};
/* Settings under --keep-going, for ranks whose watcher was killed, and for those that end without MPI_Finalize. */
static const struct setting going_on[] = {{"orte_abort_on_non_zero_status", "0"},
                                          {"orte_allowed_exit_without_sync", "1"}};
/* mpirun would cut "server1.cluster.org" to "server1", which ssh may not know. */
static const struct setting by_name[] = {{"orte_keep_fqdn_hostnames", "1"}};
/* Settings for several hosts: ob1 over TCP, as in horovodrun, because the old openib transport crashed with threads. */
static const struct setting across[] = {{"btl", "^openib"}};
/* Settings of --rdma and --tcp, which come before those above and replace them. Without tcp in the list of transports
 * nothing falls back to it in silence. */
static const struct setting ucx[] = {{"pml", "ucx"}};
static const struct setting verbs[] = {{"btl", "self,vader,openib"}, {"btl_openib_allow_ib", "1"}};
static const struct setting tcp[] = {{"btl", "self,tcp"}};
static const struct setting loopback[] = {{"btl_tcp_if_include", "lo"}};
/* Networks that many hosts have but that do not connect hosts. They are excluded if the right network is unknown. */
#define NO_NETWORKS "lo,docker0,virbr0"

char *command_find(const char *name)
{
    struct stat found;
    if (strchr(name, '/')) {
        if (stat(name, &found)) return NULL;
        if (S_ISREG(found.st_mode) && !access(name, X_OK)) return strdup(name);
        errno = S_ISDIR(found.st_mode) ? EISDIR : EACCES;
        return NULL;
    }
    const char *path = getenv("PATH");
    for (const char *at = path ? path : "/usr/local/bin:/usr/bin:/bin"; *name && *at; at += *at == ':') {
        char file[4096];
        size_t length = strcspn(at, ":");
        int size = snprintf(file, sizeof file, "%.*s/%s", (int)(length ? length : 1), length ? at : ".", name);
        if (size < (int)sizeof file && !stat(file, &found) && S_ISREG(found.st_mode) && !access(file, X_OK))
            return strdup(file);
        at += length;
    }
    errno = ENOENT;
    return NULL;
}

int command_is_host(const struct launch_options *options)
{
    const char *name = options->command[0];
    if (!options->hosts || !hosts_looks_like_host(name) || !access(name, X_OK)) return KOLORUN_GO_ON;
    return launch_say(KOLORUN_WRONG_USE, "-H: wanted hosts separated by commas, got a space: write -H %s,%s",
                      options->hosts, name);
}

/* Finds a command as the rank will, which runs in --wdir. The caller frees the path. */
static char *find_for_rank(const struct launch_options *options, const char *name)
{
    char path[4096];
    if (!options->wdir || *name == '/' || !strchr(name, '/')) return command_find(name);
    snprintf(path, sizeof path, "%s/%s", options->wdir, name);
    return command_find(path);
}

static int check_wdir(const struct launch_options *options)
{
    struct stat info;
    const char *folder = options->wdir;
    if (!folder) return KOLORUN_GO_ON;
    if (stat(folder, &info)) return launch_say(KOLORUN_WRONG_USE, "--wdir %s: %s", folder, strerror(errno));
    if (!S_ISDIR(info.st_mode) || access(folder, X_OK))
        return launch_say(KOLORUN_WRONG_USE, "--wdir %s: wanted a folder that can be entered", folder);
    return KOLORUN_GO_ON;
}

/* Whether the ranks have a PATH that is not kolorun's. */
static bool sets_path(const struct launch_options *options)
{
    for (size_t i = 0; i < options->variables.count; i++)
        if (!strncmp(options->variables.word[i], "PATH=", 5)) return true;
    return false;
}

int command_check(const struct launch_options *options)
{
    int code = check_wdir(options);
    if (code != KOLORUN_GO_ON) return code;
    const char *name = options->command[0];
    char *found = find_for_rank(options, name), *there = NULL, local[4096];
    int error = errno;
    free(found);
    if (found || (sets_path(options) && !strchr(name, '/'))) return KOLORUN_GO_ON;
    snprintf(local, sizeof local, "./%s", name);
    if (!strchr(name, '/') && (there = find_for_rank(options, local))) {
        free(there);
        return launch_say(KOLORUN_WRONG_USE, "%s: not found in PATH; did you mean ./%s?", name, name);
    }
    if (error == EACCES) return launch_say(KOLORUN_WRONG_USE, "%s: not executable: wanted a program", name);
    if (error == EISDIR) return launch_say(KOLORUN_WRONG_USE, "%s: wanted a program, got a folder", name);
    return launch_say(KOLORUN_WRONG_USE, "%s: command not found", name);
}

/* Whether the user has set this parameter, in the environment or in --mpi-args. */
static bool is_set(const char *name, const struct words *users)
{
    char variable[128];
    snprintf(variable, sizeof variable, "OMPI_MCA_%s", name);
    if (getenv(variable)) return true;
    for (size_t i = 1; i < users->count; i++) {
        const char *option = users->word[i - 1];
        if (!strcmp(users->word[i], name) && strstr(option, "mca") && strspn(option, "-")) return true;
    }
    return false;
}

/* Whether mpirun's command line already has this parameter. */
static bool is_chosen(const char *name, const struct words *command)
{
    for (size_t i = 1; i < command->count; i++)
        if (!strcmp(command->word[i], name) && !strcmp(command->word[i - 1], "--mca")) return true;
    return false;
}

/* Adds the settings that neither the user nor an earlier call has made. */
static void add_settings(struct words *command, const struct setting *settings, size_t count, const struct words *users)
{
    for (size_t i = 0; i < count; i++)
        if (!is_set(settings[i].name, users) && !is_chosen(settings[i].name, command))
            words_add_all(command, "--mca", settings[i].name, settings[i].value, NULL);
}

static void add_transport(struct words *command, const struct launch_options *options, const struct launch_hosts *hosts,
                          const struct words *users)
{
    if (options->tcp) add_settings(command, tcp, sizeof tcp / sizeof *tcp, users);
    if (options->tcp && hosts->all_local) add_settings(command, loopback, sizeof loopback / sizeof *loopback, users);
    if (options->rdma && !strcmp(options->rdma, "ucx")) add_settings(command, ucx, sizeof ucx / sizeof *ucx, users);
    if (options->rdma && !strcmp(options->rdma, "verbs"))
        add_settings(command, verbs, sizeof verbs / sizeof *verbs, users);
}

static void add_networks(struct words *command, const struct launch_options *options, const struct launch_hosts *hosts,
                         const struct words *users)
{
    char subnet[NETWORK_TEXT] = "";
    if (!options->interfaces) network_common(hosts, subnet);
    const char *joining = options->interfaces ? options->interfaces : subnet;
    const struct setting include[] = {{"btl_tcp_if_include", joining}, {"oob_tcp_if_include", joining}};
    const struct setting exclude[] = {{"btl_tcp_if_exclude", NO_NETWORKS}, {"oob_tcp_if_exclude", NO_NETWORKS}};
    for (size_t i = 0; i < 2; i++) { /* Open MPI accepts either an include or an exclude list, not both */
        if (is_set(include[i].name, users) || is_set(exclude[i].name, users)) continue;
        add_settings(command, *joining ? &include[i] : &exclude[i], 1, users);
    }
}

static bool has_option(const struct words *users, const char *name)
{
    for (size_t i = 0; i < users->count; i++)
        if (users->word[i][0] == '-' && !strcmp(users->word[i] + strspn(users->word[i], "-"), name)) return true;
    return false;
}

/* Passes environment variables to the ranks on other hosts by name: all except those that concern this host or
 * shell. */
static void add_variables(struct words *command)
{
    static const char *const left_out[] = {"BASH_FUNC_", "OLDPWD=", "PWD=",   "SHLVL=",  "_=",
                                           "HOSTNAME=",  "TMPDIR=", "SLURM_", "SLURMD_", "OMPI_ALLOW_RUN_AS_ROOT",
                                           "SSH_",       "XDG_"};
    for (char **at = environ; *at; at++) {
        bool pass = strchr(*at, '=') != NULL;
        for (size_t i = 0; i < sizeof left_out / sizeof *left_out; i++)
            pass = pass && strncmp(*at, left_out[i], strlen(left_out[i]));
        char name[256];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(*at, "="), *at);
        if (pass && strlen(name) < sizeof name - 1) words_add_all(command, "-x", name, NULL);
    }
}

/* Adds the port and the key for ssh. */
static int add_ssh(struct words *command, const struct launch_options *options, const struct words *users)
{
    char *key = options->ssh_key ? realpath(options->ssh_key, NULL) : NULL, *arguments = NULL, port[24] = "";
    if (!options->ssh_port && !options->ssh_key) return KOLORUN_GO_ON;
    if (is_set("plm_rsh_args", users)) {
        free(key);
        return launch_say(KOLORUN_WRONG_USE,
                          "%s and Open MPI's plm_rsh_args both set ssh's arguments: wanted one of them",
                          options->ssh_port ? "--ssh-port" : "--ssh-identity-file");
    }
    if (options->ssh_port) snprintf(port, sizeof port, "-p %d", options->ssh_port);
    bool done = asprintf(&arguments, "%s%s%s%s", port, *port && key ? " " : "", key ? "-i " : "", key ? key : "") >= 0;
    if (done) words_add_all(command, "--mca", "plm_rsh_args", arguments, NULL);
    free(key);
    free(done ? arguments : NULL);
    return done ? KOLORUN_GO_ON : launch_say(KOLORUN_FAILED, "out of memory");
}

static int add_hosts(struct words *command, struct launch_hosts *hosts)
{
    bool users = hosts_have_users(hosts) && !hosts->all_local;
    if (hosts->from_scheduler) return KOLORUN_GO_ON;
    char *list = users ? hosts_file(hosts) : hosts_argument(hosts);
    if (!list) return launch_say(KOLORUN_FAILED, "no list of hosts for mpirun: %s", strerror(errno));
    words_add_all(command, users ? "--hostfile" : "-H", list, NULL);
    if (users) words_add_all(command, "--mca", "plm_rsh_no_tree_spawn", "1", NULL); /* other hosts know no users */
    free(list);
    return KOLORUN_GO_ON;
}

/* No binding is the default: the threads of a rank that is bound to a core share it, and ranks cannot be bound if they
 * outnumber the cores. */
static int add_placement(struct words *command, const struct launch_options *options, const struct words *users)
{
    bool bound = has_option(users, "bind-to");
    if (bound && options->bind_to)
        return launch_say(KOLORUN_WRONG_USE, "--bind-to: wanted it here or in --mpi-args, got both");
    if (!bound) words_add_all(command, "--bind-to", options->bind_to ? options->bind_to : "none", NULL);
    if (!has_option(users, "map-by")) words_add_all(command, "--map-by", "slot", NULL);
    return KOLORUN_GO_ON;
}

/* mpirun with an absolute path puts its folder before the ranks' PATH and LD_LIBRARY_PATH, on other hosts so that orted
 * is found there. So a python of the user's would not be found. */
static void add_prefix(struct words *command, const struct launch_hosts *hosts, const struct words *users)
{
    bool found_anyway = hosts->all_local || !strcmp(command->word[0], "/usr/bin/mpirun");
    if (found_anyway && !has_option(users, "prefix")) words_add(command, "--noprefix");
}

/* Adds what the user has set for the ranks. */
static void add_users(struct words *command, const struct launch_options *options, const struct words *users)
{
    for (size_t i = 0; i < options->variables.count; i++)
        words_add_all(command, "-x", options->variables.word[i], NULL);
    if (options->wdir) words_add_all(command, "--wdir", options->wdir, NULL);
    for (size_t i = 0; i < users->count; i++) words_add(command, users->word[i]);
}

/* Lets SLURM start Open MPI's daemons through kolorun. Open MPI splits the words at blanks. */
static void add_daemon(struct words *command, const char *self, const struct words *users)
{
    char agent[4200];
    if (strchr(self, ' ')) return;
    snprintf(agent, sizeof agent, "%s " DAEMON_OPTION " orted", self);
    const struct setting through[] = {{"orte_launch_agent", agent}};
    add_settings(command, through, 1, users);
}

static int add_options(struct words *command, const struct launch_options *options, struct launch_hosts *hosts,
                       const char *self, const struct words *users)
{
    char ranks[16];
    snprintf(ranks, sizeof ranks, "%d", hosts->ranks);
    add_prefix(command, hosts, users);
    words_add_all(command, "-np", ranks, NULL);
    int code = add_hosts(command, hosts);
    if (code == KOLORUN_GO_ON) code = add_placement(command, options, users);
    if (code != KOLORUN_GO_ON) return code;
    add_transport(command, options, hosts, users);
    if (hosts->all_local) {
        add_settings(command, here, sizeof here / sizeof *here, users);
    } else {
        add_settings(command, across, sizeof across / sizeof *across, users);
        add_networks(command, options, hosts, users);
        if (!hosts->from_scheduler) add_settings(command, by_name, sizeof by_name / sizeof *by_name, users);
        code = add_ssh(command, options, users);
    }
    add_settings(command, everywhere, sizeof everywhere / sizeof *everywhere, users);
    if (hosts->from_scheduler && !hosts->all_local) add_daemon(command, self, users);
    if (options->keep_going) add_settings(command, going_on, sizeof going_on / sizeof *going_on, users);
    if (!hosts->all_local) add_variables(command);
    add_users(command, options, users);
    return code;
}

int command_build(const struct launch_options *options, struct launch_hosts *hosts, const char *mpirun,
                  const char *self, struct words *command)
{
    struct words users = {0};
    words_add(command, mpirun);
    if (command->failed) return launch_say(KOLORUN_FAILED, "out of memory");
    if (options->mpi_args && !words_add_split(&users, options->mpi_args)) {
        words_free(&users);
        return launch_say(KOLORUN_WRONG_USE, "--mpi-args: wanted arguments as a shell would read them, got '%s'",
                          options->mpi_args);
    }
    int code = add_options(command, options, hosts, self, &users);
    words_free(&users);
    words_add_all(command, self, RANK_OPTION, NULL);
    for (char **word = options->command; *word; word++) words_add_shielded(command, *word);
    if (code == KOLORUN_GO_ON && command->failed) code = launch_say(KOLORUN_FAILED, "out of memory");
    return code;
}
