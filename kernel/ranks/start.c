/* Starting the ranks: kolorun below a supervisor of its own, and the wait until all have reported. Read first: ranks.h,
 * contact.h. */
#define _GNU_SOURCE
#include "ranks/contact.h"
#include "ranks/ranks.h"

#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zmq.h>

static const double START_LIMIT = 60; /* seconds for all ranks to come up; kolorun gives up earlier where it can */

static void hear(void *self, const char *type, const char *content)
{
    ranks *r = self;
    json_t *heard = json_loads(content, 0, NULL);
    const char *words = json_string_value(json_object_get(heard, "text"));
    if (!strcmp(type, "stream") && words && r->words.size < 20000) text_add(&r->words, words);
    json_decref(heard);
}

/* Their names are left out. */
char *ranks_reason(const ranks *r)
{
    static const char *const speakers[] = {"kolorun: ", "kolo-rank: "};
    text found = {0};
    char *copy = copy_of(r->words.data ? r->words.data : ""), *rest;
    for (char *line = strtok_r(copy, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        for (size_t i = 0; i < sizeof speakers / sizeof *speakers; i++) {
            const char *at = strstr(line, speakers[i]);
            if (at && !(found.data && strstr(found.data, at + strlen(speakers[i]))))
                text_addf(&found, "%s%s", found.size ? "\n" : "", at + strlen(speakers[i]));
        }
    }
    free(copy);
    return found.size ? text_take(&found) : NULL;
}

/* May ranks come to be on other hosts? */
static bool beyond_this_host(const names *words)
{
    for (size_t i = 0; i < words->count; i++) {
        const char *word = words->items[i], *name = word + strspn(word, "-");
        if (*word == '-' && (*name == 'H' || !strncmp(name, "hosts", 5) || !strncmp(name, "hostfile", 8))) return true;
    }
    const char *nodes = getenv("SLURM_JOB_NUM_NODES");
    return nodes && strtol(nodes, NULL, 10) > 1;
}

bool ranks_go_without(const char *line)
{
    return !strncmp(line, "KOLO_DISPLAY", 12) || !strncmp(line, "KOLO_KERNEL_", 12);
}

char *ranks_folder(void)
{
    char folder[PATH_MAX];
    return getcwd(folder, sizeof folder) ? copy_of(folder) : NULL;
}

/* The user's variables go along, and the folder. */
static void add_surroundings(ranks *r)
{
    const names *from = &r->s->worker.environment;
    for (size_t i = 0; i < from->count; i++) {
        if (ranks_go_without(from->items[i])) continue;
        names_add(&r->launcher.environment, from->items[i]);
        names_add(&r->environment, from->items[i]);
    }
    r->folder = ranks_folder();
}

static char *make_token(void)
{
    unsigned char random[16];
    text digits = {0};
    if (getrandom(random, sizeof random, 0) != sizeof random) return NULL;
    for (size_t i = 0; i < sizeof random; i++) text_addf(&digits, "%02x", random[i]);
    return text_take(&digits);
}

static bool open_launcher(ranks *r, char **problem)
{
    session *s = r->s;
    /* In the session's own folder, which no other user can write to: the owner of the folder could pose as the kernel.
     */
    const char *slash = strrchr(s->folder, '/');
    char *folder = format_text("%s/%s-ranks", s->folder, slash ? slash + 1 : s->folder), *secret = make_token();
    struct stat facts;
    mkdir(folder, 0700);
    bool open = secret && lstat(folder, &facts) == 0 && S_ISDIR(facts.st_mode) && facts.st_uid == geteuid() &&
                !access(folder, W_OK);
    r->sink = (front){r, hear, NULL};
    output_begin(&r->heard, &r->sink, false);
    open = open && worker_open(&r->launcher, &r->heard, s->worker.program, folder);
    r->launcher.sibling = &s->worker;
    s->worker.sibling = &r->launcher;
    if (open) add_surroundings(r);
    for (int i = 0; open && i < r->count; i++) rank_name(r->peers[i].name, secret, i);
    free(secret);
    free(folder);
    if (!open) *problem = copy_of("the process that starts the ranks cannot be started");
    return open;
}

static bool listen_for_ranks(ranks *r, const names *words, char **problem)
{
    char secret[RANK_NAME];
    snprintf(secret, sizeof secret, "%.*s", (int)strcspn(r->peers[0].name, ":"), r->peers[0].name);
    r->context = zmq_ctx_new();
    const char *folder = beyond_this_host(words) ? NULL : r->launcher.folder;
    r->socket = contact_listen(r->context, folder, secret, &r->launcher.environment, problem);
    return r->socket != NULL;
}

static void launch(ranks *r, const names *words)
{
    text command = {0};
    char *number = format_text("%d", r->count), *copy = copy_of(r->s->executable),
         *program = format_text("%s/kolo-rank", dirname(copy));
    /* A rank of a notebook has nothing to save: its end must not outlast END_LIMIT of group.c. */
    const char *const first[] = {r->s->launcher, "--stop-timeout", "1", "-np", number};
    for (size_t i = 0; i < sizeof first / sizeof *first; i++) text_add_bytes(&command, first[i], strlen(first[i]) + 1);
    for (size_t i = 0; i < words->count; i++) text_add_bytes(&command, words->items[i], strlen(words->items[i]) + 1);
    text_add_bytes(&command, program, strlen(program) + 1);
    worker_begin(&r->launcher, MESSAGE_SHELL, command.data, command.size, false);
    text_free(&command);
    free(number);
    free(copy);
    free(program);
}

static int ready_count(const ranks *r)
{
    int ready = 0;
    for (int i = 0; i < r->count; i++) ready += r->peers[i].ready;
    return ready;
}

static bool any_ended(const ranks *r)
{
    for (int i = 0; i < r->count; i++) {
        if (r->peers[i].ended || r->peers[i].silent) return true;
    }
    return false;
}

static bool take_interrupt(session *s)
{
    worker_take_wake(&s->worker);
    return s->worker.interrupted > 0;
}

/* One sentence, and below it what mpirun said in full: "…; it says:" leads to its first line. */
static result launch_error(char *why)
{
    char *rest = strchr(why, '\n');
    if (rest && rest > why && rest[-1] == ':') {
        *rest = ' ';
        memmove(rest + 1, rest + 1 + strspn(rest + 1, " "), strlen(rest + 1 + strspn(rest + 1, " ")) + 1);
        rest = strchr(rest, '\n');
    }
    if (rest) *rest = 0;
    result e = error_result("LaunchError", "%s", why);
    if (rest) text_addf(&e.traceback, "\n%s", rest + 1);
    return e;
}

static result wait_for_ranks(ranks *r)
{
    double limit = seconds_now() + START_LIMIT;
    while (ready_count(r) < r->count && !r->launcher_gone && !any_ended(r) && seconds_now() < limit) {
        ranks_turn(r, 50);
        if (take_interrupt(r->s) || r->s->closing) return error_result("KeyboardInterrupt", "interrupted");
    }
    if (ready_count(r) == r->count) return (result){0};
    for (double end = seconds_now() + 1; !r->launcher_gone && seconds_now() < end;) ranks_turn(r, 20);
    char *why = ranks_reason(r);
    result e =
        why ? launch_error(why)
            : error_result("LaunchError", "%d of %d ranks have not come up", r->count - ready_count(r), r->count);
    free(why);
    return e;
}

result ranks_start(session *s, int count, const names *words)
{
    ranks_end(s);
    if (!s->ranks) {
        s->ranks = need_zeroed(sizeof *s->ranks);
        s->ranks->s = s;
    }
    ranks *r = s->ranks;
    char *problem = NULL;
    r->count = count;
    r->peers = need_zeroed((size_t)count * sizeof *r->peers);
    r->live = true;
    r->loads_sent = 0;
    r->launcher_gone = false;
    text_clear(&r->words);
    transcript_begin(&r->said, &s->out, count);
    bool open = open_launcher(r, &problem) && listen_for_ranks(r, words, &problem);
    if (open && !worker_start(&r->launcher)) {
        problem = copy_of("the process that starts the ranks cannot be started");
        open = false;
    }
    result e = {0};
    if (open) {
        launch(r, words);
        e = wait_for_ranks(r);
    } else {
        e = error_result("LaunchError", "%s", problem);
    }
    free(problem);
    for (int i = 0; i < count; i++) transcript_end(&r->said, i);
    if (e.failed) ranks_end(s);
    return e;
}
