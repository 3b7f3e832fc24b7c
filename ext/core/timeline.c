/* See timeline.h. */
#define _GNU_SOURCE
#include "core/timeline.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define RECENT 16 /* places that a thread finds again without a lock */

/* A row while it is recorded. */
typedef struct row {
    atomic_bool busy; /* its thread is writing an event */
    bool taken;       /* a thread has it; under the lock */
    pthread_t owner;
    kolo_timeline_row *named;
    kolo_timeline_event *events; /* NULL: there was no room on the disk */
} row;

static struct {
    pthread_mutex_t lock; /* held while rows are taken, given back, opened and closed */
    pthread_once_t once;
    pthread_key_t key; /* gives a thread's rows back when it ends */
    kolo_timeline_header *header;
    int fd;
    atomic_uint session; /* counts recordings, so that threads forget the rows of earlier ones */
    row rows[KOLO_TIMELINE_ROWS];
} timeline = {.lock = PTHREAD_MUTEX_INITIALIZER, .once = PTHREAD_ONCE_INIT, .fd = -1};
atomic_bool kolo_timeline_on;

/* What a thread knows. */
static _Thread_local struct {
    kolo_timeline_place place;
    unsigned session; /* of the rows below */
    row *row; /* of the place; NULL: not looked for yet */
    bool none; /* there is none */
    struct {
        kolo_timeline_place place;
        row *row;
    } recent[RECENT];
    unsigned next; /* in recent[] */
} mine;

int64_t kolo_timeline_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* ---------------------------------------------------------------- rows */

static void give_rows_back(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&timeline.lock);
    for (int i = 0; i < KOLO_TIMELINE_ROWS; i++)
        if (timeline.rows[i].taken && pthread_equal(timeline.rows[i].owner, pthread_self()))
            timeline.rows[i].taken = false;
    pthread_mutex_unlock(&timeline.lock);
}

/* A forked child must not write to its parent's file. */
static void forget_in_child(void)
{
    atomic_store(&kolo_timeline_on, false);
}

static void prepare(void)
{
    pthread_key_create(&timeline.key, give_rows_back);
    pthread_atfork(NULL, NULL, forget_in_child);
}

static void name_place(const kolo_timeline_place *place, char *name, size_t size)
{
    char number[16] = "", lane[24] = "";
    if (place->number >= 0) snprintf(number, sizeof number, " %d", place->number);
    if (place->lane > 0) snprintf(lane, sizeof lane, ", thread %d", place->lane);
    snprintf(name, size, "%s%s%s", place->kind, number, lane);
}

/* Gives a row memory in the file. Its blocks are allocated first, because a write to a mapped file on a full disk would
 * end the process. */
static kolo_timeline_event *map_row(int number)
{
    const size_t bytes = KOLO_TIMELINE_EVENTS * sizeof(kolo_timeline_event);
    off_t at = (off_t)kolo_timeline_place_of(number);
    if (posix_fallocate(timeline.fd, at, (off_t)bytes) != 0) return NULL;
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, timeline.fd, at);
    return memory == MAP_FAILED ? NULL : memory;
}

/* The caller holds the lock. A thread continues the row of one that has ended, and of itself. */
static row *take_row(const kolo_timeline_place *place)
{
    char name[sizeof timeline.header->row[0].name];
    kolo_timeline_header *header = timeline.header;
    name_place(place, name, sizeof name);
    for (int i = 0; i < header->rows; i++) {
        row *at = &timeline.rows[i];
        bool free = !at->taken || pthread_equal(at->owner, pthread_self());
        if (free && strcmp(at->named->name, name) == 0) return at;
    }
    row *made = header->rows < KOLO_TIMELINE_ROWS ? &timeline.rows[header->rows] : NULL;
    if (made) made->events = map_row(header->rows);
    if (!made || !made->events) {
        header->unplaced++;
        return NULL;
    }
    made->named = &header->row[header->rows];
    memcpy(made->named->name, name, sizeof name);
    header->rows++;
    return made;
}

/* Finds the row of this thread's place. */
static void find_row(void)
{
    pthread_mutex_lock(&timeline.lock);
    bool on = kolo_timeline_is_on();
    if (on) mine.session = atomic_load(&timeline.session);
    mine.row = on ? take_row(&mine.place) : NULL;
    mine.none = on && !mine.row;
    if (mine.row) {
        mine.row->taken = true;
        mine.row->owner = pthread_self();
        mine.recent[mine.next].place = mine.place;
        mine.recent[mine.next].row = mine.row;
        mine.next = (mine.next + 1) % RECENT;
        pthread_setspecific(timeline.key, &timeline);
    }
    pthread_mutex_unlock(&timeline.lock);
}

/* ---------------------------------------------------------------- places */

static bool is_same(const kolo_timeline_place *one, const kolo_timeline_place *other)
{
    return one->kind == other->kind && one->number == other->number && one->lane == other->lane;
}

static void begin_session(unsigned session)
{
    mine.session = session;
    mine.row = NULL;
    mine.none = false;
    memset(mine.recent, 0, sizeof mine.recent);
}

static row *row_of_this_thread(void)
{
    unsigned session = atomic_load_explicit(&timeline.session, memory_order_relaxed);
    if (!mine.place.kind) mine.place = (kolo_timeline_place){"main", -1, 0, -1};
    if (mine.session != session) begin_session(session);
    if (mine.row || mine.none) return mine.row;
    for (int i = 0; i < RECENT; i++)
        if (mine.recent[i].row && is_same(&mine.recent[i].place, &mine.place)) return mine.row = mine.recent[i].row;
    find_row();
    return mine.row;
}

kolo_timeline_place kolo_timeline_move(kolo_timeline_place place)
{
    if (!mine.place.kind) mine.place = (kolo_timeline_place){"main", -1, 0, -1};
    kolo_timeline_place before = mine.place;
    mine.place = place;
    if (is_same(&before, &place)) return before;
    mine.row = NULL;
    mine.none = false;
    return before;
}

void kolo_timeline_set_step(int64_t step)
{
    mine.place.step = step;
}

/* ---------------------------------------------------------------- events */

static void write_event(row *to, const kolo_timeline_event *event)
{
    uint64_t number = to->named->count;
    to->events[number % KOLO_TIMELINE_EVENTS] = *event;
    __atomic_store_n(&to->named->count, number + 1, __ATOMIC_RELEASE);
}

/* The row is marked before the flag is read, and kolo_timeline_halt() reads the marks after it has cleared the flag: so
 * one of the two sees the other. */
void kolo_timeline_record(int64_t begun, int64_t ended, kolo_timeline_span span, const char *name, int64_t number,
                          int64_t bytes)
{
    kolo_timeline_event event = {
        .begun = begun, .nanoseconds = ended - begun, .bytes = bytes, .number = (int32_t)number, .span = (uint8_t)span};
    row *to = row_of_this_thread();
    if (!to) return;
    event.step = (int32_t)mine.place.step;
    memccpy(event.name, name, 0, sizeof event.name);
    atomic_store(&to->busy, true);
    if (atomic_load(&kolo_timeline_on) && atomic_load(&timeline.session) == mine.session) write_event(to, &event);
    atomic_store(&to->busy, false);
}

/* ---------------------------------------------------------------- recordings */

static kolo_status cannot_write(const char *file, int error)
{
    return kolo_fail(KOLO_IO, "%s: wanted a file that can be written, got: %s", file, strerror(error));
}

static kolo_status map_header(const char *file)
{
    const size_t bytes = sizeof *timeline.header;
    int error = posix_fallocate(timeline.fd, 0, (off_t)bytes);
    void *memory = error ? NULL : mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, timeline.fd, 0);
    if (!error && memory != MAP_FAILED) {
        timeline.header = memory;
        return KOLO_OK;
    }
    if (!error) error = errno;
    kolo_timeline_close();
    unlink(file);
    return cannot_write(file, error);
}

/* A row's count keeps its last value until the file is closed, so it must be halted first. */
kolo_status kolo_timeline_open(const char *file, int rank, int size)
{
    pthread_once(&timeline.once, prepare);
    timeline.fd = open(file, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (timeline.fd < 0) return cannot_write(file, errno);
    KOLO_TRY(map_header(file));
    timeline.header->rank = rank;
    timeline.header->size = size;
    gethostname(timeline.header->host, sizeof timeline.header->host - 1);
    memcpy(timeline.header->magic, KOLO_TIMELINE_MAGIC, sizeof timeline.header->magic);
    return KOLO_OK;
}

void kolo_timeline_go(void)
{
    pthread_mutex_lock(&timeline.lock);
    for (int i = 0; i < KOLO_TIMELINE_ROWS; i++) timeline.rows[i].taken = false;
    atomic_fetch_add(&timeline.session, 1);
    atomic_store(&kolo_timeline_on, true);
    pthread_mutex_unlock(&timeline.lock);
}

void kolo_timeline_halt(void)
{
    pthread_mutex_lock(&timeline.lock);
    atomic_store(&kolo_timeline_on, false);
    pthread_mutex_unlock(&timeline.lock);
    for (int i = 0; i < KOLO_TIMELINE_ROWS; i++)
        while (atomic_load(&timeline.rows[i].busy)) sched_yield();
}

kolo_timeline_header *kolo_timeline_file(void)
{
    return timeline.header;
}

int kolo_timeline_descriptor(void)
{
    return timeline.fd;
}

void kolo_timeline_close(void)
{
    const size_t bytes = KOLO_TIMELINE_EVENTS * sizeof(kolo_timeline_event);
    for (int i = 0; i < KOLO_TIMELINE_ROWS; i++) {
        if (timeline.rows[i].events) munmap(timeline.rows[i].events, bytes);
        timeline.rows[i].events = NULL;
    }
    if (timeline.header) munmap(timeline.header, sizeof *timeline.header);
    if (timeline.fd >= 0) close(timeline.fd);
    timeline.header = NULL;
    timeline.fd = -1;
}
