/* See center_news.h. */
#define _GNU_SOURCE /* pthread_cond_clockwait */
#include "replica/center_news.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct item {
    int64_t number;
    void *data;
    size_t bytes;
    struct item *next;
} item;

struct kolo_news {
    pthread_mutex_t lock;
    pthread_cond_t changed; /* news, or a listener has heard them, or is gone */
    item *first;
    int64_t told; /* the number of the newest news */
    bool failed;
    int listeners;
    int64_t *heard; /* [listeners], the number of the news that it heard last; INT64_MAX: it is gone */
};

kolo_status kolo_news_open(int listeners, kolo_news **news)
{
    kolo_news *made = *news = calloc(1, sizeof *made);
    if (!made) return kolo_fail_memory(sizeof *made, "news for other ranks");
    pthread_mutex_init(&made->lock, NULL);
    pthread_cond_init(&made->changed, NULL);
    made->listeners = listeners;
    made->heard = calloc((size_t)listeners + 1, sizeof *made->heard);
    if (made->heard) return KOLO_OK;
    kolo_news_close(news);
    return kolo_fail_memory((size_t)listeners * sizeof *made->heard, "news for other ranks");
}

static void free_item(item *old)
{
    free(old->data);
    free(old);
}

void kolo_news_close(kolo_news **news)
{
    kolo_news *closed = *news;
    *news = NULL;
    if (!closed) return;
    for (item *at = closed->first, *next; at; at = next) {
        next = at->next;
        free_item(at);
    }
    pthread_cond_destroy(&closed->changed);
    pthread_mutex_destroy(&closed->lock);
    free(closed->heard);
    free(closed);
}

kolo_status kolo_news_tell(kolo_news *news, int64_t number, const void *data, size_t bytes)
{
    item *added = calloc(1, sizeof *added);
    void *copy = malloc(bytes);
    if (!added || !copy) {
        free(added);
        free(copy);
        return kolo_fail_memory(bytes, "news for other ranks");
    }
    memcpy(copy, data, bytes);
    pthread_mutex_lock(&news->lock);
    *added = (item){number, copy, bytes, news->first};
    news->first = added;
    news->told = number;
    news->failed = false;
    pthread_cond_broadcast(&news->changed);
    pthread_mutex_unlock(&news->lock);
    return KOLO_OK;
}

void kolo_news_fail(kolo_news *news)
{
    pthread_mutex_lock(&news->lock);
    news->failed = true;
    pthread_cond_broadcast(&news->changed);
    pthread_mutex_unlock(&news->lock);
}

/* ---------------------------------------------------------------- with the lock held */

static bool all_heard(const kolo_news *news, int64_t number)
{
    for (int i = 0; i < news->listeners; i++)
        if (news->heard[i] < number) return false;
    return true;
}

/* Frees news that all have heard. */
static void forget(kolo_news *news)
{
    for (item **at = &news->first; *at;) {
        item *old = *at;
        if (!all_heard(news, old->number)) {
            at = &old->next;
            continue;
        }
        *at = old->next;
        free_item(old);
    }
    pthread_cond_broadcast(&news->changed);
}

static const item *find(const kolo_news *news, int64_t number)
{
    const item *found = news->first;
    while (found && found->number != number) found = found->next;
    return found;
}

static bool is_told(const kolo_news *news, int64_t number)
{
    return news->told >= number;
}

/* Waits until one of the two conditions above is true, or the news have failed. Returns false if more than `seconds`
 * have passed before (0: no limit). */
static bool wait_until(kolo_news *news, bool (*condition)(const kolo_news *news, int64_t number), int64_t number,
                       double seconds)
{
    struct timespec until;
    int late = 0;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += 1 + (time_t)seconds;
    while (!late && !news->failed && !condition(news, number))
        late = seconds > 0 ? pthread_cond_clockwait(&news->changed, &news->lock, CLOCK_MONOTONIC, &until)
                           : pthread_cond_wait(&news->changed, &news->lock);
    return !late;
}

/* ---------------------------------------------------------------- listeners */

bool kolo_news_wait(kolo_news *news, int64_t number, double seconds, const void **data, size_t *bytes)
{
    pthread_mutex_lock(&news->lock);
    wait_until(news, is_told, number, seconds);
    const item *found = find(news, number);
    bool goes_on = found || !news->failed;
    *data = found ? found->data : NULL;
    *bytes = found ? found->bytes : 0;
    pthread_mutex_unlock(&news->lock);
    return goes_on;
}

void kolo_news_heard(kolo_news *news, int listener, int64_t number)
{
    pthread_mutex_lock(&news->lock);
    news->heard[listener] = number;
    forget(news);
    pthread_mutex_unlock(&news->lock);
}

void kolo_news_leave(kolo_news *news, int listener)
{
    kolo_news_heard(news, listener, INT64_MAX);
}

bool kolo_news_wait_until_heard(kolo_news *news, double seconds)
{
    pthread_mutex_lock(&news->lock);
    bool heard = wait_until(news, all_heard, news->told, seconds);
    pthread_mutex_unlock(&news->lock);
    return heard;
}
