/* kolo_distributed(): its .op, and what cannot be combined with Adasum. The steps are in
 * tests/ext/replica/test_adasum.py.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <kolo.h>
#include <stdlib.h>
#include <string.h>

#include "show/bundle.h"

static void assert_op(kolo_optimizer optimizer, kolo_reduce_op op, const char *shown)
{
    assert_true(optimizer.distributed);
    assert_int_equal(optimizer.reduction, op);
    char *text = kolo_optimizer_bundle(&optimizer);
    if (!strstr(text, shown)) fail_msg("wanted %s, got %s", shown, text);
    free(text);
}

static void the_mean_is_the_default(void **state)
{
    (void)state;
    assert_op(kolo_distributed(kolo_sgd()), KOLO_REDUCE_MEAN, "kolo_distributed(kolo_sgd(.learning_rate = 0.01))\"");
    assert_op(kolo_distributed(kolo_sgd(), .op = KOLO_REDUCE_MEAN), KOLO_REDUCE_MEAN,
              "kolo_distributed(kolo_sgd(.learning_rate = 0.01))\"");
    assert_op(kolo_distributed(kolo_sgd(), .op = KOLO_REDUCE_ADASUM), KOLO_REDUCE_ADASUM,
              "kolo_distributed(kolo_sgd(.learning_rate = 0.01), .op = KOLO_REDUCE_ADASUM)\"");
}

static void assert_refused(const kolo_compile_args *args, const char *sentence)
{
    kolo_clear_error();
    kolo_model *model = kolo_sequential(kolo_input(3), kolo_dense(2));
    kolo_compile_args complete = *args;
    complete.model = model;
    complete.loss = KOLO_SPARSE_CROSSENTROPY;
    kolo_status status = kolo_compile_at(&complete, KOLO_HERE);
    if (!sentence) assert_int_equal(status, KOLO_OK);
    else if (status == KOLO_OK || !strstr(kolo_last_error().text, sentence))
        fail_msg("wanted \"%s\", got \"%s\"", sentence, kolo_last_error().text);
    kolo_model_free(&model);
    kolo_clear_error();
}

static void refuses_what_adasum_cannot_do(void **state)
{
    (void)state;
    kolo_optimizer adasum = kolo_distributed(kolo_sgd(), .op = KOLO_REDUCE_ADASUM);
    kolo_optimizer gathers = kolo_distributed(kolo_sgd(.accumulate_steps = 2), .op = KOLO_REDUCE_ADASUM);
    assert_refused(&(kolo_compile_args){.optimizer = adasum}, NULL);
    assert_refused(&(kolo_compile_args){.optimizer = adasum, .deterministic = true}, "beside .deterministic");
    assert_refused(&(kolo_compile_args){.optimizer = gathers}, "beside .accumulate_steps");
    assert_refused(&(kolo_compile_args){.optimizer = adasum, .strategy = kolo_easgd(.workers = 2)},
                   "beside a strategy of workers");
    assert_refused(&(kolo_compile_args){.optimizer = kolo_distributed(kolo_sgd(), .op = KOLO_REDUCE_SUM)},
                   "wanted KOLO_REDUCE_MEAN or KOLO_REDUCE_ADASUM");
    assert_refused(&(kolo_compile_args){.optimizer = kolo_distributed(kolo_sgd(), .op = KOLO_REDUCE_MAX)},
                   "wanted KOLO_REDUCE_MEAN or KOLO_REDUCE_ADASUM");
}

static void a_collective_of_one_rank(void **state)
{
    (void)state;
    float values[3] = {1, 2, 3};
    double doubles[1] = {1};
    assert_int_equal(kolo_allreduce(values, 3, .op = KOLO_REDUCE_ADASUM), KOLO_OK);
    assert_true(values[0] == 1 && values[2] == 3);
    assert_int_equal(kolo_allreduce(doubles, 1, .op = KOLO_REDUCE_ADASUM), KOLO_INVALID);
    assert_int_equal(kolo_reduce_scatter(values, 1, values, .op = KOLO_REDUCE_ADASUM), KOLO_UNSUPPORTED);
    kolo_clear_error();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_mean_is_the_default),
        cmocka_unit_test(refuses_what_adasum_cannot_do),
        cmocka_unit_test(a_collective_of_one_rank),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
