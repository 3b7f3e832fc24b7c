/* Lesson 8: the harness of the challenge. It runs the learner's program for sixty seconds on eight ranks, takes the
 * model that the program has saved by then, and measures its accuracy on the whole test set itself. Included by
 * lesson_8.h. */
#ifndef COURSE_LESSON_8_HARNESS_H
#define COURSE_LESSON_8_HARNESS_H

#include "challenge.h"
#include "course.h"

#include <libgen.h>
#include <signal.h>
#include <spawn.h>
#include <unistd.h>

#define LESSON_8_ATTEMPTS 200
#define LESSON_8_PROGRAM  "run/challenge"

extern char **environ;

/* An attempt. Seconds are since the job was started; NaN: that did not happen. */
typedef struct challenge_attempt {
    char what[80]; /* what the learner has changed */
    double accuracy, loss, error; /* on the test set; error: one standard error of the accuracy */
    double start, trained, saved; /* as the program noted them */
    double updates;
} challenge_attempt;

/* ------------------------------------------------------------------------------------------ the rules */

/* A rule that the program's text breaks, or NULL. Only the plain ways are seen; the rest is on the learner's honour. */
static inline const char *challenge_broken_rule(const char *text)
{
    if (strstr(text, "KOLO_TEST")) return "it reads KOLO_TEST. The test images are for the score alone.";
    if (strstr(text, "kolo_load") || strstr(text, "kolo_checkpoint_load") || strstr(text, "kolo_backup_and_restore"))
        return "it loads weights. Every attempt begins with new ones.";
    if (!strstr(text, "kolo_distributed") && !strstr(text, "kolo_multi_worker_mirrored"))
        return "nothing joins its ranks: eight ranks would train eight networks, and one would be saved. Use "
               "kolo_distributed(optimizer).";
    return NULL;
}

/* The whole file, which the caller frees; NULL if it cannot be read. */
static inline char *challenge_read(const char *path)
{
    FILE *file = fopen(path, "r");
    char *text = file ? calloc(1, 1 << 16) : NULL;
    if (text && fread(text, 1, (1 << 16) - 1, file) == 0) text[0] = '\0';
    if (file) fclose(file);
    return text;
}

static inline bool challenge_may_run(const char *source)
{
    char *text = challenge_read(source);
    const char *broken = text ? challenge_broken_rule(text) : NULL;
    if (!text) printf("There is no program %s yet. Run the cell that writes it.\n", source);
    if (broken) printf("%s breaks a rule: %s\n", source, broken);
    free(text);
    return text && !broken;
}

static inline bool challenge_compile(const char *source)
{
    char here[] = __FILE__;
    return course_run("cc -O2 -I'%s' -o " LESSON_8_PROGRAM " '%s' $(pkg-config --cflags --libs kolo) -lm",
                      dirname(here), source) == 0;
}

/* ------------------------------------------------------------------------------------------ the sixty seconds */

/* Starts the compiled program in a process group of its own, with the usual signals. 0, after a sentence: it cannot. */
static inline pid_t challenge_start(int ranks)
{
    char count[16], start[64];
    char *words[] = {"kolorun", "-np", count, "--stop-timeout", "2", LESSON_8_PROGRAM, NULL};
    posix_spawnattr_t how;
    sigset_t none;
    pid_t job = 0;
    snprintf(count, sizeof count, "%d", ranks);
    snprintf(start, sizeof start, "%.6f", challenge_clock());
    setenv("CHALLENGE_START", start, 1);
    fflush(stdout);
    sigemptyset(&none);
    posix_spawnattr_init(&how);
    posix_spawnattr_setpgroup(&how, 0);
    posix_spawnattr_setsigmask(&how, &none);
    posix_spawnattr_setflags(&how, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
    int failed = posix_spawnp(&job, words[0], NULL, &how, words, environ);
    posix_spawnattr_destroy(&how);
    if (failed) printf("kolorun cannot be started: %s.\n", strerror(failed));
    return failed ? 0 : job;
}

/* Waits until the job has ended, `until` seconds have passed since `from`, or the learner interrupts the cell. True if
 * the job has ended, with its `status`. */
static inline bool challenge_wait(pid_t job, double from, double until, int *status)
{
    sigset_t asked;
    while (challenge_clock() - from < until && !(sigpending(&asked) == 0 && sigismember(&asked, SIGINT) == 1)) {
        if (waitpid(job, status, WNOHANG) != 0) return true;
        nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    }
    return false;
}

/* Ends a job that still runs. */
static inline void challenge_stop(pid_t job)
{
    int status = 0;
    kill(job, SIGTERM);
    for (int i = 0; i < 150 && waitpid(job, &status, WNOHANG) == 0; i++)
        nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    if (kill(job, 0) == 0) kill(-job, SIGKILL), waitpid(job, &status, 0);
}

/* Runs the compiled program. What it has saved when the time is up becomes `kept`; true if there is such a file. An
 * interrupt of the cell is held back until the job has ended, which would run on for itself otherwise. */
static inline bool challenge_race(int ranks, double limit, const char *kept)
{
    sigset_t interrupt, before;
    unlink(CHALLENGE_FILE), unlink(CHALLENGE_LOG), unlink(kept);
    sigemptyset(&interrupt), sigaddset(&interrupt, SIGINT);
    sigprocmask(SIG_BLOCK, &interrupt, &before);
    double from = challenge_clock();
    int status = 0;
    pid_t job = challenge_start(ranks);
    bool ended = !job || challenge_wait(job, from, limit, &status);
    bool saved = link(CHALLENGE_FILE, kept) == 0; /* before the program may write it again */
    if (!ended && challenge_clock() - from >= limit) printf("The time is up: the harness ends the job.\n");
    if (!ended) challenge_stop(job);
    else if (status) printf("The program failed; its words are above. What it had saved before counts.\n");
    sigprocmask(SIG_SETMASK, &before, NULL);
    return saved;
}

/* What the program noted; NaN: nothing. */
static inline double challenge_noted(const char *what)
{
    char line[100], name[32];
    double value, found = NAN;
    FILE *log = fopen(CHALLENGE_LOG, "r");
    while (log && fgets(line, sizeof line, log))
        if (sscanf(line, "%31s %lf", name, &value) == 2 && !strcmp(name, what)) found = value;
    if (log) fclose(log);
    return found;
}

/* ------------------------------------------------------------------------------------------ the score */

/* Loads the saved model and measures it on the test images. NaN after libkolo's sentence. */
static inline void challenge_score(const char *kept, challenge_attempt *attempt)
{
    kolo_data *all = kolo_mnist(KOLO_TEST), *test = all;
    if (course_quick() && kolo_data_get_info(all).samples > 500) test = kolo_data_slice(all, 0, 500);
    kolo_model *model = kolo_load_model(kept);
    kolo_compile(model, .optimizer = kolo_sgd(), .loss = KOLO_SPARSE_CROSSENTROPY, .metrics = {KOLO_ACCURACY});
    kolo_scores scores = kolo_evaluate(model, test);
    attempt->accuracy = scores.accuracy;
    attempt->loss = scores.loss;
    attempt->error = sqrt(scores.accuracy * (1 - scores.accuracy) / (double)scores.samples);
    kolo_model_free(&model);
    if (test != all) kolo_data_free(&test);
    kolo_data_free(&all);
}

/* ------------------------------------------------------------------------------------------ the table */

/* The quick form's attempts have a table of their own. */
static inline const char *challenge_file(void)
{
    return course_quick() ? "run/attempts-quick.tsv" : "run/attempts.tsv";
}

static inline void challenge_keep(const challenge_attempt *a)
{
    FILE *file = fopen(challenge_file(), "a");
    if (!file) printf("%s cannot be written: the attempt is not kept.\n", challenge_file());
    if (!file) return;
    fprintf(file, "%.5f\t%.5f\t%.5f\t%.2f\t%.2f\t%.2f\t%.0f\t%s\n", a->accuracy, a->loss, a->error, a->start,
            a->trained, a->saved, a->updates, a->what);
    fclose(file);
}

/* Reads the attempts of this folder, also those of earlier sessions; returns their number. */
static inline int challenge_attempts(challenge_attempt attempts[LESSON_8_ATTEMPTS])
{
    char line[300];
    int count = 0;
    FILE *file = fopen(challenge_file(), "r");
    while (file && count < LESSON_8_ATTEMPTS && fgets(line, sizeof line, file)) {
        challenge_attempt *a = &attempts[count];
        count += sscanf(line, "%lf\t%lf\t%lf\t%lf\t%lf\t%lf\t%lf\t%79[^\n]", &a->accuracy, &a->loss, &a->error,
                        &a->start, &a->trained, &a->saved, &a->updates, a->what) == 8;
    }
    if (file) fclose(file);
    return count;
}

static inline int challenge_best(const challenge_attempt *attempts, int count)
{
    int best = -1;
    for (int i = 0; i < count; i++)
        if (!isnan(attempts[i].accuracy) && (best < 0 || attempts[i].accuracy > attempts[best].accuracy)) best = i;
    return best;
}

/* Whether two scores differ by less than two standard errors of their difference. */
static inline bool challenge_within_noise(const challenge_attempt *a, const challenge_attempt *b)
{
    return fabs(a->accuracy - b->accuracy) < 2 * sqrt(a->error * a->error + b->error * b->error);
}

/* "12.3 s", or "-" for what did not happen. */
static inline const char *challenge_time(double seconds, char text[16])
{
    if (isnan(seconds)) return "-";
    snprintf(text, 16, "%.1f s", seconds);
    return text;
}

static inline void challenge_row(int number, const challenge_attempt *a, const char *mark)
{
    char start[16], trained[16], saved[16], score[32] = "nothing saved", updates[16] = "-";
    if (!isnan(a->accuracy)) snprintf(score, sizeof score, "%.2f +- %.2f %%", 100 * a->accuracy, 100 * a->error);
    if (!isnan(a->updates)) snprintf(updates, sizeof updates, "%.0f", a->updates);
    printf("%3d   %-16s  %7s  %7s  %7s  %7s  %s %s\n", number, score, updates, challenge_time(a->start, start),
           challenge_time(a->trained, trained), challenge_time(a->saved, saved), a->what, mark);
}

/* Prints all attempts, and which of them the best one does not surely beat. */
static inline void challenge_table(void)
{
    static challenge_attempt attempts[LESSON_8_ATTEMPTS];
    int count = challenge_attempts(attempts), best = challenge_best(attempts, count);
    if (!count) printf("There is no attempt yet.\n");
    else printf("      test accuracy     updates   starts  trained    saved  what changed\n");
    for (int i = 0; i < count; i++) {
        bool close = best >= 0 && challenge_within_noise(&attempts[i], &attempts[best]);
        challenge_row(i + 1, &attempts[i], i == best ? "<- best" : close ? "(within noise of the best)" : "");
    }
}

/* Says whether an attempt beats the first one by more than the chance of the test images. The chance of a run, which
 * makes other updates each time, is not in it. */
static inline void challenge_verdict(const challenge_attempt *first, const challenge_attempt *second)
{
    double points = 100 * (second->accuracy - first->accuracy);
    if (isnan(points)) printf("One of the two has no score yet.\n");
    else if (challenge_within_noise(first, second))
        printf("%+.2f points: the two differ by less than two standard errors of the difference, so this may be "
               "chance.\n",
               points);
    else
        printf("%+.2f points: %s than the first attempt, by more than the chance of the test images. Runs of the same "
               "program differ, too: repeat both to be sure.\n",
               points, points > 0 ? "better" : "worse");
}

/* Draws the accuracy of all attempts. */
static inline void challenge_plot(void)
{
    static challenge_attempt attempts[LESSON_8_ATTEMPTS];
    double score[LESSON_8_ATTEMPTS], best[LESSON_8_ATTEMPTS];
    int count = challenge_attempts(attempts);
    for (int i = 0; i < count; i++) {
        score[i] = 100 * attempts[i].accuracy;
        best[i] = i ? fmax(best[i - 1], score[i]) : score[i];
    }
    if (challenge_best(attempts, count) < 0) printf("There is no score to draw yet.\n");
    else
        kolo_plot("Your attempts", .x_label = "attempt", .y_label = "test accuracy, %",
                  .series = {{"each", NULL, score, count}, {"best so far", NULL, best, count}});
}

/* ------------------------------------------------------------------------------------------ an attempt */

/* Runs a program as an attempt: at most 60 s of wall clock on eight ranks, from the start of kolorun to the saved file.
 * Prints the score, keeps it in the table, and returns it; without a saved model NaN. */
static inline challenge_attempt challenge_run(const char *source, const char *what)
{
    challenge_attempt a = {
        .accuracy = NAN, .loss = NAN, .error = NAN, .start = NAN, .trained = NAN, .saved = NAN, .updates = NAN};
    char start[16], trained[16], saved_at[16];
    const char *kept = LESSON_8_PROGRAM "-kept.safetensors";
    double limit = course_pick(60, 6);
    snprintf(a.what, sizeof a.what, "%s", *what ? what : "-");
    if (!challenge_may_run(source) || !challenge_compile(source)) return a;
    setenv("CHALLENGE_SECONDS", course_quick() ? "6" : "60", 1);
    if (course_quick()) setenv("CHALLENGE_IMAGES", "2000", 1);
    bool saved = challenge_race(course_pick(8, 4), limit, kept);
    a.start = challenge_noted("start"), a.trained = challenge_noted("trained"), a.saved = challenge_noted("saved");
    a.updates = challenge_noted("updates");
    if (saved) challenge_score(kept, &a);
    challenge_keep(&a);
    if (isnan(a.accuracy)) printf("No model was saved in %.0f s: the attempt has no score.\n", limit);
    else
        printf("test accuracy %.2f +- %.2f %%, loss %.4f, after %.0f updates\n", 100 * a.accuracy, 100 * a.error,
               a.loss, a.updates);
    printf("of %.0f s: training began after %s, ended after %s, the file was saved after %s\n", limit,
           challenge_time(a.start, start), challenge_time(a.trained, trained), challenge_time(a.saved, saved_at));
    return a;
}

#endif
