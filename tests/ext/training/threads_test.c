/* Several threads with one model: scores and outputs wait for one another and are right; what changes the model beside
 * them, and they beside that, fails with a sentence; a forked child is not held up by its parent's threads.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <kolo.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { samples = 64, inputs = 6, classes = 3, threads = 4, rounds = 8 };

static float features[samples * inputs];
static int32_t labels[samples];

static kolo_data *data_new(void)
{
    for (int i = 0; i < samples * inputs; i++) features[i] = (float)(i * 7 % 13) / 13;
    for (int i = 0; i < samples; i++) labels[i] = i % classes;
    kolo_data *data =
        kolo_data_from_arrays(features, labels, .samples = samples, .shape = {inputs}, .classes = classes);
    assert_non_null(data);
    return data;
}

static kolo_model *model_new(void)
{
    kolo_model *model =
        kolo_sequential(kolo_input(inputs), kolo_dense(16, .activation = KOLO_RELU), kolo_dense(classes));
    assert_int_equal(kolo_compile(model, .loss = KOLO_SPARSE_CROSSENTROPY, .optimizer = kolo_sgd(.learning_rate = 1e-9),
                                  .metrics = {KOLO_ACCURACY}, .seed = 3),
                     KOLO_OK);
    return model;
}

typedef struct shared {
    kolo_model *model;
    kolo_data *data;
    double loss;
    float outputs[samples * classes];
    pthread_barrier_t begin;
    atomic_int wrong, refused, served;
    atomic_bool stop;
} shared;

static void shared_open(shared *s, int members)
{
    memset(s, 0, sizeof *s);
    s->model = model_new();
    s->data = data_new();
    s->loss = kolo_evaluate(s->model, s->data).loss;
    assert_int_equal(kolo_predict(s->model, s->data, s->outputs), KOLO_OK);
    pthread_barrier_init(&s->begin, NULL, (unsigned)members);
}

static void shared_close(shared *s)
{
    pthread_barrier_destroy(&s->begin);
    kolo_model_free(&s->model);
    kolo_data_free(&s->data);
}

/* ---- scores and outputs */

static void look_once(shared *s, int kind)
{
    float outputs[samples * classes], gradients[200];
    kolo_status status = KOLO_OK;
    if (kind == 0 && kolo_evaluate(s->model, s->data).loss != s->loss) s->wrong++;
    if (kind == 1) status = kolo_predict(s->model, s->data, outputs);
    if (kind == 1 && memcmp(outputs, s->outputs, sizeof outputs) != 0) s->wrong++;
    if (kind == 2) status = kolo_predict_on_batch(s->model, s->data, 8, 8, outputs);
    if (kind == 2 && memcmp(outputs, s->outputs + 8 * classes, 8 * classes * sizeof *outputs) != 0) s->wrong++;
    if (kind == 3 && !(kolo_gradients(s->model, s->data, gradients) > 0)) s->wrong++;
    if (status != KOLO_OK) s->wrong++;
}

static void *look(void *argument)
{
    shared *s = argument;
    pthread_barrier_wait(&s->begin);
    for (int i = 0; i < rounds; i++)
        for (int kind = 0; kind < 4; kind++) look_once(s, kind);
    return NULL;
}

static void test_scores_wait_for_one_another(void **state)
{
    (void)state;
    shared s;
    pthread_t each[threads];
    shared_open(&s, threads);
    for (int i = 0; i < threads; i++) assert_int_equal(pthread_create(&each[i], NULL, look, &s), 0);
    for (int i = 0; i < threads; i++) pthread_join(each[i], NULL);
    assert_int_equal(s.wrong, 0);
    assert_string_equal(kolo_last_error().text, "");
    shared_close(&s);
}

/* ---- beside a fit */

static void *evaluate_beside(void *argument)
{
    shared *s = argument;
    pthread_barrier_wait(&s->begin);
    while (!s->stop) {
        if (kolo_evaluate(s->model, s->data).loss > 0) s->served++;
        else if (strstr(kolo_last_error().text, "this model is in kolo_fit() of another thread: wanted "
                                                "kolo_evaluate() after it"))
            s->refused++;
        else s->wrong++;
    }
    return NULL;
}

/* In the fit's callback the thread's own calls go through, and another's do not. */
static void look_within(kolo_callback *self, int epoch, const kolo_logs *logs)
{
    (void)epoch;
    (void)logs;
    shared *s = (shared *)(uintptr_t)self->user;
    int before = s->refused;
    if (!(kolo_evaluate(s->model, s->data).loss > 0)) s->wrong++;
    while (s->refused == before && s->wrong == 0) usleep(1000);
}

static void test_fit_is_alone(void **state)
{
    (void)state;
    shared s;
    pthread_t other;
    shared_open(&s, 2);
    const kolo_callback within = {.on_epoch_end = look_within, .user = &s};
    assert_int_equal(pthread_create(&other, NULL, evaluate_beside, &s), 0);
    pthread_barrier_wait(&s.begin);
    int fitted = 0;
    for (int i = 0; i < rounds; i++) {
        kolo_clear_error();
        const kolo_history *history =
            kolo_fit(s.model, s.data, .epochs = 2, .verbose = (int)KOLO_NONE, .callbacks = {within});
        fitted += history != NULL;
        if (!history)
            assert_non_null(strstr(kolo_last_error().text, "this model is in kolo_evaluate() of another thread: "
                                                           "wanted kolo_fit() after it"));
        usleep(1000);
    }
    while (s.served == 0 || fitted == 0) {
        kolo_clear_error();
        fitted += kolo_fit(s.model, s.data, .verbose = (int)KOLO_NONE) != NULL;
        usleep(10000);
    }
    s.stop = true;
    pthread_join(other, NULL);
    kolo_clear_error();
    assert_int_equal(s.wrong, 0);
    shared_close(&s);
}

/* ---- stops and forks */

static void *predict_until_stopped(void *argument)
{
    shared *s = argument;
    float outputs[samples * classes];
    pthread_barrier_wait(&s->begin);
    while (!s->stop) kolo_predict(s->model, s->data, outputs);
    return NULL;
}

static void test_stop_holds_nobody_up(void **state)
{
    (void)state;
    shared s;
    pthread_t each[threads];
    shared_open(&s, threads + 1);
    for (int i = 0; i < threads; i++) assert_int_equal(pthread_create(&each[i], NULL, predict_until_stopped, &s), 0);
    pthread_barrier_wait(&s.begin);
    for (int i = 0; i < rounds; i++) {
        kolo_request_stop();
        usleep(1000);
    }
    s.stop = true;
    for (int i = 0; i < threads; i++) pthread_join(each[i], NULL);
    kolo_clear_error();
    assert_true(kolo_evaluate(s.model, s.data).loss == s.loss);
    shared_close(&s);
}

/* While another thread predicts, the child has the model to itself: it may fail with a sentence, but must not wait. */
static void test_forked_child_goes_on(void **state)
{
    (void)state;
    shared s;
    pthread_t other;
    shared_open(&s, 2);
    assert_int_equal(pthread_create(&other, NULL, predict_until_stopped, &s), 0);
    pthread_barrier_wait(&s.begin);
    for (int i = 0; i < rounds; i++) {
        int status;
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            alarm(20);
            kolo_model *own = kolo_sequential(kolo_input(inputs), kolo_dense(classes));
            kolo_status done = kolo_compile(own, .loss = KOLO_SPARSE_CROSSENTROPY, .backend = "reference");
            kolo_compile(s.model, .loss = KOLO_SPARSE_CROSSENTROPY, .backend = "reference");
            _exit(done == KOLO_OK ? 0 : 1);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    s.stop = true;
    pthread_join(other, NULL);
    shared_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_scores_wait_for_one_another),
                                       cmocka_unit_test(test_fit_is_alone), cmocka_unit_test(test_stop_holds_nobody_up),
                                       cmocka_unit_test(test_forked_child_goes_on)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
