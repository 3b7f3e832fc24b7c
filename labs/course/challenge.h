/* Lesson 8: what a program that takes part in the challenge includes. The harness (lesson_8_harness.h) compiles the
 * program with this folder in the include path, starts it on eight ranks, and scores the model that challenge_save()
 * has written when the time is up.
 *
 * A program may leave all of this aside, as long as rank 0 writes run/challenge.safetensors with kolo_model_save(). */
#ifndef COURSE_CHALLENGE_H
#define COURSE_CHALLENGE_H

#include <kolo.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define CHALLENGE_FILE "run/challenge.safetensors"
#define CHALLENGE_LOG  "run/challenge.log"

/* A number of the harness's in the environment; `none` where the program runs without the harness. */
static inline double challenge_number(const char *name, double none)
{
    const char *text = getenv(name);
    return text ? atof(text) : none;
}

static inline double challenge_clock(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Seconds since the harness started the job; the clock runs on while kolorun starts the ranks. */
static inline double challenge_seconds(void)
{
    static double started;
    if (started == 0) started = challenge_number("CHALLENGE_START", challenge_clock());
    return challenge_clock() - started;
}

/* The seconds that the job has: 60. The quick form has fewer. */
static inline double challenge_limit(void)
{
    return challenge_number("CHALLENGE_SECONDS", 60);
}

/* The share of the time that has passed, from 0 to 1, by rank 0's clock: the same number on all ranks, which must all
 * call it. The clocks of two ranks are never read at the same instant, and a learning rate that depends on them would
 * differ between the ranks. */
static inline double challenge_used(void)
{
    double used = fmin(1, challenge_seconds() / challenge_limit());
    kolo_broadcast(&used, 1, 0);
    return used;
}

/* MNIST's 60,000 training images; fewer in the quick form. */
static inline kolo_data *challenge_images(void)
{
    kolo_data *all = kolo_mnist(KOLO_TRAIN);
    int most = (int)challenge_number("CHALLENGE_IMAGES", 0);
    if (!most || kolo_data_get_info(all).samples <= most) return all;
    kolo_data *some = kolo_data_slice(all, 0, most);
    kolo_data_free(&all);
    return some;
}

/* Rank 0 notes when something happened, for the harness's report. */
static inline void challenge_note(const char *what, double value)
{
    FILE *log = kolo_rank() == 0 ? fopen(CHALLENGE_LOG, "a") : NULL;
    if (log) fprintf(log, "%s %.3f\n", what, value);
    if (log) fclose(log);
}

/* .number: 0 the reserve, 1 the longest step so far, 2 when the last step ended, 3 steps so far */
static inline void challenge_begin(kolo_callback *self, const kolo_logs *logs)
{
    (void)logs;
    self->number[2] = challenge_seconds();
    challenge_note("start", self->number[2]);
}

static inline void challenge_after_step(kolo_callback *self, int batch, const kolo_logs *logs)
{
    double now = challenge_seconds();
    (void)batch, (void)logs;
    self->number[1] = fmax(self->number[1], now - self->number[2]);
    self->number[2] = now;
    self->number[3]++;
    if (now + 2 * self->number[1] + self->number[0] > challenge_limit()) kolo_stop_training(self->model);
}

static inline void challenge_end(kolo_callback *self, const kolo_logs *logs)
{
    (void)logs;
    challenge_note("trained", challenge_seconds());
    challenge_note("updates", self->number[3]);
}

/* A callback that ends the fit in time: ranks agree on a stop one step late, so it leaves room for two more steps, and
 * `reserve` seconds to save. */
static inline kolo_callback challenge_time_limit(double reserve)
{
    return (kolo_callback){.name = "challenge_time_limit",
                           .on_train_begin = challenge_begin,
                           .on_train_batch_end = challenge_after_step,
                           .on_train_end = challenge_end,
                           .number = {reserve}};
}

/* Rank 0 writes the model, layers and weights, for the harness. A file that is there is replaced as a whole. */
static inline void challenge_save(const kolo_model *model)
{
    if (kolo_rank() == 0 && kolo_model_save(model, CHALLENGE_FILE) == KOLO_OK)
        challenge_note("saved", challenge_seconds());
}

#endif
