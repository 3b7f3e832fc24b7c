/* {"size": 4, "command": "cnn_mnist --epochs 2", "count": rings that have started,
 *  "members": [{"learner", "ticket", "address", "port", "board", "seen"}],
 *  "started": [{"when", "first": rank 0's learner, "tickets": [...], "addresses": [...], "key"}]} */
#define _GNU_SOURCE
#include "board/ring.h"
#include "board/board.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A learner whose answer was lost asks again within this time and gets the same one. */
enum { STARTED_SECONDS = 60 };

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

static json_int_t number_of(const json_t *object, const char *key)
{
    return json_integer_value(json_object_get(object, key));
}

const char *ring_open(json_t **ring, const json_t *wanted)
{
    json_int_t size = number_of(wanted, "size");
    const char *command = text_of(wanted, "command");
    const char *plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./=,:+- ";
    if (size < 2 || size > RING_MOST) return "a ring has 2 to 64 learners";
    if (!*command || strlen(command) > RING_COMMAND) return "a ring's command has 1 to 1000 bytes";
    /* Learners copy it into a shell. */
    if (strspn(command, plain) != strlen(command))
        return "a ring's command has only letters, digits, spaces and _ . / = , : + -";
    json_decref(*ring);
    *ring =
        json_pack("{s:I, s:s, s:i, s:[], s:[]}", "size", size, "command", command, "count", 0, "members", "started");
    return NULL;
}

char *ring_line(const json_t *ring)
{
    char *line = NULL;
    return asprintf(&line, "!kolo-board ring %s", text_of(ring, "command")) < 0 ? NULL : line;
}

/* Removes the elements of an array whose time `key` is older than so many seconds. */
static void forget_older(json_t *array, const char *key, long now, int seconds)
{
    for (size_t i = json_array_size(array); i-- > 0;) {
        if (number_of(json_array_get(array, i), key) + seconds < now) json_array_remove(array, i);
    }
}

static void tidy(json_t *ring, long now)
{
    forget_older(json_object_get(ring, "members"), "seen", now, RING_SILENCE_SECONDS);
    forget_older(json_object_get(ring, "started"), "when", now, STARTED_SECONDS);
}

static size_t index_of(const json_t *members, const char *ticket)
{
    size_t i;
    json_t *member;
    json_array_foreach(members, i, member)
    {
        if (strcmp(text_of(member, "ticket"), ticket) == 0) return i;
    }
    return json_array_size(members);
}

static json_t *names(const json_t *ring)
{
    json_t *all = json_array(), *member;
    size_t i;
    json_array_foreach(json_object_get(ring, "members"), i, member)
        json_array_append(all, json_object_get(member, "learner"));
    return all;
}

/* The answer for a ticket of a ring that has started; NULL if there is none. */
static json_t *place_in_started(const json_t *ring, const char *ticket)
{
    json_t *one, *known;
    size_t i, rank;
    json_array_foreach(json_object_get(ring, "started"), i, one)
    {
        json_array_foreach(json_object_get(one, "tickets"), rank, known)
        {
            if (strcmp(json_string_value(known), ticket) == 0)
                return json_pack("{s:I, s:O, s:O, s:O}", "rank", (json_int_t)rank, "first",
                                 json_object_get(one, "first"), "addresses", json_object_get(one, "addresses"), "key",
                                 json_object_get(one, "key"));
        }
    }
    return NULL;
}

static bool on_this_machine(const char *address)
{
    return strncmp(address, "127.", 4) == 0;
}

/* Where other machines find those learners who reach the board over its loopback interface: at the board's own address,
 * as a learner on another machine sees it. NULL if all are on this machine. */
static const char *address_of_this_machine(const json_t *members)
{
    size_t i;
    json_t *member;
    json_array_foreach(members, i, member)
    {
        if (!on_this_machine(text_of(member, "address"))) return text_of(member, "board");
    }
    return NULL;
}

enum { CLUSTER_KEY = 32 }; /* bytes of KOLO_CLUSTER_KEY */

/* All are there: they become a started ring, and the next one begins without members. */
static void begin(json_t *ring, long now)
{
    json_t *members = json_object_get(ring, "members"), *tickets = json_array(), *addresses = json_array(), *member;
    const char *here = address_of_this_machine(members);
    size_t i;
    json_array_foreach(members, i, member)
    {
        const char *address = text_of(member, "address");
        json_array_append(tickets, json_object_get(member, "ticket"));
        json_array_append_new(addresses, json_sprintf("%s:%d", here && on_this_machine(address) ? here : address,
                                                      (int)number_of(member, "port")));
    }
    json_array_append_new(json_object_get(ring, "started"),
                          json_pack("{s:I, s:O, s:o, s:o, s:o}", "when", (json_int_t)now, "first",
                                    json_object_get(json_array_get(members, 0), "learner"), "tickets", tickets,
                                    "addresses", addresses, "key", board_random(CLUSTER_KEY)));
    json_array_clear(members);
    json_object_set_new(ring, "count", json_integer(number_of(ring, "count") + 1));
}

static const char *refuse(const json_t *ring, const json_t *request, char why[static 1200])
{
    json_int_t port = number_of(request, "port");
    if (!board_good_name(text_of(request, "learner"))) return "a learner's name has 1 to 40 bytes";
    if (strlen(text_of(request, "ticket")) != 32) return "a ticket has 32 characters";
    if (port < 1 || port > 65535) return "a port is a number from 1 to 65535";
    if (!ring) return "no ring is open: wait until the instructor opens one";
    if (strcmp(text_of(request, "command"), text_of(ring, "command")) == 0) return NULL;
    snprintf(why, 1200, "all learners of the ring run the same: !kolo-board ring %s", text_of(ring, "command"));
    return why;
}

const char *ring_take(json_t *ring, const json_t *request, const ring_path *path, long now, json_t **reply,
                      char why[static 1200])
{
    const char *refused = refuse(ring, request, why), *ticket = text_of(request, "ticket");
    if (refused) return refused;
    tidy(ring, now);
    json_t *members = json_object_get(ring, "members");
    size_t at = index_of(members, ticket), size = (size_t)number_of(ring, "size");
    if (json_is_true(json_object_get(request, "leave"))) {
        if (at < json_array_size(members)) json_array_remove(members, at);
    } else if (!(*reply = place_in_started(ring, ticket))) {
        json_t *member = json_pack("{s:O, s:s, s:s, s:O, s:s, s:I}", "learner", json_object_get(request, "learner"),
                                   "ticket", ticket, "address", path->learner, "port", json_object_get(request, "port"),
                                   "board", path->board, "seen", (json_int_t)now);
        if (at < json_array_size(members)) json_array_set_new(members, at, member);
        else json_array_append_new(members, member);
        if (json_array_size(members) == size) {
            begin(ring, now);
            *reply = place_in_started(ring, ticket);
        }
    }
    if (!*reply) *reply = json_pack("{s:I, s:o}", "size", (json_int_t)size, "there", names(ring));
    return NULL;
}

json_t *ring_shown(json_t *ring, long now)
{
    if (!ring) return json_null();
    tidy(ring, now);
    return json_pack("{s:O, s:O, s:o, s:O}", "size", json_object_get(ring, "size"), "command",
                     json_object_get(ring, "command"), "there", names(ring), "started", json_object_get(ring, "count"));
}
