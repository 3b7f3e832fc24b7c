/* Messages in the checks of exercises on ranks: all ranks meet after the learner's code, and take the messages that
 * nobody received. For lessons 5 and 6. */
#ifndef COURSE_MESSAGES_H
#define COURSE_MESSAGES_H

#include "course.h"

#include <unistd.h>

enum { MESSAGES_END = 98 /* a tag */, MESSAGES_MOST = 120 /* seconds that a rank waits for the others' code */ };

/* Takes the messages that nobody received. Returns their number, without those with the tag `own`. All ranks call it:
 * each tells the others that its messages end here, and messages of one rank keep their order. kolo_probe() does not
 * wait, so KOLO_STALL_LIMIT, which ends what a wrong answer waits for in vain, does not end this. */
static inline int messages_drain(int own)
{
    static char bytes[1 << 16];
    int count = 0;
    for (int r = 0; r < kolo_size(); r++)
        if (r != kolo_rank()) kolo_send(bytes, 1, .to = r, .tag = MESSAGES_END);
    for (int r = 0; r < kolo_size(); r++)
        for (int i = 0; r != kolo_rank() && i < 100 * MESSAGES_MOST && !kolo_probe(r, .tag = MESSAGES_END); i++)
            usleep(10000);
    for (int r = 0; r < kolo_size(); r++) {
        kolo_message message = {.tag = r == kolo_rank() ? MESSAGES_END : 0};
        while (message.tag != MESSAGES_END) {
            if (kolo_receive(bytes, sizeof bytes, .from = r, .tag = KOLO_ANY_TAG, .message = &message) != KOLO_OK)
                break;
            count += message.tag != MESSAGES_END && message.tag != own;
        }
    }
    return count;
}

#endif
