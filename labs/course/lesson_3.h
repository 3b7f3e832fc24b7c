/* Lesson 3's plumbing: the checks of its exercises, their hints, and its quiz. The program of exercise 3.a notes what
 * it does by lesson_3_edits.h; what the lesson measures is in lesson_3_measure.h. */
#ifndef COURSE_LESSON_3_H
#define COURSE_LESSON_3_H

#include "course.h"
#include "lesson_3_measure.h"

#define LESSON_3_RANKS_MAX 16
#define LESSON_3_EDITS     5

/* ------------------------------------------------------------------------------- 3.a: the five edits */

/* What one rank of exercise 3.a's program did: see edits_note in lesson_3_edits.h. */
typedef struct lesson_3_note {
    char job[64];
    int launched, rank, size, late, pinned, device, asked, averaged, trained, broadcast, root, saves, condition;
    double digest;
} lesson_3_note;

/* The last run of the program. */
typedef struct lesson_3_run {
    int ranks; /* 0: there is none yet */
    lesson_3_note note[LESSON_3_RANKS_MAX];
} lesson_3_run;

static inline bool lesson_3_read_note(int rank, lesson_3_note *n)
{
    char path[64];
    snprintf(path, sizeof path, "run/edits/rank-%d", rank);
    FILE *file = fopen(path, "r");
    if (!file) return false;
    int read =
        fscanf(file,
               "job %63s launched %d rank %d size %d late %d pinned %d device %d asked %d averaged %d trained %d "
               "broadcast %d root %d saves %d condition %d digest %lf",
               n->job, &n->launched, &n->rank, &n->size, &n->late, &n->pinned, &n->device, &n->asked, &n->averaged,
               &n->trained, &n->broadcast, &n->root, &n->saves, &n->condition, &n->digest);
    fclose(file);
    return read == 15;
}

/* The notes of all ranks of the run that rank 0 belongs to. ranks is 0 if one of them is missing. */
static inline lesson_3_run lesson_3_last_run(void)
{
    lesson_3_run run = {0};
    if (!lesson_3_read_note(0, &run.note[0])) return run;
    int ranks = run.note[0].launched;
    if (ranks < 1 || ranks > LESSON_3_RANKS_MAX) return run;
    for (int i = 1; i < ranks; i++)
        if (!lesson_3_read_note(i, &run.note[i]) || strcmp(run.note[i].job, run.note[0].job)) return run;
    run.ranks = ranks;
    return run;
}

/* Number of different weights among the ranks. */
static inline int lesson_3_networks(const lesson_3_run *run)
{
    int different = 0;
    for (int i = 0; i < run->ranks; i++) {
        bool first = true;
        for (int j = 0; j < i; j++) first &= run->note[j].digest != run->note[i].digest;
        different += first;
    }
    return different;
}

/* How many ranks saved, and the lowest of them. */
static inline int lesson_3_savers(const lesson_3_run *run, int *first)
{
    int savers = 0;
    for (int i = run->ranks - 1; i >= 0; i--) {
        if (!run->note[i].saves) continue;
        savers++;
        *first = i;
    }
    return savers;
}

/* Number of ranks that pinned a device, and of the different devices that they gave. */
static inline int lesson_3_pins(const lesson_3_run *run, int *devices)
{
    int pins = 0;
    *devices = 0;
    for (int i = 0; i < run->ranks; i++) {
        bool first = run->note[i].pinned;
        for (int j = 0; j < i; j++) first &= !run->note[j].pinned || run->note[j].device != run->note[i].device;
        pins += run->note[i].pinned;
        *devices += first;
    }
    return pins;
}

/* Which edits the run lacks: bit e for edit e + 1. */
static inline int lesson_3_missing(const lesson_3_run *run)
{
    int devices, first = 0, pins = lesson_3_pins(run, &devices), savers = lesson_3_savers(run, &first);
    bool averaged = true, broadcast = true;
    for (int i = 0; i < run->ranks; i++) averaged &= run->note[i].averaged, broadcast &= run->note[i].broadcast;
    /* Without edit 1 every rank takes itself for rank 0, and saves: then the question for the rank is edit 5. */
    bool alone = run->note[0].size < run->ranks, one_saves = alone ? run->note[0].condition : savers == 1 && first == 0;
    return alone | (pins < run->ranks) << 1 | !averaged << 2 | !broadcast << 3 | !one_saves << 4;
}

/* The first thing that is wrong with the run, as the sentence of a failed check; NULL: nothing is. */
static inline const char *lesson_3_fault(const lesson_3_run *run)
{
    int devices, first = 0, pins = lesson_3_pins(run, &devices), savers = lesson_3_savers(run, &first);
    const lesson_3_note *zero = &run->note[0], *last = &run->note[run->ranks - 1];
    if (zero->size < run->ranks)
        return "Edit 1 is missing: the programs do not know of one another. Each takes itself for rank 0 of 1.";
    if (zero->late & 1) return "Edit 1 comes too late: it must be the first call of main().";
    if (pins == 0) return "Edit 2 is missing: no rank has pinned a device.";
    if (pins < run->ranks) return "Edit 2 is there for some ranks only. Every rank pins a device.";
    if (zero->late & 2) return "Edit 2 comes too late: a model keeps the devices that kolo_compile() has given it.";
    if (devices == 1) return "Edit 2: all ranks have pinned the same device. Each rank needs a device of its own.";
    if (last->asked == 1)
        return "Edit 2 pins by the rank. On a second host with 4 devices, rank 4 would ask for device 4, which does "
               "not exist there. Use the number that counts the ranks of one host.";
    if (last->asked == 0) return "Edit 2: the device does not depend on the rank's place on its host.";
    if (!zero->averaged)
        return "Edit 3 is missing: the model's optimizer does not average the gradients over the ranks.";
    if (!zero->broadcast) return "Edit 4 is missing: no broadcast gives all ranks the weights of one.";
    if (last->root != zero->root)
        return "Edit 4: the ranks name different roots. All of them must take the weights of the same rank.";
    if (!zero->trained) return "The training did not run: read the message under the program's cell.";
    if (lesson_3_networks(run) > 1)
        return "Edits 3 and 4 are called, but the ranks' weights differ: the callback has to be among the .callbacks "
               "of kolo_fit().";
    if (savers == 0) return "Edit 5: no rank has saved the network.";
    if (savers > 1) return "Edit 5 is missing: more than one rank has written the file.";
    return first ? "Edit 5: a rank other than 0 saves. By convention rank 0 does, since it also prints." : NULL;
}

/* Prints what the last run of the program did, and checks exercise 3.a. */
static inline void lesson_3_check_edits(void)
{
    if (!course_ready()) return;
    lesson_3_run run = lesson_3_last_run();
    if (run.ranks == 0) {
        course_check("3.a", false,
                     "There are no notes of a whole run: run the program's cell first, and mind its messages.");
        return;
    }
    if (run.ranks == 1) {
        course_check("3.a", false, "The program ran as one rank: its cell begins with %%%%run -np 4.");
        return;
    }
    int first = 0, devices, pins = lesson_3_pins(&run, &devices), savers = lesson_3_savers(&run, &first);
    printf("          size of the job   devices pinned   networks   ranks that save\n");
    printf("expected  %15d   %14d   %8d   %15d\n", run.ranks, run.ranks, 1, 1);
    printf("got       %15d   %14d   %8d   %15d\n", run.note[0].size, pins ? devices : 0, lesson_3_networks(&run),
           savers);
    const char *fault = lesson_3_fault(&run);
    course_check("3.a", !fault, "%s", fault ? fault : "");
}

/* ------------------------------------------------------------------------------- 3.a: the sabotage */

/* What was seen of each edit when it alone was left out; "" before. */
static char lesson_3_seen[LESSON_3_EDITS][160];
static char lesson_3_letter[LESSON_3_EDITS];
static const char *const lesson_3_edit_name[LESSON_3_EDITS] = {"1 initialise", "2 pin", "3 average", "4 start equal",
                                                               "5 one saves"};

/* What a run without edit `edit` shows: a letter of the lesson's list, and a sentence with its numbers. */
static inline void lesson_3_notice(const lesson_3_run *run, int edit)
{
    int first = 0, networks = lesson_3_networks(run), savers = lesson_3_savers(run, &first);
    char *text = lesson_3_seen[edit];
    size_t size = sizeof lesson_3_seen[edit];
    bool alone = run->note[0].size < run->ranks;
    lesson_3_letter[edit] = alone ? 'd' : networks > 1 ? 'a' : savers > 1 ? 'c' : 'b';
    if (alone)
        snprintf(text, size, "%d programs, each rank 0 of 1; Kolo %s; %d files written", run->ranks,
                 run->note[0].trained ? "trained each alone" : "refused to train", savers);
    else if (networks > 1) snprintf(text, size, "the %d ranks end with %d different networks", run->ranks, networks);
    else if (savers > 1) snprintf(text, size, "%d ranks wrote the same file", savers);
    else
        snprintf(text, size, "nothing shows; the %d ranks had no device of their own, and all took %s", run->ranks,
                 kolo_device_get(0).name);
}

static inline void lesson_3_compare_letters(const char *guesses)
{
    int right = 0, seen = 0, guessed = 0;
    for (int e = 0; e < LESSON_3_EDITS; e++) {
        if (!lesson_3_letter[e]) continue;
        seen++;
        guessed += guesses[e] != '-';
        right += guesses[e] == lesson_3_letter[e];
    }
    if (guessed) printf("Your predictions: %d of %d right.\n", right, seen);
    else if (seen) printf("Your predictions: none typed yet.\n");
}

/* Looks at the last run: if exactly one edit was left out, its row is filled in. Prints the table and compares it with
 * the five letters that were guessed. */
static inline void lesson_3_sabotage(const char *guesses)
{
    if (!course_ready()) return;
    if (!guesses || strlen(guesses) != LESSON_3_EDITS) {
        printf("Type five letters, one for each edit, and - where you have no guess; got \"%s\".\n",
               guesses ? guesses : "");
        return;
    }
    lesson_3_run run = lesson_3_last_run();
    int missing = run.ranks > 1 ? lesson_3_missing(&run) : 0, count = 0, edit = 0, seen = 0;
    for (int e = 0; e < LESSON_3_EDITS; e++)
        if (missing >> e & 1) count++, edit = e;
    if (count == 1) lesson_3_notice(&run, edit);
    if (run.ranks < 2) printf("There is no run of several ranks to look at yet.\n");
    else if (count == 0) printf("The last run had all five edits.\n");
    else if (count > 1) printf("The last run lacked %d edits: leave out one at a time.\n", count);
    printf("edit left out   guess  what the run showed\n");
    for (int e = 0; e < LESSON_3_EDITS; e++) {
        bool known = lesson_3_letter[e] != 0;
        seen += known;
        printf("%-14s  %c      %c%s%s\n", lesson_3_edit_name[e], guesses[e], known ? lesson_3_letter[e] : '-',
               known ? "  " : "", lesson_3_seen[e]);
    }
    printf("%d of %d edits sabotaged.\n", seen, LESSON_3_EDITS);
    lesson_3_compare_letters(guesses);
}

/* ------------------------------------------------------------------------------- 3.b: images that were trained */

typedef double (*lesson_3_rate)(double printed, int samples, int ranks, int batch);

/* Whole batches of all ranks only, as in the published program. */
static inline int lesson_3_trained(int samples, int ranks, int batch)
{
    return samples / (ranks * batch) * ranks * batch;
}

/* The mistake behind a wrong rate, as a sentence. */
static inline const char *lesson_3_rate_mistake(double got, double printed, int samples, int ranks, int batch)
{
    double all = samples, batches = all / (ranks * (double)batch);
    double trained = lesson_3_trained(samples, ranks, batch);
    struct {
        double wrong;
        const char *why;
    } known[] = {
        {printed * (samples / batch) * batch / all, "That batch is one rank's: a step takes a batch on every rank."},
        {printed * (samples / batch) * batch / all / ranks,
         "That is one rank's share. The rate is that of all ranks together."},
        {printed * all / trained, "The correction is upside down: fewer images in the same time make the rate lower."},
        {printed * ceil(batches) * ranks * batch / all,
         "You round the number of steps up. The last, incomplete batch was left out."},
        {printed * batches * ranks * batch / all, "That is the printed rate. If the number of steps has a fraction, "
                                                  "nothing changes: steps are whole, rounded down."},
        {printed * (samples / (ranks * batch)) / all, "You count steps. A step trains the batches of all ranks."},
        {printed * batches / all, "You count steps. A step trains the batches of all ranks."},
        {printed * (samples / (ranks * batch)) * batch / all, "You count the images of one rank."},
        {trained, "That is the number of images of an epoch. The rate divides it by the epoch's seconds."},
        {printed - (all - trained), "Images are subtracted from images per second: the units differ. Use the ratio."},
    };
    if (isnan(got) || got == 0)
        return "It is 0: the function is not written yet, or a division of two ints was rounded down to 0.";
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (fabs(got - known[i].wrong) <= 1e-6 * fabs(known[i].wrong) + 1e-9) return known[i].why;
    return "How many images does an epoch of whole batches train, and how many were counted?";
}

/* Checks exercise 3.b with the published runs and one more. */
static inline void lesson_3_check_rate(lesson_3_rate yours)
{
    if (!course_ready()) return;
    const struct {
        double printed;
        int samples, ranks, batch;
        const char *what;
    } runs[] = {{486914, 60000, 8, 2048, "published, eight V100"},
                {66176, 60000, 1, 1024, "published, one V100"},
                {185406, 60000, 8, 5376, "published, eight A100"},
                {10000, 1000, 3, 100, "1,000 images, 3 ranks"}};
    for (int i = 0; i < 4; i++) {
        double wanted =
            runs[i].printed * lesson_3_trained(runs[i].samples, runs[i].ranks, runs[i].batch) / runs[i].samples;
        double got = yours(runs[i].printed, runs[i].samples, runs[i].ranks, runs[i].batch);
        bool right = fabs(got - wanted) <= 1e-6 * wanted;
        printf("%-22s printed %6.0f images/s: expected %s, got %.0f\n", runs[i].what, runs[i].printed,
               right ? "the same" : "another rate", got);
        if (right) continue;
        course_check("3.b", false, "%s",
                     lesson_3_rate_mistake(got, runs[i].printed, runs[i].samples, runs[i].ranks, runs[i].batch));
        return;
    }
    course_check("3.b", true, " ");
}

/* ------------------------------------------------------------------------------- hints and quiz */

static const course_question lesson_3_questions[COURSE_QUESTIONS] = {
    {"Two hosts have four GPUs each; eight ranks run. Which device does the rank with number 6 take?",
     {"device 6", "device 2 of the second host", "device 0 of the second host", "any device that is free"},
     'b',
     "The local rank counts the ranks of one host: rank 6 is the third of the second host."},
    {"The gradients are averaged, but the ranks start from different weights. What happens to these differences?",
     {"They vanish after a few updates", "Training stops with an error",
      "They stay: every rank adds the same change to other weights", "They are averaged, too"},
     'c',
     "Equal changes keep a difference as it is, and the averaged gradient fits no rank's weights."},
    {"Eight ranks, 2048 images each, 60,000 images, whole batches only. How many updates does an epoch have?",
     {"29", "30", "4", "3"},
     'd',
     "A step takes 8 x 2048 = 16,384 images, and 60,000 hold three such batches."},
    {"Why does a mixed-precision training in fp16 multiply the loss by a large number?",
     {"Small gradients would become 0 in fp16", "To learn faster", "To average over the ranks", "To use less memory"},
     'a',
     "The gradients are divided by the same number, in float32, before the update."},
    {"Under which strategy do the workers NOT agree before every update?",
     {"mirrored", "central_storage", "downpour", "multi_worker_mirrored"},
     'c',
     "DOWNPOUR's workers train on for a window of batches and exchange one at a time: it is asynchronous."},
};

/* Call it once, in the lesson's first cell. */
static inline void lesson_3_begin(void)
{
    course_begin("3");
    course_hints("3.a",
                 "Section 5 shows each of the five edits. Two are calls of their own, one wraps the optimizer, one is "
                 "a "
                 "callback, one is a condition.",
                 "Initialise first of all and pin next, before the model is made. The pin takes the number that counts "
                 "the ranks of this host. The wrapped optimizer goes into kolo_compile().",
                 "kolo_fit() takes .callbacks = {...}: the broadcast of edit 4 is one of them, with the root's "
                 "number. The save asks for the rank's number before it writes.");
    course_hints("3.b",
                 "The callback divided all samples by the epoch's seconds. You know its result and the samples, so you "
                 "know the seconds.",
                 "A step takes one batch on every rank. How many whole steps fit into the samples? Division of two "
                 "ints in C rounds down.",
                 "Images trained = whole steps times the images of a step. The seconds stay the same, so the rate "
                 "changes as the number of images does.");
}

#endif
