/* kolo_what_if: options, recordings and answers. See what_if.h. */
#include "whatif/what_if.h"

#include <string.h>

#include "core/utf8.h"
#include "core/written.h"

/* ---------------------------------------------------------------- options */

static kolo_status check_positive(const kolo_what_if_args *args, const char *name, double value, double least)
{
    bool written = kolo_written(args->_, name);
    if ((value == 0 && !written) || (value >= least && value > 0 && value <= 1e15)) return KOLO_OK;
    if (least > 0) return kolo_fail(KOLO_INVALID, ".%s: wanted %g to 1e15, got %g", name, least, value);
    return kolo_fail(KOLO_INVALID, ".%s: wanted more than 0, at most 1e15, got %g", name, value);
}

static kolo_status check_numbers(const kolo_what_if_args *args)
{
    KOLO_TRY(check_positive(args, "batch", args->batch, 1));
    KOLO_TRY(check_positive(args, "bucket_bytes", args->bucket_bytes, 1));
    KOLO_TRY(check_positive(args, "memory", args->memory, 0));
    KOLO_TRY(check_positive(args, "compute", args->compute, 0));
    KOLO_TRY(check_positive(args, "cores", args->cores, 1));
    KOLO_TRY(check_positive(args, "contention", args->contention, 0));
    KOLO_TRY(check_positive(args, "noise_scale", args->noise_scale, 0));
    KOLO_TRY(check_positive(args, "steps", args->steps, 0));
    if (args->overlap != 0 && args->overlap != 1 && args->overlap != KOLO_NONE)
        return kolo_fail(KOLO_INVALID, ".overlap: wanted 1 or KOLO_NONE, got %d", args->overlap);
    if (args->compression < KOLO_COMPRESSION_NONE || args->compression > KOLO_COMPRESSION_BF16)
        return kolo_fail(KOLO_INVALID, ".compression: wanted a kolo_compression, got %d", (int)args->compression);
    if (args->steps > 0 && args->noise_scale == 0)
        return kolo_fail(KOLO_INVALID, ".steps: wanted a .noise_scale with it, got none");
    if (!args->file || kolo_ends_with(args->file, ".svg") || kolo_ends_with(args->file, ".png")) return KOLO_OK;
    return kolo_fail(KOLO_INVALID, ".file: wanted one that ends in .svg or .png, got \"%s\"", args->file);
}

/* Options of a machine need one; those of a host have no meaning with one. */
static kolo_status check_machine(const kolo_what_if_args *args)
{
    bool machine = args->model || args->machine;
    const char *lonely = args->network         ? ".network"
                         : args->link          ? ".link"
                         : args->hosts         ? ".hosts"
                         : args->algorithm > 0 ? ".algorithm"
                                               : NULL;
    const char *host = args->memory > 0 ? ".memory" : args->contention > 0 ? ".contention" : NULL;
    if (args->model && args->machine) return kolo_fail(KOLO_INVALID, "wanted .model or .machine, got both");
    if (args->model && lonely && strcmp(lonely, ".algorithm") != 0)
        return kolo_fail(KOLO_INVALID, "%s: wanted it with .machine, got it with .model, which is open", lonely);
    if (!machine && lonely) return kolo_fail(KOLO_INVALID, "%s: wanted a .machine with it, got none", lonely);
    if (!machine || !host) return KOLO_OK;
    return kolo_fail(KOLO_INVALID, "%s: wanted no .machine with it, since it is of ranks that share a host, got one",
                     host);
}

static kolo_status read_devices(const kolo_what_if_args *args, int devices[KOLO_WHAT_IF_MAX], int *count, int *most)
{
    static const int usual[KOLO_WHAT_IF_MAX] = {1, 2, 4, 8};
    bool written = kolo_written(args->_, "devices");
    memcpy(devices, written || args->devices[0] ? args->devices : usual, sizeof usual);
    for (*count = *most = 0; *count < KOLO_WHAT_IF_MAX && devices[*count] != 0; ++*count) {
        if (devices[*count] < 1 || devices[*count] > 1000000)
            return kolo_fail(KOLO_INVALID, ".devices: wanted 1 to 1000000, got %d", devices[*count]);
        if (devices[*count] > *most) *most = devices[*count];
    }
    return *count > 0 ? KOLO_OK : kolo_fail(KOLO_INVALID, ".devices: wanted at least 1, got 0");
}

/* ---------------------------------------------------------------- recordings */

static kolo_status read_other(const char *path, kolo_replay *replay)
{
    const kolo_recording *one = &replay->recording, *other = &replay->other;
    if (!path) return KOLO_OK;
    KOLO_TRY(kolo_recording_read(path, &replay->other));
    double bytes = kolo_recording_bytes(one), others = kolo_recording_bytes(other);
    if (bytes != others)
        return kolo_fail(KOLO_INVALID,
                         ".other_trace: wanted the same model, with %.0f bytes of gradients, got %.0f bytes", bytes,
                         others);
    if (one->ranks != other->ranks || one->threads != other->threads)
        return kolo_fail(KOLO_INVALID, ".other_trace: wanted %d ranks of %d threads, got %d of %d", one->ranks,
                         one->threads, other->ranks, other->threads);
    if (one->samples != other->samples) return KOLO_OK;
    return kolo_fail(KOLO_INVALID, ".other_trace: wanted another batch than %d samples, got the same", one->samples);
}

static kolo_status open_replay(const kolo_what_if_args *args, int most, kolo_replay *replay)
{
    KOLO_TRY(kolo_recording_read(args->trace, &replay->recording));
    KOLO_TRY(read_other(args->other_trace, replay));
    replay->cores = args->cores ? args->cores : replay->recording.cores;
    replay->batch = args->batch ? args->batch : replay->recording.samples;
    KOLO_TRY(kolo_replay_check(replay));
    return kolo_replay_links_open(args, &replay->recording, kolo_replay_share(replay, replay->recording.ranks), most,
                                  &replay->links);
}

/* ---------------------------------------------------------------- the call */

static kolo_status answer_all(const kolo_replay *replay, const int *devices, int count, kolo_answers *answers)
{
    for (int i = 0; i < count; i++) KOLO_TRY(kolo_replay_answer(replay, devices[i], &answers->answer[i]));
    answers->count = count;
    answers->recorded = kolo_recording_quantile(&replay->recording, 0.5) + replay->recording.update;
    answers->recorded_batch = replay->recording.samples;
    memcpy(answers->links, replay->links.name, sizeof answers->links);
    return KOLO_OK;
}

static kolo_status what_if(const kolo_what_if_args *args, kolo_answers *answers)
{
    kolo_replay replay = {.args = args};
    int devices[KOLO_WHAT_IF_MAX], count, most;
    kolo_status status;
    KOLO_TRY(check_numbers(args));
    KOLO_TRY(check_machine(args));
    KOLO_TRY(read_devices(args, devices, &count, &most));
    KOLO_GO(done, open_replay(args, most, &replay));
    KOLO_GO(done, answer_all(&replay, devices, count, answers));
    if (!args->quiet && kolo_rank() == 0) status = kolo_answers_show(args, &replay, answers);
done:
    kolo_replay_links_close(&replay.links);
    kolo_recording_close(&replay.recording);
    kolo_recording_close(&replay.other);
    return status;
}

kolo_answers kolo_what_if_at(const kolo_what_if_args *args, kolo_here here)
{
    kolo_scope scope = kolo_enter("kolo_what_if", here);
    kolo_answers answers = {0};
    if (kolo_leave(scope, what_if(args, &answers)) != KOLO_OK) answers = (kolo_answers){0};
    return answers;
}
