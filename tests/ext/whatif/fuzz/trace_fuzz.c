/* Any text as a timeline: refused in a sentence, or a recording whose replays are numbers. */
#define _GNU_SOURCE
#include "whatif/what_if.h"
#include "../../saving/fuzz/memory.h"

#include <math.h>

static void ask(kolo_replay *replay)
{
    static const kolo_what_if_args args = {.memory = 1, .noise_scale = 100};
    const kolo_recording *recording = &replay->recording;
    expect(recording->steps > 0 && recording->count > 0 && recording->samples > 0, "a recording has steps");
    expect(recording->cores > 0 && recording->threads > 0 && recording->ranks > 0, "a recording has a host");
    replay->args = &args;
    replay->cores = recording->cores;
    replay->batch = 2.0 * recording->samples;
    expect(kolo_replay_links_open(&args, recording, 1, 8, &replay->links) == KOLO_OK, "memory is given");
    for (int devices = 1; devices <= 8; devices *= 2) {
        kolo_answer answer;
        expect(kolo_replay_answer(replay, devices, &answer) == KOLO_OK, "an answer is found");
        expect(isfinite(answer.seconds) && answer.seconds > 0, "a step takes time");
        expect(answer.exposed >= 0 && answer.waiting >= 0 && answer.communication >= 0, "no time is below 0");
        expect(answer.more_steps > 0 && answer.more_steps <= 1, "more devices need no more steps");
    }
    kolo_replay_links_close(&replay->links);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    kolo_replay replay = {0};
    int fd = -1;
    kolo_status status = kolo_recording_read(file_of(bytes, size, &fd), &replay.recording);
    kolo_failure failure = kolo_failure_take();
    expect((status == KOLO_OK) == (failure.code == KOLO_OK), "a failure has its sentence");
    close(fd);
    if (status == KOLO_OK) ask(&replay);
    kolo_recording_close(&replay.recording);
    return 0;
}
