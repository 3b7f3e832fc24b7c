/* Hosts and slots, from texts and files. Mistakes for which mpirun prints a page of text are
 * reported here in one sentence. */
#define _GNU_SOURCE 1 /* strsep, memfd_create */
#include "launch/hosts.h"

#include "launch/say.h"

#include <errno.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <unistd.h>

#define NAME_CHARACTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"

/* False if memory is out. */
static bool append_host(struct launch_hosts *hosts, const char *name, size_t length, int slots)
{
    struct launch_host *grown = realloc(hosts->host, (hosts->count + 1) * sizeof *grown);
    if (grown) hosts->host = grown;
    char *copy = strndup(name, length);
    if (!grown || !copy) {
        free(copy);
        return false;
    }
    hosts->host[hosts->count++] = (struct launch_host){.name = copy, .slots = slots};
    return true;
}

/* Notes with which name to log in on a host. */
static int set_user(struct launch_host *host, const char *user, size_t length)
{
    if (host->user && (strlen(host->user) != length || strncmp(host->user, user, length)))
        return launch_say(KOLORUN_WRONG_USE, "host %s: wanted one user, got %s and %.*s", host->name, host->user,
                          (int)length, user);
    if (!host->user) host->user = strndup(user, length);
    return host->user ? KOLORUN_GO_ON : launch_say(KOLORUN_FAILED, "out of memory while reading the hosts");
}

/* Adds "name" or "user@name". */
static int add_host(struct launch_hosts *hosts, const char *text, size_t length, int slots)
{
    const char *at = memchr(text, '@', length), *name = at ? at + 1 : text;
    size_t name_length = length - (size_t)(name - text), i = 0;
    while (i < hosts->count &&
           (strlen(hosts->host[i].name) != name_length || strncasecmp(hosts->host[i].name, name, name_length)))
        i++;
    if (i == hosts->count) {
        if (!append_host(hosts, name, name_length, slots))
            return launch_say(KOLORUN_FAILED, "out of memory while reading the hosts");
    } else if (slots > INT_MAX - hosts->host[i].slots) {
        return launch_say(KOLORUN_WRONG_USE, "host %s: too many slots", hosts->host[i].name);
    } else {
        hosts->host[i].slots += slots;
    }
    return at ? set_user(&hosts->host[i], text, (size_t)(at - text)) : KOLORUN_GO_ON;
}

int hosts_add(struct launch_hosts *hosts, const char *name, int slots)
{
    return add_host(hosts, name, strlen(name), slots);
}

/* The length of the "name" or "user@name" with which `text` begins, or 0. */
static size_t name_length(const char *text)
{
    size_t first = strspn(text, NAME_CHARACTERS);
    if (!first || text[first] != '@') return first;
    size_t second = strspn(text + first + 1, NAME_CHARACTERS);
    return second ? first + 1 + second : 0;
}

/* Reads text[length], which must contain only digits, as a number from 1 to INT_MAX; 0 on failure. */
static int read_slots(const char *text, size_t length)
{
    char digits[16];
    if (!length || length >= sizeof digits || strspn(text, "0123456789") < length) return 0;
    memcpy(digits, text, length);
    digits[length] = '\0';
    long value = strtol(digits, NULL, 10);
    return value > INT_MAX ? 0 : (int)value;
}

/* Reads "name" or "name:slots", with "user@" before it or not. */
static int read_host(const char *text, size_t length, const char *where, struct launch_hosts *hosts)
{
    size_t name = name_length(text);
    int slots = 1;
    if (name < length && text[name] == ':') slots = read_slots(text + name + 1, length - name - 1);
    else if (name != length) name = 0;
    if (!name || name > length || !slots)
        return launch_say(KOLORUN_WRONG_USE, "%s: wanted hosts as worker-0:2,worker-1:2, got '%.*s'", where,
                          (int)length, text);
    return add_host(hosts, text, name, slots);
}

int hosts_from_list(const char *list, struct launch_hosts *hosts)
{
    for (const char *at = list;; at++) {
        size_t length = strcspn(at, ",");
        int code = read_host(at, length, "-H", hosts);
        if (code != KOLORUN_GO_ON) return code;
        at += length;
        if (!*at) return KOLORUN_GO_ON;
    }
}

/* Reads a line of a hostfile without its comment; an empty line adds nothing. "max…=N" is accepted and ignored. */
static int read_hostfile_line(char *line, const char *where, struct launch_hosts *hosts)
{
    char *rest = NULL, *name = strtok_r(line, " \t\r\n", &rest);
    if (!name) return KOLORUN_GO_ON;
    int slots = 0;
    for (char *word; (word = strtok_r(NULL, " \t\r\n", &rest));) {
        const char *value = strchr(word, '=');
        size_t key = value ? (size_t)(value - word) : strlen(word);
        int number = value ? read_slots(value + 1, strlen(value + 1)) : 0;
        if (!number) return launch_say(KOLORUN_WRONG_USE, "%s: wanted NAME slots=N, got '%s'", where, word);
        if (key == 5 && !strncmp(word, "slots", key)) slots = number;
        else if (strncmp(word, "max", 3))
            return launch_say(KOLORUN_WRONG_USE, "%s: wanted NAME slots=N, got '%s'", where, word);
    }
    if (!slots) return read_host(name, strlen(name), where, hosts);
    if (name_length(name) != strlen(name))
        return launch_say(KOLORUN_WRONG_USE, "%s: wanted NAME slots=N, got '%s'", where, name);
    return add_host(hosts, name, strlen(name), slots);
}

int hosts_from_file(const char *path, struct launch_hosts *hosts)
{
    FILE *file = fopen(path, "re");
    if (!file) return launch_say(KOLORUN_WRONG_USE, "--hostfile %s: %s", path, strerror(errno));
    char *line = NULL, where[256];
    size_t size = 0;
    int code = KOLORUN_GO_ON;
    for (int number = 1; code == KOLORUN_GO_ON && getline(&line, &size, file) >= 0; number++) {
        line[strcspn(line, "#")] = '\0';
        snprintf(where, sizeof where, "%s line %d", path, number);
        code = read_hostfile_line(line, where, hosts);
    }
    if (code == KOLORUN_GO_ON && ferror(file))
        code = launch_say(KOLORUN_WRONG_USE, "--hostfile %s: cannot be read: %s", path, strerror(errno));
    free(line);
    fclose(file);
    if (code == KOLORUN_GO_ON && !hosts->count)
        code = launch_say(KOLORUN_WRONG_USE, "--hostfile %s: wanted a line a host, got none", path);
    return code;
}

int hosts_from_text(char *text, const char *where, struct launch_hosts *hosts)
{
    char place[256];
    int code = KOLORUN_GO_ON;
    for (int number = 1; code == KOLORUN_GO_ON && text; number++) {
        char *line = strsep(&text, "\n");
        line[strcspn(line, "#")] = '\0';
        snprintf(place, sizeof place, "%s line %d", where, number);
        code = read_hostfile_line(line, place, hosts);
    }
    return code;
}

bool hosts_looks_like_host(const char *word)
{
    size_t name = name_length(word);
    return name && word[name] == ':' && read_slots(word + name + 1, strcspn(word + name + 1, ","));
}

bool host_is_local(const char *name)
{
    char here[256] = "";
    if (gethostname(here, sizeof here - 1)) here[0] = '\0';
    if (!strcasecmp(name, "localhost") || !strncmp(name, "127.", 4) || !strcasecmp(name, here)) return true;
    size_t host = strcspn(here, "."); /* "node7" and "node7.cluster.org" are the same host */
    return host && !here[host] && !strncasecmp(name, here, host) && name[host] == '.';
}

/* mpirun starts this host's ranks itself, as its own user. */
static int check_user(const struct launch_host *host)
{
    if (!host->user || !host_is_local(host->name)) return KOLORUN_GO_ON;
    const struct passwd *self = getpwuid(geteuid());
    if (self && !strcmp(self->pw_name, host->user)) return KOLORUN_GO_ON;
    return launch_say(KOLORUN_WRONG_USE, "%s@%s: this is kolorun's own host, where ranks run as %s", host->user,
                      host->name, self ? self->pw_name : "kolorun's user");
}

int hosts_check(struct launch_hosts *hosts)
{
    long slots = 0;
    hosts->all_local = true;
    for (size_t i = 0; i < hosts->count; i++) {
        int code = check_user(&hosts->host[i]);
        if (code != KOLORUN_GO_ON) return code;
        slots += hosts->host[i].slots;
        hosts->all_local = hosts->all_local && host_is_local(hosts->host[i].name);
    }
    if (slots < hosts->ranks)
        return launch_say(KOLORUN_WRONG_USE, "wanted %d ranks, hosts offer %ld slots", hosts->ranks, slots);
    return KOLORUN_GO_ON;
}

char *hosts_argument(const struct launch_hosts *hosts)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (!out) return NULL;
    for (size_t i = 0; i < hosts->count; i++)
        fprintf(out, "%s%s:%d", i ? "," : "", hosts->host[i].name, hosts->host[i].slots);
    if (fclose(out) == 0) return text;
    free(text);
    return NULL;
}

bool hosts_have_users(const struct launch_hosts *hosts)
{
    for (size_t i = 0; i < hosts->count; i++)
        if (hosts->host[i].user) return true;
    return false;
}

char *hosts_file(struct launch_hosts *hosts)
{
    char *path = NULL;
    if (!hosts->file) hosts->file = memfd_create("hosts", 0);
    if (hosts->file < 0) hosts->file = 0;
    for (size_t i = 0; hosts->file && i < hosts->count; i++) {
        const struct launch_host *host = &hosts->host[i];
        if (dprintf(hosts->file, "%s%s%s slots=%d\n", host->user ? host->user : "", host->user ? "@" : "", host->name,
                    host->slots) < 0)
            return NULL;
    }
    return hosts->file && asprintf(&path, "/proc/self/fd/%d", hosts->file) >= 0 ? path : NULL;
}

void hosts_free(struct launch_hosts *hosts)
{
    for (size_t i = 0; i < hosts->count; i++) {
        free(hosts->host[i].name);
        free(hosts->host[i].user);
    }
    free(hosts->host);
    if (hosts->file) close(hosts->file);
    *hosts = (struct launch_hosts){0};
}
