/* Lesson 4's picture of results with error bars, its hints and its quiz. Included after lesson_4.h. */
#ifndef COURSE_LESSON_4_PLOTS_H
#define COURSE_LESSON_4_PLOTS_H

#include "lesson_4.h"

#define LESSON_4_SVG 20000

/* A text that grows within its room; what does not fit is left out. */
typedef struct lesson_4_text {
    char text[LESSON_4_SVG];
    size_t length;
} lesson_4_text;

__attribute__((format(printf, 2, 3))) static inline void lesson_4_put(lesson_4_text *t, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    int length = vsnprintf(t->text + t->length, sizeof t->text - t->length, format, values);
    va_end(values);
    if (length > 0 && t->length + (size_t)length < sizeof t->text) t->length += (size_t)length;
}

#define LESSON_4_LEFT  230.0 /* of the axis, in pixels */
#define LESSON_4_WIDTH 470.0

static inline double lesson_4_x(double accuracy, double from, double to)
{
    return LESSON_4_LEFT + LESSON_4_WIDTH * (accuracy - from) / (to - from);
}

/* A dot for each seed, a line for the mean, a bar of one standard deviation to either side. */
static inline void lesson_4_put_series(lesson_4_text *t, const double *values, int n, double y, double from, double to,
                                       const char *colour)
{
    double mean = course_mean(values, n), deviation = n > 1 ? course_deviation(values, n) : 0;
    if (isnan(mean)) return; /* a seed was stopped */
    double x = lesson_4_x(mean, from, to), low = lesson_4_x(mean - deviation, from, to),
           high = lesson_4_x(mean + deviation, from, to);
    lesson_4_put(t, "<line x1='%.1f' y1='%.1f' x2='%.1f' y2='%.1f' stroke='%s' stroke-width='3'/>", low, y, high, y,
                 colour);
    lesson_4_put(t, "<line x1='%.1f' y1='%.1f' x2='%.1f' y2='%.1f' stroke='%s' stroke-width='3'/>", x, y - 7, x, y + 7,
                 colour);
    for (int i = 0; i < n; i++)
        lesson_4_put(t, "<circle cx='%.1f' cy='%.1f' r='2.5' fill='none' stroke='%s'/>",
                     lesson_4_x(values[i], from, to), y, colour);
}

static inline void lesson_4_put_axis(lesson_4_text *t, double from, double to, double bottom)
{
    for (double tick = ceil(from * 10) / 10; tick <= to + 1e-9; tick += 0.1) {
        double x = lesson_4_x(tick, from, to);
        lesson_4_put(t, "<line x1='%.1f' y1='34' x2='%.1f' y2='%.1f' stroke='#ddd'/>", x, x, bottom);
        lesson_4_put(t, "<text x='%.1f' y='%.1f' text-anchor='middle' fill='#444'>%.1f</text>", x, bottom + 16, tick);
    }
    lesson_4_put(t, "<text x='%.1f' y='%.1f' text-anchor='middle' fill='#444'>accuracy</text>",
                 LESSON_4_LEFT + LESSON_4_WIDTH / 2, bottom + 34);
}

/* The range of all values, rounded outwards to tenths. */
static inline void lesson_4_range(const lesson_4_result *const *results, int count, double *from, double *to)
{
    *from = 1;
    *to = 0;
    for (int i = 0; i < count; i++) {
        for (int s = 0; s < results[i]->seeds; s++) {
            *from = fmin(*from, fmin(results[i]->trained[s], results[i]->tested[s]));
            *to = fmax(*to, fmax(results[i]->trained[s], results[i]->tested[s]));
        }
    }
    *from = floor(*from * 10) / 10;
    *to = fmax(ceil(*to * 10) / 10, *from + 0.1);
}

/* Shows training and test accuracy of each result, with the seeds' standard deviation. In a terminal it is a table. */
static inline void lesson_4_plot(const char *title, const lesson_4_result *const *results, int count)
{
    double from, to, bottom = 40 + 30.0 * count;
    lesson_4_text *t = calloc(1, sizeof *t);
    if (!t) return;
    lesson_4_range(results, count, &from, &to);
    lesson_4_put(t,
                 " \n<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 740 %.0f' width='740' height='%.0f' "
                 "font-family='sans-serif' font-size='12'><rect width='740' height='%.0f' rx='6' fill='#fbfbf7'/>",
                 bottom + 44, bottom + 44, bottom + 44);
    lesson_4_put(t, "<text x='14' y='22' font-size='14' font-weight='bold' fill='#222'>%s</text>", title);
    lesson_4_put(t, "<text x='560' y='22' fill='#3b75af'>training</text><text x='630' y='22' fill='#c8641c'>test "
                    "images</text>");
    lesson_4_put_axis(t, from, to, bottom);
    for (int i = 0; i < count; i++) {
        double y = 54 + 30.0 * i;
        lesson_4_put(t, "<text x='%.0f' y='%.1f' text-anchor='end' fill='#222'>%s</text>", LESSON_4_LEFT - 12, y + 4,
                     results[i]->name);
        lesson_4_put_series(t, results[i]->trained, results[i]->seeds, y - 5, from, to, "#3b75af");
        lesson_4_put_series(t, results[i]->tested, results[i]->seeds, y + 5, from, to, "#c8641c");
    }
    lesson_4_put(t, "</svg>");
    kolo_display("image/svg+xml", t->text);
    free(t);
}

/* ------------------------------------------------------------------------------- hints and quiz */

static const course_question lesson_4_questions[COURSE_QUESTIONS] = {
    {"Eight devices with eight times the batch train for as many epochs as one. Why is their accuracy lower?",
     {"They make an eighth of the updates", "Averaging loses precision", "They see fewer images",
      "They start from other weights"},
     'a',
     "Each update is less noisy, but there are an eighth as many, and each is not eight times as long."},
    {"The gradient noise scale is 300 images. Which batch wastes most of its images?",
     {"30", "100", "300", "3000"},
     'd',
     "Far above the noise scale the images of a batch repeat one another."},
    {"A run with batch norm on eight devices beats a run without it on one device. What does that say about batch norm "
     "as a remedy for large batches?",
     {"It is a remedy", "It needs warm-up", "Nothing yet: one device with batch norm is the control that is missing",
      "It is too slow"},
     'c',
     "Batch norm may help one device just as much. Change one thing at a time, and compare with a control."},
    {"Two runs of three seeds each differ by 0.9 points; each seed varies by 1.2 points. What do you report?",
     {"The better one wins", "The difference is within the noise", "The mean of both", "The best seed of each"},
     'b',
     "The error of the difference is about 1 point, and the limit with three seeds is 2.8 times that."},
    {"What do LARS and LAMB have in common?",
     {"Each layer's step is in proportion to the length of its weights", "They need no learning rate",
      "They average over ranks", "They replace batch norm"},
     'a',
     "LARS scales the gradient so, LAMB scales Adam's step so."},
};

/* Call it once, in the lesson's first cell. */
static inline void lesson_4_begin(void)
{
    course_begin("4");
    course_hints("4.a",
                 "The hook comes before each epoch, and epochs count from 0. Which rate does epoch 0 need, and which "
                 "one the first epoch after the warm-up?",
                 "The rates of the warm-up lie on a straight line from number[0] / number[2] at epoch 0 to number[0] "
                 "at epoch number[1]. After that nothing changes.",
                 "Compute in double: the share of the warm-up that is over is epoch / number[1]. Set the rate in every "
                 "epoch, also after the warm-up.");
    course_hints("4.b",
                 "Each rank's gradient is a small batch of `images` images. Which gradient belongs to a big batch of "
                 "images times ranks, and which collective gives it?",
                 "You need two squares: the mean over the ranks of |g|^2, and |mean gradient|^2. Both need an "
                 "all-reduce. Copy `mine` first, since an all-reduce replaces its array.",
                 "|g|^2 = |G|^2 + noise / b for the small batch, |mean|^2 = |G|^2 + noise / B for the big one. "
                 "Subtract one equation from the other to get the noise, then |G|^2.");
}

#endif
