/* Lesson 8, a challenge: trials within the notebook, hints and the quiz. The harness that runs and scores attempts is
 * in lesson_8_harness.h, the checks of the exercises are in lesson_8_checks.h. */
#ifndef COURSE_LESSON_8_H
#define COURSE_LESSON_8_H

#include "course.h"
#include "lesson_8_checks.h"
#include "lesson_8_harness.h"

/* ------------------------------------------------------------------------------------------ trials */

static inline void lesson_8_out_of_time(kolo_callback *self, int batch, const kolo_logs *logs)
{
    (void)batch, (void)logs;
    self->number[1]++;
    if (challenge_clock() > self->number[0]) {
        *(int *)self->user = (int)self->number[1];
        kolo_stop_training(self->model);
    }
}

/* The accuracy on `count` images from number `first` on. */
static inline double lesson_8_accuracy(kolo_model *model, kolo_data *all, int64_t first, int64_t count)
{
    kolo_data *part = kolo_data_slice(all, first, count);
    double accuracy = kolo_evaluate(model, part).accuracy;
    kolo_data_free(&part);
    return accuracy;
}

/* Trains new weights for some seconds in this process, on the images but the last tenth, which are for validation. */
static inline void lesson_8_try_once(challenge_trial *trial, kolo_model *model, kolo_data *all, double seconds,
                                     int seed)
{
    int64_t images = kolo_data_get_info(all).samples, kept = images / 10;
    kolo_data *training = kolo_data_slice(all, 0, images - kept);
    kolo_callback timer = {.name = "out_of_time",
                           .on_train_batch_end = lesson_8_out_of_time,
                           .number = {challenge_clock() + seconds},
                           .user = &trial->updates};
    kolo_compile(model, .optimizer = kolo_adam(.learning_rate = trial->learning_rate), .loss = KOLO_SPARSE_CROSSENTROPY,
                 .metrics = {KOLO_ACCURACY}, .seed = (uint64_t)seed + 1);
    kolo_fit(model, training, .epochs = 100000, .batch_size = trial->batch, .verbose = KOLO_NONE, .callbacks = {timer});
    trial->train[seed] = lesson_8_accuracy(model, all, 0, kept);
    trial->validation[seed] = lesson_8_accuracy(model, all, images - kept, kept);
    kolo_data_free(&training);
}

/* Tries a batch (of all ranks together) and a learning rate, `seconds` for each of `seeds` seeds, and prints a row. */
static inline challenge_trial challenge_try(kolo_model *(*network)(void), kolo_data *all, int batch,
                                            double learning_rate, double seconds, int seeds)
{
    challenge_trial trial = {.batch = batch, .learning_rate = learning_rate, .test = NAN};
    for (int seed = 0; seed < LESSON_8_SEEDS; seed++) {
        trial.train[seed] = trial.validation[seed] = NAN;
        if (seed >= seeds) continue;
        kolo_model *model = network();
        lesson_8_try_once(&trial, model, all, seconds, seed);
        kolo_model_free(&model);
    }
    printf("%6d  %13g  %7d  %8.2f %%", batch, learning_rate, trial.updates, 100 * course_mean(trial.validation, seeds));
    if (seeds > 1) printf(" +- %.2f", 100 * course_deviation(trial.validation, seeds) / sqrt(seeds));
    printf("\n");
    return trial;
}

static inline void challenge_try_title(void)
{
    printf(" batch  learning rate  updates  validation\n");
}

/* The images of the trials: all, or fewer in the quick form. The caller frees them. */
static inline kolo_data *challenge_trial_images(void)
{
    if (course_quick()) setenv("CHALLENGE_IMAGES", "2000", 1);
    return challenge_images();
}

/* ------------------------------------------------------------------------------------------ chance */

/* The number of right answers among `images` if each is right with this probability. */
static inline int lesson_8_right_answers(double probability, int images)
{
    int right = 0;
    for (int i = 0; i < images; i++) right += rand() < probability * RAND_MAX;
    return right;
}

/* ------------------------------------------------------------------------------------------ hints and quiz */

static inline void lesson_8_hints(void)
{
    course_hints(
        "8.a", "Draw a line of time: now, the end of the next step, the end of the one after it, the saved file.",
        "If you say stop now, one more step runs. If you do not, when is your next chance, and when would the file "
        "be complete then?",
        "Compare the limit with the time at which the file would be complete if you waited for the next chance. Count "
        "the steps that run until then.");
    course_hints("8.b",
                 "What is the accuracy of 10 images of which 9 are right, and 400 of which 380 are right, together?",
                 "Two numbers must be known of all ranks before anything is divided.",
                 "kolo_allreduce(array, 2) turns both numbers of an array into their sums over the ranks, on every "
                 "rank.");
    course_hints("8.c",
                 "Which of the accuracies of a trial says how it does on images that it has not seen, and that you may "
                 "look at?",
                 "A single seed can be lucky. course_mean(array, LESSON_8_SEEDS) is the mean of one.",
                 "Keep the number of the best trial so far, and begin with none. isnan() finds a trial that must not "
                 "be kept.");
}

static const course_question lesson_8_questions[COURSE_QUESTIONS] = {
    {"Eight ranks share two cores. What do more ranks bring here?",
     {"Eight times the images per second", "About the images per second of two ranks", "A better network"},
     'b',
     "Ranks beyond the cores take turns. The challenge has eight so that you meet what eight devices would meet."},
    {"Why did the batch of 2,048 a rank score low in sixty seconds?",
     {"It made few updates", "Its gradient has more noise", "It used the cores badly"},
     'a',
     "Its gradient has less noise and its images per second are good. But a network learns by updates."},
    {"You measured twenty attempts on the test images and report the best one's accuracy. It is",
     {"right: it was measured", "too high on average", "too low on average"},
     'b',
     "The best of twenty was also the luckiest. A new test set would give a lower number."},
    {"Two attempts score 99.20 and 99.28 % on 10,000 images. What can you say?",
     {"The second setting is better", "Both settings are equal", "The difference may be chance"},
     'c',
     "One standard error of each is about 0.09 points, and 0.12 of the difference."},
    {"A rank with 10 images and a rank with 400 images know their accuracies. Their mean is",
     {"the accuracy of all 410 images", "an accuracy in which each image of the first rank counts 40 times as much",
      "always too high"},
     'b',
     "Sum the right answers and the images over the ranks, and divide after that."},
};

#endif
