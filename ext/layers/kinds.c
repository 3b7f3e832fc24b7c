/* The kinds of layers by name, since a saved model names them. */
#include "layers/kinds.h"

#include <pthread.h>
#include <string.h>

static const kolo_layer_kind *const ours[] = {
#define KIND(name) &kolo_##name##_kind,
    KOLO_LAYERS(KIND)
#undef KIND
};
#define OURS (sizeof ours / sizeof *ours)

/* Custom kinds that this process has registered. */
#define REGISTERED_MAX 64
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const kolo_layer_kind *registered[REGISTERED_MAX];
static int registered_count;

const kolo_layer_kind *kolo_layer_kind_at(int index)
{
    return index >= 0 && index < (int)OURS ? ours[index] : NULL;
}

static const kolo_layer_kind *find_ours(const char *name)
{
    for (size_t i = 0; i < OURS; i++)
        if (strcmp(ours[i]->name, name) == 0) return ours[i];
    return NULL;
}

/* The index of the registered kind of that name, or else the first free index. The caller holds the lock. */
static int row_of(const char *name)
{
    int row = 0;
    while (row < registered_count && strcmp(registered[row]->name, name) != 0) row++;
    return row;
}

const kolo_layer_kind *kolo_layer_kind_find(const char *name)
{
    const kolo_layer_kind *found = find_ours(name);
    if (found) return found;
    pthread_mutex_lock(&lock);
    int row = row_of(name);
    found = row < registered_count ? registered[row] : NULL;
    pthread_mutex_unlock(&lock);
    return found;
}

bool kolo_layer_kind_is_ours(const kolo_layer_kind *kind)
{
    bool found = false;
    for (size_t i = 0; i < OURS && !found; i++) found = ours[i] == kind;
    return found;
}

static kolo_status add(const kolo_layer_kind *kind)
{
    pthread_mutex_lock(&lock);
    int row = row_of(kind->name);
    bool room = row < REGISTERED_MAX;
    if (room) registered[row] = kind;
    if (room && row == registered_count) registered_count++;
    pthread_mutex_unlock(&lock);
    return room ? KOLO_OK
                : kolo_fail(KOLO_INVALID, "wanted at most %d kinds of layers, got \"%.40s\" too", REGISTERED_MAX,
                            kind->name);
}

const kolo_layer_kind kolo_no_kind_given = {0};

kolo_status kolo_layer_kind_check(const kolo_layer_kind *kind)
{
    if (!kind || kind == &kolo_no_kind_given) return kolo_fail(KOLO_INVALID, "wanted a kind of layer, got NULL");
    if (!kind->name || !*kind->name) return kolo_fail(KOLO_INVALID, "wanted a kind with a .name, got one without");
    if (kind->build && kind->forward && kind->backward) return KOLO_OK;
    return kolo_fail(KOLO_INVALID, "wanted a kind with .build, .forward and .backward, got \"%.40s\" without",
                     kind->name);
}

static kolo_status check(const kolo_layer_kind *kind)
{
    KOLO_TRY(kolo_layer_kind_check(kind));
    if (find_ours(kind->name))
        return kolo_fail(KOLO_INVALID, "wanted a name that Kolo does not use itself, got \"%s\"", kind->name);
    return KOLO_OK;
}

kolo_status kolo_register_layer_at(const kolo_layer_kind *kind, kolo_here here)
{
    kolo_scope scope = kolo_enter("kolo_register_layer", here);
    kolo_status status = check(kind);
    return kolo_leave(scope, status == KOLO_OK ? add(kind) : status);
}
