/* Trying sizes of buckets while a model trains: see autotune.h. */
#include "replica/autotune.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/file.h"
#include "core/hash.h"
#include "core/median.h"
#include "replica/overlap.h"
#include "runtime/runtime.h"
#include "show/show.h"

enum { WARMUP = KOLO_AUTOTUNE_WARMUP, TURN = 1 + KOLO_AUTOTUNE_MEASURED, CANDIDATES = KOLO_AUTOTUNE_CANDIDATES };

typedef struct candidate {
    int64_t bytes; /* or KOLO_NONE */
    int buckets;   /* 0: one sum after the backward pass */
    uint64_t digest;
    int measured;
    double seconds[KOLO_AUTOTUNE_ROUNDS * KOLO_AUTOTUNE_MEASURED];
} candidate;

struct kolo_autotune {
    candidate candidates[CANDIDATES];
    int count;
    int microbatch; /* of the engines for which the candidates were made */
    int updates;    /* so far */
    int chosen;     /* -1: none yet */
    int number;     /* of this tuning among those of the process, from 1 */
    bool kept;      /* its rows are in ended_rows */
    char obstacle[120]; /* why there is nothing to tune; "": there is */
    bool told; /* what there was to say was said */
};

static bool is_tuning(const kolo_autotune *tuning)
{
    return tuning && tuning->chosen < 0 && !*tuning->obstacle;
}

static int updates_wanted(const kolo_autotune *tuning)
{
    return WARMUP + KOLO_AUTOTUNE_ROUNDS * tuning->count * TURN;
}

/* The candidate of the next step: the first one during the warm-up. */
static candidate *candidate_now(kolo_autotune *tuning)
{
    int at = tuning->updates - WARMUP;
    return &tuning->candidates[at < 0 ? 0 : at / TURN % tuning->count];
}

kolo_status kolo_autotune_read(bool *wanted)
{
    const char *text = getenv("KOLO_AUTOTUNE");
    *wanted = text && strcmp(text, "1") == 0;
    if (!text || !*text || *wanted || strcmp(text, "0") == 0) return KOLO_OK;
    return kolo_fail(KOLO_INVALID, "KOLO_AUTOTUNE: wanted 0 or 1, got \"%.40s\"", text);
}

/* ---------------------------------------------------------------- the log */

/* The rows of the tunings of this process that have ended. A process trains one distributed model at a time. */
static char *ended_rows;
static int tunings; /* of this process, so far */

static const char *log_path(const kolo_trainer *trainer)
{
    const char *path = getenv("KOLO_AUTOTUNE_LOG");
    return path && *path && kolo_model_ranks(trainer->model)->rank == 0 ? path : NULL;
}

/* The lower one of the two in the middle; 0 if nothing was measured. */
static double median_of(const candidate *c)
{
    double sorted[KOLO_AUTOTUNE_ROUNDS * KOLO_AUTOTUNE_MEASURED];
    memcpy(sorted, c->seconds, sizeof sorted);
    kolo_sort_numbers(sorted, (size_t)c->measured);
    return c->measured > 0 ? sorted[(c->measured - 1) / 2] : 0;
}

static const char *bytes_text(const candidate *c)
{
    return c->bytes == KOLO_NONE ? "KOLO_NONE" : kolo_phrase("%lld", (long long)c->bytes);
}

static void write_rows(FILE *out, const kolo_autotune *tuning)
{
    for (int i = 0; i < tuning->count && !*tuning->obstacle; i++) {
        const candidate *c = &tuning->candidates[i];
        fprintf(out, "%d,%s,%d,%d,%.9f,%d\n", tuning->number, bytes_text(c), c->buckets, c->measured, median_of(c),
                i == tuning->chosen);
    }
}

/* A text of the head, the ended tunings and this one. The caller frees it; NULL if memory is out. */
static char *make_text(const char *head, const kolo_autotune *tuning, size_t *size)
{
    char *text = NULL;
    FILE *out = open_memstream(&text, size);
    if (!out) return NULL;
    fprintf(out, "%s%s", head, ended_rows ? ended_rows : "");
    if (!tuning->kept) write_rows(out, tuning);
    if (fclose(out) == 0) return text;
    free(text);
    return NULL;
}

/* Training goes on if the log cannot be written any more. */
static void write_log(const kolo_trainer *trainer)
{
    const char *path = log_path(trainer);
    size_t size = 0;
    if (!path) return;
    char *text = make_text("tuning,bucket_bytes,buckets,steps,seconds_per_step,chosen\n", trainer->autotune, &size);
    if (text && kolo_file_write(path, text, size) != KOLO_OK) {
        kolo_failure failure = kolo_failure_take();
        kolo_warn("KOLO_AUTOTUNE_LOG: %s", failure.text);
    }
    free(text);
}

static void keep_rows(kolo_autotune *tuning)
{
    size_t size = 0;
    char *rows = tuning->kept ? NULL : make_text("", tuning, &size);
    if (!rows) return;
    free(ended_rows);
    ended_rows = rows;
    tuning->kept = true;
}

/* ---------------------------------------------------------------- what rank 0 says */

static void say(const kolo_trainer *trainer, const char *text)
{
    if (trainer->model->progress) kolo_progress_break(trainer->model->progress);
    kolo_warn("autotune: %s", text);
}

/* "chose .bucket_bytes = 1048576 (3 buckets), 0.0123 s a step (median of 10); KOLO_NONE 0.0131 s, 262144 0.0129 s" */
static void say_choice(const kolo_trainer *trainer)
{
    const kolo_autotune *tuning = trainer->autotune;
    const candidate *best = &tuning->candidates[tuning->chosen];
    const char *how = best->buckets ? kolo_phrase("%d buckets", best->buckets) : "one sum after the backward pass";
    char text[600];
    size_t length = (size_t)snprintf(text, sizeof text, "chose .bucket_bytes = %s (%s), %.3g s a step (median of %d)",
                                     bytes_text(best), how, median_of(best), best->measured);
    for (int i = 0, others = 0; i < tuning->count; i++) {
        const candidate *c = &tuning->candidates[i];
        if (c == best) continue;
        length += (size_t)snprintf(text + length, sizeof text - length, "%s %s %.3g s", others++ ? "," : ";",
                                   bytes_text(c), median_of(c));
    }
    say(trainer, text);
}

static void say_obstacle(kolo_trainer *trainer)
{
    kolo_autotune *tuning = trainer->autotune;
    if (!tuning->told) say(trainer, kolo_phrase("nothing to tune: %s", tuning->obstacle));
    tuning->told = true;
}

/* ---------------------------------------------------------------- opening */

static void set_obstacle(kolo_autotune *tuning, const char *text)
{
    snprintf(tuning->obstacle, sizeof tuning->obstacle, "%s", text);
}

/* Lists a size unless an earlier candidate cuts the same buckets. */
static kolo_status list_candidate(kolo_trainer *trainer, int64_t bytes)
{
    kolo_autotune *tuning = trainer->autotune;
    KOLO_TRY(kolo_overlap_reopen(trainer, bytes));
    uint64_t digest = kolo_overlap_digest(trainer);
    for (int i = 0; i < tuning->count; i++)
        if (tuning->candidates[i].digest == digest) return KOLO_OK;
    tuning->candidates[tuning->count++] = (candidate){.bytes = trainer->overlap ? bytes : KOLO_NONE, .digest = digest};
    return KOLO_OK;
}

static kolo_status list_candidates(kolo_trainer *trainer)
{
    static const int64_t sizes[CANDIDATES] = {KOLO_NONE, 1 << 18, KOLO_BUCKET_BYTES, 1 << 22, 1 << 24};
    kolo_autotune *tuning = trainer->autotune;
    KOLO_TRY(list_candidate(trainer, kolo_ranks_share_cores() ? KOLO_NONE : KOLO_BUCKET_BYTES));
    for (int i = 0; i < CANDIDATES; i++) KOLO_TRY(list_candidate(trainer, sizes[i]));
    if (tuning->count == 1) set_obstacle(tuning, "the model is too small for several buckets");
    return kolo_overlap_reopen(trainer, 0);
}

/* Why this rank has nothing to tune; NULL: it has. */
static const char *find_obstacle(const kolo_trainer *trainer)
{
    const kolo_model *model = trainer->model;
    const char *obstacle = kolo_overlap_obstacle(trainer);
    if (obstacle) return obstacle;
    if (model->backend->streams->steps_ahead > 0) return "on GPUs the buckets are fixed by the captured graphs";
    return model->settings.optimizer.bucket_bytes ? "the program has chosen .bucket_bytes" : NULL;
}

static kolo_status check_log(const kolo_trainer *trainer)
{
    const char *path = log_path(trainer);
    return path ? kolo_check_writable(path) : KOLO_OK;
}

kolo_status kolo_autotune_open(kolo_trainer *trainer)
{
    kolo_autotune *tuning = trainer->autotune;
    bool wanted;
    KOLO_TRY(kolo_autotune_read(&wanted));
    if (!wanted || (tuning && (!is_tuning(tuning) || tuning->microbatch == trainer->microbatch))) return KOLO_OK;
    KOLO_TRY(check_log(trainer));
    kolo_autotune_close(trainer);
    trainer->autotune = tuning = calloc(1, sizeof *tuning);
    if (!tuning) return kolo_fail_memory(sizeof *tuning, "the sizes of buckets to try");
    tuning->microbatch = trainer->microbatch;
    tuning->chosen = -1;
    const char *obstacle = find_obstacle(trainer);
    if (!obstacle) return list_candidates(trainer);
    set_obstacle(tuning, obstacle);
    return KOLO_OK;
}

/* A hash of what this rank is about to try; 0: nothing. */
static uint64_t digest_of(const kolo_autotune *tuning)
{
    if (*tuning->obstacle) return 0;
    uint64_t hash = kolo_hash_add(KOLO_HASH_START, &tuning->updates, sizeof tuning->updates);
    hash = kolo_hash_add(hash, &tuning->chosen, sizeof tuning->chosen);
    for (int i = 0; i < tuning->count; i++) {
        hash = kolo_hash_add(hash, &tuning->candidates[i].bytes, sizeof tuning->candidates[i].bytes);
        hash = kolo_hash_add(hash, &tuning->candidates[i].digest, sizeof tuning->candidates[i].digest);
    }
    return hash | 1;
}

static kolo_status compare_candidates(kolo_trainer *trainer, kolo_comm *ranks)
{
    uint64_t mine = digest_of(trainer->autotune);
    bool same;
    KOLO_TRY(kolo_all_have(ranks, mine, &same));
    if (same || mine == 0) return KOLO_OK;
    set_obstacle(trainer->autotune, "another rank cannot, or cuts other buckets");
    return kolo_overlap_reopen(trainer, 0);
}

kolo_status kolo_autotune_agree(kolo_trainer *trainer)
{
    kolo_autotune *tuning = trainer->autotune;
    kolo_comm *ranks = kolo_model_ranks(trainer->model);
    if (!tuning) return KOLO_OK;
    if (ranks->size > 1 && !trainer->workers) KOLO_TRY(compare_candidates(trainer, ranks));
    if (*tuning->obstacle) say_obstacle(trainer);
    else if (tuning->number == 0) tuning->number = ++tunings;
    if (tuning->updates == 0) write_log(trainer);
    return is_tuning(tuning) ? kolo_overlap_reopen(trainer, candidate_now(tuning)->bytes) : KOLO_OK;
}

/* ---------------------------------------------------------------- the steps */

static kolo_status change_to(kolo_trainer *trainer, const candidate *to)
{
    KOLO_TRY(kolo_overlap_reopen(trainer, to->bytes));
    return kolo_overlap_agree(trainer);
}

/* Rank 0's clock decides. */
static kolo_status choose(kolo_trainer *trainer)
{
    kolo_autotune *tuning = trainer->autotune;
    kolo_comm *ranks = kolo_model_ranks(trainer->model);
    int best = 0;
    for (int i = 1; i < tuning->count; i++)
        if (median_of(&tuning->candidates[i]) < median_of(&tuning->candidates[best])) best = i;
    KOLO_TRY(ranks->kind->broadcast(ranks, &best, sizeof best, 0));
    tuning->chosen = best;
    KOLO_TRY(change_to(trainer, &tuning->candidates[best]));
    say_choice(trainer);
    keep_rows(tuning);
    write_log(trainer);
    return KOLO_OK;
}

kolo_status kolo_autotune_step(kolo_trainer *trainer, double seconds)
{
    kolo_autotune *tuning = trainer->autotune;
    if (!is_tuning(tuning) || !trainer->replicas[0].complete) return KOLO_OK;
    candidate *now = candidate_now(tuning);
    int at = tuning->updates++ - WARMUP;
    if (at < 0) return KOLO_OK;
    if (at % TURN > 0) now->seconds[now->measured++] = seconds;
    now->buckets = kolo_overlap_buckets(trainer);
    if ((at + 1) % TURN > 0) return KOLO_OK;
    return tuning->updates < updates_wanted(tuning) ? change_to(trainer, candidate_now(tuning)) : choose(trainer);
}

void kolo_autotune_end_fit(kolo_trainer *trainer)
{
    kolo_autotune *tuning = trainer->autotune;
    if (!is_tuning(tuning)) return;
    if (!tuning->told)
        say(trainer, kolo_phrase("nothing chosen yet, after %d of %d updates; a further kolo_fit() goes on",
                                 tuning->updates, updates_wanted(tuning)));
    tuning->told = true;
    write_log(trainer);
}

void kolo_autotune_close(kolo_trainer *trainer)
{
    kolo_autotune *closed = trainer->autotune;
    trainer->autotune = NULL;
    if (closed && closed->number > 0) keep_rows(closed);
    free(closed);
}
