/* News that rank 0 tells the workers of other ranks. They stay until everybody has heard them who will. */
#ifndef KOLO_REPLICA_CENTER_NEWS_H
#define KOLO_REPLICA_CENTER_NEWS_H

#include "core/error.h"

typedef struct kolo_news kolo_news;

kolo_status kolo_news_open(int listeners, kolo_news **news);
void kolo_news_close(kolo_news **news); /* takes NULL */

kolo_status kolo_news_tell(kolo_news *news, int64_t number, const void *data, size_t bytes);
/* Those that wait fail until the next news. */
void kolo_news_fail(kolo_news *news);

/* Waits for the news with this number, at most so many seconds (0: no limit). *data is valid until kolo_news_heard().
 * Returns false after a failure; with *data NULL it is to be called again. */
bool kolo_news_wait(kolo_news *news, int64_t number, double seconds, const void **data, size_t *bytes);
/* The listener has heard the news up to this number; it will not listen any more. */
void kolo_news_heard(kolo_news *news, int listener, int64_t number);
void kolo_news_leave(kolo_news *news, int listener);
/* Waits until all listeners that are left have heard all news, or the news have failed. Returns false if that has not
 * happened for so many seconds (0: no limit). */
bool kolo_news_wait_until_heard(kolo_news *news, double seconds);

#endif
