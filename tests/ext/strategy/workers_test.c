/* Strategies of workers. Each rule is written out once more here, in a plain simulation without threads: with the same
 * order of exchanges, training gives its bits. */
#include "ext/core/small.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "strategy/strategy.h"

#define WEIGHTS 1024
#define SAMPLES 90 /* 12 batches of 8: the last has 2 samples */
#define BATCH   8
#define BATCHES 12
#define WORKERS 3
#define EPOCHS  3

static const char *backend; /* NULL: the default */

/* Without dropout, whose masks depend on the number of the step, which differs in the simulation. */
static kolo_model *plain_model(kolo_optimizer optimizer, kolo_strategy strategy)
{
    kolo_model *model =
        kolo_sequential(kolo_input(SMALL_SIDE, SMALL_SIDE, 1),
                        kolo_conv2d(5, .kernel = {3, 3}, .activation = KOLO_RELU), kolo_max_pool2d(2, 2),
                        kolo_flatten(), kolo_dense(12, .activation = KOLO_RELU), kolo_dense(SMALL_CLASSES));
    assert_int_equal(kolo_compile(model, .optimizer = optimizer, .loss = KOLO_SPARSE_CROSSENTROPY, .seed = 11,
                                  .metrics = {KOLO_ACCURACY}, .strategy = strategy, .deterministic = true,
                                  .backend = backend),
                     KOLO_OK);
    assert_true(kolo_count_params(model) <= WEIGHTS);
    return model;
}

static float *weights_of(kolo_model *model)
{
    return (float *)kolo_weight_get(model, 0).values;
}

static size_t bytes_of(const kolo_model *model)
{
    return (size_t)kolo_count_params(model) * sizeof(float);
}

/* ---------------------------------------------------------------- the simulation */

/* c, and of each worker x, p (or x before its last step), v, and the exchanges of all when it last exchanged. */
typedef struct simulation {
    kolo_data *data;
    kolo_model *model[WORKERS]; /* the local steps: each has an optimizer's state of its own */
    int64_t count, exchanges, last[WORKERS];
    float c[WEIGHTS], x[WORKERS][WEIGHTS], p[WORKERS][WEIGHTS], v[WORKERS][WEIGHTS];
} simulation;

typedef void rule(simulation *s, int worker, int batches);
typedef void step_rule(simulation *s, int worker, int batch);

static void optimize(kolo_model *model, kolo_data *data, int batch, float *x)
{
    int first = batch * BATCH, samples = SAMPLES - first < BATCH ? SAMPLES - first : BATCH;
    memcpy(weights_of(model), x, bytes_of(model));
    assert_true(isfinite(kolo_train_on_batch(model, data, first, samples).loss));
    memcpy(x, weights_of(model), bytes_of(model));
}

static void step(simulation *s, int w, int batch)
{
    optimize(s->model[w], s->data, batch, s->x[w]);
}

static void step_from_old(simulation *s, int w, int batch)
{
    memcpy(s->p[w], s->x[w], sizeof s->p[w]);
    step(s, w, batch);
}

/* v ← μv + Δ, x ← x + v, with Δ = step from x + μv */
static void step_nesterov(simulation *s, int w, int batch)
{
    float old[WEIGHTS];
    memcpy(old, s->x[w], sizeof old);
    for (int64_t i = 0; i < s->count; i++) s->x[w][i] = old[i] + 0.8f * s->v[w][i];
    step(s, w, batch);
    for (int64_t i = 0; i < s->count; i++) s->v[w][i] = s->x[w][i] - old[i];
}

static void take_center(simulation *s, int w)
{
    memcpy(s->x[w], s->c, sizeof s->c);
    memcpy(s->p[w], s->c, sizeof s->c);
}

static void downpour(simulation *s, int w, int batches)
{
    (void)batches;
    bool alone = s->exchanges == s->last[w];
    for (int64_t i = 0; i < s->count; i++) s->c[i] = alone ? s->x[w][i] : s->c[i] + (s->x[w][i] - s->p[w][i]);
    take_center(s, w);
}

static void adag(simulation *s, int w, int batches)
{
    bool alone = s->exchanges == s->last[w] && batches == 1;
    float scale = 1 / (float)batches;
    for (int64_t i = 0; i < s->count; i++) s->c[i] = alone ? s->x[w][i] : s->c[i] + (s->x[w][i] - s->p[w][i]) * scale;
    take_center(s, w);
}

static void dynsgd(simulation *s, int w, int batches)
{
    (void)batches;
    int64_t staleness = s->exchanges - s->last[w];
    float scale = 1 / (float)(staleness + 1);
    for (int64_t i = 0; i < s->count; i++)
        s->c[i] = staleness == 0 ? s->x[w][i] : s->c[i] + (s->x[w][i] - s->p[w][i]) * scale;
    take_center(s, w);
}

/* α = 0.1 · 4 */
static void elastic(simulation *s, int w, int batches)
{
    (void)batches;
    for (int64_t i = 0; i < s->count; i++) {
        float d = (float)(0.1 * 4) * (s->x[w][i] - s->c[i]);
        s->x[w][i] -= d;
        s->c[i] += d;
    }
}

/* c ← c − η · g(x), by another way to the gradient than training's, so with another rounding. */
static void descend(simulation *s, int w, int batch)
{
    int first = batch * BATCH, samples = SAMPLES - first < BATCH ? SAMPLES - first : BATCH;
    kolo_data *part = kolo_data_slice(s->data, first, samples);
    float gradient[WEIGHTS];
    memcpy(weights_of(s->model[w]), s->x[w], bytes_of(s->model[w]));
    assert_true(isfinite(kolo_gradients(s->model[w], part, gradient)));
    for (int64_t i = 0; i < s->count; i++) s->c[i] -= 0.1f * gradient[i];
    kolo_data_free(&part);
}

static void pull(simulation *s, int w, int batches)
{
    (void)batches;
    take_center(s, w);
}

/* Calls the exchange of every window of the script, with the batches in order. */
static void simulate_turns(simulation *s, const char *script, int window, step_rule *local, rule *exchange)
{
    for (int e = 0; e < EPOCHS; e++)
        for (int next = 0, turn = 0; next < BATCHES; turn++) {
            int w = script[2 * (turn % ((int)strlen(script) / 2 + 1))] - '0', batches = 0;
            for (; batches < window && next < BATCHES; batches++) local(s, w, next++);
            exchange(s, w, batches);
            s->last[w] = ++s->exchanges;
        }
}

/* xᵢ ← xᵢ − η·gᵢ − α(xᵢ − c), c ← c + α·Σᵢ(xᵢ − c), each of 3 workers with a batch in turn */
static void simulate_easgd(simulation *s)
{
    float alpha = (float)(0.1 * 4);
    for (int b = 0; b < EPOCHS * BATCHES; b += WORKERS) {
        for (int w = 0; w < WORKERS; w++) step_from_old(s, w, (b + w) % BATCHES);
        for (int64_t i = 0; i < s->count; i++) {
            float sum = 0;
            for (int w = 0; w < WORKERS; w++) {
                s->x[w][i] -= alpha * (s->p[w][i] - s->c[i]);
                sum += s->p[w][i] - s->c[i];
            }
            s->c[i] += alpha * sum;
        }
    }
}

/* Batches window · w … of each round are worker w's. */
static void simulate_mean(simulation *s, int window)
{
    for (int e = 0; e < EPOCHS; e++)
        for (int next = 0; next < BATCHES;) {
            int trained = 0;
            bool trains[WORKERS] = {false};
            for (int w = 0; w < WORKERS; w++)
                for (int b = 0; b < window && next < BATCHES; b++, trains[w] = true) step(s, w, next++);
            for (int w = 0; w < WORKERS; w++) trained += trains[w];
            for (int64_t i = 0; i < s->count; i++) {
                float sum = 0;
                for (int w = 0; w < WORKERS; w++) sum += trains[w] ? s->x[w][i] : 0;
                s->c[i] = sum / (float)trained;
            }
            for (int w = 0; w < WORKERS; w++) memcpy(s->x[w], s->c, sizeof s->c);
        }
}

static simulation *begin(kolo_optimizer optimizer)
{
    simulation *s = calloc(1, sizeof *s);
    assert_non_null(s);
    s->data = small_data(SAMPLES);
    for (int w = 0; w < WORKERS; w++) {
        s->model[w] = plain_model(optimizer, (kolo_strategy){0});
        s->count = kolo_count_params(s->model[w]);
        memcpy(s->x[w], weights_of(s->model[w]), bytes_of(s->model[w]));
        memcpy(s->p[w], s->x[w], sizeof s->p[w]);
    }
    memcpy(s->c, s->x[0], sizeof s->c);
    return s;
}

static void end(simulation *s)
{
    for (int w = 0; w < WORKERS; w++) kolo_model_free(&s->model[w]);
    kolo_data_free(&s->data);
    free(s);
}

/* ---------------------------------------------------------------- the training */

/* Without deterministic mode, in which workers exchange in turn. */
static bool as_it_happens;

static void train(kolo_strategy strategy, kolo_optimizer optimizer, float *weights)
{
    kolo_data *data = small_data(SAMPLES);
    kolo_model *model = plain_model(optimizer, strategy);
    if (as_it_happens)
        assert_int_equal(kolo_compile(model, .optimizer = optimizer, .loss = KOLO_SPARSE_CROSSENTROPY, .seed = 11,
                                      .metrics = {KOLO_ACCURACY}, .strategy = strategy),
                         KOLO_OK);
    const kolo_history *history = kolo_fit(model, data, .epochs = EPOCHS, .batch_size = BATCH, .no_shuffle = true,
                                           .validation_data = data, .verbose = KOLO_NONE);
    assert_non_null(history);
    for (int e = 0; e < EPOCHS; e++) {
        assert_int_equal(history->epoch[e].images, SAMPLES);
        assert_int_equal(history->epoch[e].steps, BATCHES);
    }
    assert_true(history->epoch[EPOCHS - 1].val_loss == kolo_evaluate(model, data).loss); /* the centre is validated */
    memset(weights, 0, WEIGHTS * sizeof *weights);
    memcpy(weights, weights_of(model), bytes_of(model));
    kolo_model_free(&model);
    kolo_data_free(&data);
}

static const kolo_optimizer *optimizers(int *count)
{
    static kolo_optimizer all[3];
    all[0] = kolo_sgd(.learning_rate = 0.1);
    all[1] = kolo_adam();
    all[2] = kolo_sgd(.learning_rate = 0.05, .momentum = 0.9);
    *count = 3;
    return all;
}

static void compare_turns(kolo_strategy strategy, int window, step_rule *local, rule *exchange)
{
    static const char *const scripts[] = {"0 1 2", "0 1 0 1 2", "2 2 1 0"};
    int count;
    const kolo_optimizer *optimizer = optimizers(&count);
    for (int o = 0; o < count; o++)
        for (int i = 0; i < 3; i++) {
            float got[WEIGHTS];
            simulation *s = begin(optimizer[o]);
            simulate_turns(s, scripts[i], window, local, exchange);
            strategy.workers = WORKERS;
            strategy.window = window;
            strategy.servers = 1 + (o + i) % 4;
            strategy.turns = scripts[i];
            train(strategy, optimizer[o], got);
            assert_memory_equal(got, s->c, sizeof got);
            end(s);
        }
}

static void each_rule_has_the_bits_of_its_simulation(void **state)
{
    (void)state;
    for (int window = 1; window <= 5; window += 2) {
        compare_turns(kolo_downpour(), window, step, downpour);
        compare_turns(kolo_adag(), window, step, adag);
        compare_turns(kolo_dynsgd(), window, step, dynsgd);
        compare_turns(kolo_async_easgd(.rho = 4), window, step, elastic);
        compare_turns(kolo_async_eamsgd(.rho = 4, .momentum = 0.8), window, step_nesterov, elastic);
    }
}

static void a_parameter_server_descends_by_each_gradient(void **state)
{
    (void)state;
    static const char *const scripts[] = {"0 1 2", "0 1 0 1 2", "2 2 1 0"};
    for (int i = 0; i < 3; i++) {
        float got[WEIGHTS];
        kolo_optimizer optimizer = kolo_sgd(.learning_rate = 0.1);
        simulation *s = begin(optimizer);
        simulate_turns(s, scripts[i], 1, descend, pull);
        train(kolo_parameter_server(.workers = WORKERS, .turns = scripts[i]), optimizer, got);
        for (int64_t w = 0; w < s->count; w++) assert_float_equal(got[w], s->c[w], 1e-6);
        end(s);
    }
}

/* Also for optimizers with norms of whole arrays, and with a number for each array. */
static void servers_do_not_change_the_bits(void **state)
{
    (void)state;
    const kolo_optimizer all[] = {kolo_adam(.clip_norm = 0.1, .weight_decay = 0.01), kolo_lamb(), kolo_novograd()};
    for (size_t o = 0; o < sizeof all / sizeof *all; o++) {
        float wanted[WEIGHTS], got[WEIGHTS];
        train(kolo_parameter_server(.workers = WORKERS), all[o], wanted);
        for (int servers = 2; servers <= 6; servers++) {
            train(kolo_parameter_server(.workers = WORKERS, .servers = servers), all[o], got);
            assert_memory_equal(got, wanted, sizeof got);
        }
    }
}

static void exchanges_of_all_have_the_bits_of_their_simulation(void **state)
{
    (void)state;
    int count;
    const kolo_optimizer *optimizer = optimizers(&count);
    for (int o = 0; o < count; o++)
        for (int which = 0; which < 4; which++) {
            float got[WEIGHTS];
            simulation *s = begin(optimizer[o]);
            const kolo_strategy strategies[] = {
                kolo_easgd(.workers = WORKERS, .rho = 4), kolo_averaging(.workers = WORKERS),
                kolo_local_sgd(.workers = WORKERS, .window = 1), kolo_local_sgd(.workers = WORKERS)};
            static const int windows[] = {0, BATCHES / WORKERS, 1, 8};
            if (which == 0) simulate_easgd(s);
            else simulate_mean(s, windows[which]);
            train(strategies[which], optimizer[o], got);
            assert_memory_equal(got, s->c, sizeof got);
            end(s);
        }
}

/* Worker w's batches of each epoch are the next BATCHES / WORKERS; kept[e]: its mean loss over them. */
static void simulate_member(simulation *s, int w, double kept[EPOCHS])
{
    for (int e = 0; e < EPOCHS; e++) {
        double loss = 0, samples = 0;
        for (int k = 0; k < BATCHES / WORKERS; k++) {
            int first = (w * BATCHES / WORKERS + k) * BATCH, count = SAMPLES - first < BATCH ? SAMPLES - first : BATCH;
            memcpy(weights_of(s->model[w]), s->x[w], bytes_of(s->model[w]));
            loss += kolo_train_on_batch(s->model[w], s->data, first, count).loss * count;
            memcpy(s->x[w], weights_of(s->model[w]), bytes_of(s->model[w]));
            samples += count;
        }
        kept[e] = loss / samples;
    }
}

/* Each member has the weights and the losses of a plain training on its batches; what they predict is averaged. */
static void members_of_an_ensemble_are_plain_trainings(void **state)
{
    (void)state;
    int count;
    const kolo_optimizer *optimizer = optimizers(&count);
    for (int o = 0; o < count; o++) {
        simulation *s = begin(optimizer[o]);
        kolo_model *model = plain_model(optimizer[o], kolo_ensemble(.workers = WORKERS));
        float mean[SAMPLES * SMALL_CLASSES] = {0}, one[SAMPLES * SMALL_CLASSES], got[SAMPLES * SMALL_CLASSES];
        assert_int_equal(kolo_ensemble_size(model), 0);
        assert_non_null(kolo_fit(model, s->data, .epochs = EPOCHS, .batch_size = BATCH, .no_shuffle = true,
                                 .validation_data = s->data, .verbose = KOLO_NONE));
        assert_int_equal(kolo_ensemble_size(model), WORKERS);
        for (int w = 0; w < WORKERS; w++) {
            double losses[EPOCHS];
            float weights[WEIGHTS] = {0};
            simulate_member(s, w, losses);
            assert_int_equal(kolo_ensemble_weights(model, w, weights), KOLO_OK);
            assert_memory_equal(weights, s->x[w], bytes_of(model));
            for (int e = 0; e < EPOCHS; e++) assert_true(fabs(kolo_ensemble_loss(model, w, e) - losses[e]) < 1e-9);
            assert_true(isnan(kolo_ensemble_loss(model, w, EPOCHS)));
            assert_int_equal(kolo_predict(s->model[w], s->data, one), KOLO_OK);
            for (int i = 0; i < SAMPLES * SMALL_CLASSES; i++) mean[i] += one[i] / WORKERS;
        }
        assert_memory_equal(weights_of(model), s->x[0], bytes_of(model)); /* the model is member 0, also afterwards */
        assert_int_equal(kolo_ensemble_predict(model, s->data, got), KOLO_OK);
        assert_memory_equal(got, mean, sizeof got);
        assert_memory_equal(weights_of(model), s->x[0], bytes_of(model));
        kolo_model_free(&model);
        end(s);
    }
}

static void only_an_ensemble_has_members(void **state)
{
    (void)state;
    float weights[WEIGHTS];
    kolo_data *data = small_data(SAMPLES);
    kolo_model *model = plain_model(kolo_adam(), kolo_averaging(.workers = WORKERS));
    assert_non_null(kolo_fit(model, data, .verbose = KOLO_NONE));
    assert_int_equal(kolo_ensemble_size(model), 0);
    assert_true(isnan(kolo_ensemble_loss(model, 0, 0)));
    assert_int_equal(kolo_ensemble_weights(model, 0, weights), KOLO_INVALID);
    assert_non_null(strstr(kolo_last_error().text, "trained under kolo_ensemble()"));
    assert_int_equal(kolo_ensemble_predict(NULL, data, weights), KOLO_INVALID);
    kolo_clear_error();
    kolo_model_free(&model);
    model = plain_model(kolo_adam(), kolo_ensemble(.workers = WORKERS));
    assert_non_null(kolo_fit(model, data, .verbose = KOLO_NONE));
    assert_int_equal(kolo_ensemble_weights(model, WORKERS, weights), KOLO_INVALID);
    assert_non_null(strstr(kolo_last_error().text, "wanted a member from 0 to 2, got 3"));
    kolo_clear_error();
    kolo_model_free(&model);
    kolo_data_free(&data);
}

/* ---------------------------------------------------------------- what must be equal */

static void one_worker_is_plain_training(void **state)
{
    (void)state;
    const kolo_strategy strategies[] = {kolo_downpour(.workers = 1, .window = 1),
                                        kolo_dynsgd(.workers = 1),
                                        kolo_adag(.workers = 1, .window = 1),
                                        kolo_parameter_server(.workers = 1),
                                        kolo_averaging(.workers = 1),
                                        kolo_local_sgd(.workers = 1),
                                        kolo_ensemble(.workers = 1)};
    int count;
    const kolo_optimizer *optimizer = optimizers(&count);
    for (int o = 0; o < count; o++)
        for (size_t i = 0; i < sizeof strategies / sizeof *strategies; i++) {
            float wanted[WEIGHTS], got[WEIGHTS];
            train((kolo_strategy){0}, optimizer[o], wanted);
            train(strategies[i], optimizer[o], got);
            assert_memory_equal(got, wanted, sizeof got);
        }
}

static void a_record_is_replayed_to_the_bit(void **state)
{
    (void)state;
    const kolo_strategy strategies[] = {kolo_parameter_server(), kolo_downpour(),     kolo_adag(),  kolo_dynsgd(),
                                        kolo_async_easgd(),      kolo_async_eamsgd(), kolo_easgd(), kolo_averaging(),
                                        kolo_local_sgd()};
    char file[] = "/tmp/kolo_order_XXXXXX";
    int made = mkstemp(file);
    assert_true(made >= 0);
    close(made);
    as_it_happens = true;
    for (size_t i = 0; i < sizeof strategies / sizeof *strategies; i++) {
        kolo_strategy strategy = strategies[i];
        float recorded[WEIGHTS], replayed[WEIGHTS];
        strategy.workers = 4;
        strategy.window = strategy.kind->updates_center ? 1 : 2;
        strategy.servers = strategy.kind->exchange_all ? 1 : 3;
        strategy.record = file;
        train(strategy, kolo_adam(), recorded);
        strategy.record = NULL;
        strategy.replay = file;
        strategy.servers = 0;
        train(strategy, kolo_adam(), replayed);
        assert_memory_equal(recorded, replayed, sizeof recorded);
    }
    as_it_happens = false;
    remove(file);
}

/* ---------------------------------------------------------------- going on */

static void fit_to(kolo_model *model, kolo_data *data, int epochs, bool resume)
{
    assert_non_null(kolo_fit(model, data, .epochs = epochs, .resume = resume, .batch_size = BATCH,
                             .verbose = KOLO_NONE));
}

static char file[] = "/tmp/kolo_workers_XXXXXX"; /* of a checkpoint after the first of three epochs */

/* An interrupted training has the bits of one without a pause, whether the same model goes on or another one. */
static void check_going_on(kolo_strategy strategy, kolo_optimizer optimizer, kolo_data *data)
{
    kolo_model *whole = plain_model(optimizer, strategy), *first = plain_model(optimizer, strategy);
    kolo_model *second = plain_model(optimizer, strategy);
    fit_to(whole, data, 3, false);
    fit_to(first, data, 1, false);
    assert_int_equal(kolo_checkpoint_save(first, file), KOLO_OK);
    assert_int_equal(kolo_checkpoint_load(second, file), KOLO_OK);
    fit_to(first, data, 3, true);
    fit_to(second, data, 2, true);
    assert_int_equal(kolo_checkpoint_save(second, file), KOLO_OK); /* once more, of a training that has gone on */
    assert_int_equal(kolo_checkpoint_load(second, file), KOLO_OK);
    fit_to(second, data, 3, true);
    assert_memory_equal(weights_of(whole), weights_of(first), bytes_of(whole));
    assert_memory_equal(weights_of(whole), weights_of(second), bytes_of(whole));
    kolo_model_free(&whole);
    kolo_model_free(&first);
    kolo_model_free(&second);
}

static void open_file(void)
{
    strcpy(strrchr(file, '_'), "_XXXXXX");
    int made = mkstemp(file);
    assert_true(made >= 0);
    close(made);
}

static void workers_go_on_from_a_checkpoint(void **state)
{
    (void)state;
    const kolo_strategy strategies[] = {kolo_parameter_server(),
                                        kolo_downpour(),
                                        kolo_adag(.window = 2),
                                        kolo_dynsgd(.turns = "0 1 0 1 2"),
                                        kolo_async_easgd(.window = 2),
                                        kolo_async_eamsgd(.window = 2),
                                        kolo_easgd(),
                                        kolo_averaging(),
                                        kolo_local_sgd(.window = 2),
                                        kolo_ensemble()};
    const kolo_optimizer optimizers_with_state[] = {kolo_adam(), kolo_novograd(),
                                                    kolo_sgd(.momentum = 0.9, .accumulate_steps = 3)};
    kolo_data *data = small_data(SAMPLES);
    open_file();
    for (size_t i = 0; i < sizeof strategies / sizeof *strategies; i++)
        for (int o = 0; o < 3; o++) {
            kolo_strategy strategy = strategies[i];
            if (o == 2 && strategy.kind->updates_center) continue; /* the centre updates with each gradient */
            strategy.workers = WORKERS;
            backend = i % 2 ? "enqueued" : NULL;
            check_going_on(strategy, optimizers_with_state[o], data);
        }
    backend = NULL;
    kolo_data_free(&data);
    remove(file);
}

/* With another number of workers, or another strategy, they begin anew with the centre's weights. */
static void other_workers_drop_their_state(void **state)
{
    (void)state;
    kolo_data *data = small_data(SAMPLES);
    open_file();
    kolo_model *three = plain_model(kolo_adam(), kolo_async_easgd(.workers = WORKERS));
    kolo_model *two = plain_model(kolo_adam(), kolo_async_easgd(.workers = 2));
    kolo_model *one = plain_model(kolo_adam(), kolo_one_device());
    fit_to(three, data, 1, false);
    assert_int_equal(kolo_checkpoint_save(three, file), KOLO_OK);
    assert_int_equal(kolo_checkpoint_load(two, file), KOLO_OK);
    assert_int_equal(kolo_checkpoint_load(one, file), KOLO_OK);
    assert_memory_equal(weights_of(three), weights_of(two), bytes_of(three));
    assert_memory_equal(weights_of(three), weights_of(one), bytes_of(three));
    fit_to(two, data, 2, true);
    fit_to(one, data, 2, true);
    kolo_model_free(&three);
    kolo_model_free(&two);
    kolo_model_free(&one);
    kolo_data_free(&data);
    remove(file);
}

/* The enqueued backend defers its work, and has a memory of its own, as a GPU has. */
static void a_deferred_stream_has_the_same_bits(void **state)
{
    (void)state;
    const kolo_strategy strategies[] = {kolo_parameter_server(),
                                        kolo_downpour(.window = 3),
                                        kolo_async_easgd(),
                                        kolo_async_eamsgd(.window = 2),
                                        kolo_easgd(),
                                        kolo_local_sgd(.window = 2)};
    for (size_t i = 0; i < sizeof strategies / sizeof *strategies; i++) {
        kolo_strategy strategy = strategies[i];
        float wanted[WEIGHTS], got[WEIGHTS];
        strategy.workers = WORKERS;
        backend = "reference";
        train(strategy, kolo_adam(), wanted);
        backend = "enqueued";
        train(strategy, kolo_adam(), got);
        assert_memory_equal(wanted, got, sizeof got);
    }
    backend = NULL;
}

/* ---------------------------------------------------------------- stragglers, stops, failures */

/* A training of a learner's own rule, whose workers wait, stop or fail as a test wants. */
static struct {
    int slow, fails, stops; /* the numbers of workers; -1: none */
    atomic_int exchanges[WORKERS];
    bool awaits; /* the others train on late batches only when the one that fails or stops has come to one */
    atomic_bool met; /* the worker has failed, or another one follows */
} own;

static kolo_status three(const kolo_strategy *strategy, int *count)
{
    (void)strategy;
    *count = WORKERS;
    return KOLO_OK;
}

static kolo_status own_step(kolo_replica *replica, const kolo_batch *batch)
{
    int number = kolo_worker_number(replica), odd = own.fails >= 0 ? own.fails : own.stops;
    bool late = batch->number > 4;
    if (number == own.slow) usleep(200000);
    for (int i = 0; late && own.awaits && number != odd && !own.met && i < 60000; i++) usleep(1000);
    if (late && number == odd) own.met = true;
    if (late && number == own.fails) return kolo_fail(KOLO_INVALID, "worker %d lost its way", number);
    if (late && number == own.stops) kolo_request_stop();
    return kolo_worker_step(replica, batch);
}

static void own_exchange(const kolo_strategy *strategy, const kolo_exchange *mine)
{
    (void)strategy;
    atomic_fetch_add(&own.exchanges[mine->number], 1);
    for (int64_t i = 0; i < mine->count; i++) mine->center[i] += (mine->weights[i] - mine->start[i]) / WORKERS;
    memcpy(mine->weights, mine->center, (size_t)mine->count * sizeof(float));
}

static void own_exchange_all(const kolo_strategy *strategy, const kolo_exchange *workers, int count)
{
    (void)strategy;
    (void)count;
    for (int64_t i = 0; i < workers->count; i++) workers->center[i] = workers->weights[i];
}

static const kolo_strategy_kind own_kind = {
    .name = "own", .replicas = three, .step = own_step, .exchange = own_exchange, .window = 1};
static const kolo_strategy_kind own_kind_at_once = {
    .name = "own", .replicas = three, .step = own_step, .exchange_all = own_exchange_all, .window = 1};

static const kolo_history *train_own(kolo_model *model, kolo_data *data, const kolo_strategy_kind *kind, bool in_turn)
{
    memset(own.exchanges, 0, sizeof own.exchanges);
    assert_int_equal(kolo_compile(model, .optimizer = kolo_sgd(), .loss = KOLO_SPARSE_CROSSENTROPY, .seed = 11,
                                  .strategy = kolo_strategy_of(kind), .deterministic = in_turn),
                     KOLO_OK);
    return kolo_fit(model, data, .epochs = 2, .batch_size = 2, .verbose = KOLO_NONE);
}

/* 45 batches an epoch: the slow worker takes the fewest, and the others take the rest. */
static void a_straggler_holds_up_nobody(void **state)
{
    (void)state;
    kolo_data *data = small_data(SAMPLES);
    kolo_model *model = small_model();
    own.slow = 1, own.fails = own.stops = -1;
    const kolo_history *history = train_own(model, data, &own_kind, false);
    assert_non_null(history);
    assert_int_equal(history->epoch[1].images, SAMPLES);
    assert_int_equal(own.exchanges[0] + own.exchanges[1] + own.exchanges[2], 90);
    assert_true(own.exchanges[1] < own.exchanges[0] && own.exchanges[1] < own.exchanges[2]);
    kolo_model_free(&model);
    kolo_data_free(&data);
}

/* Each worker stays in its second part until another one has begun to exchange with the first; the last exchanges of an
 * epoch have nobody who follows, so once is enough. */
static void wait_for_company(const kolo_strategy *strategy, const kolo_exchange *mine)
{
    static _Thread_local const float *first;
    static _Thread_local int seen;
    (void)strategy;
    if (!first) first = mine->weights;
    if (mine->weights == first) seen = atomic_fetch_add(&own.exchanges[0], 1) + 1;
    for (int i = 0; mine->weights != first && !own.met && i < 60000; i++) {
        own.met = own.exchanges[0] > seen;
        usleep(1000);
    }
}

static const kolo_strategy_kind company_kind = {
    .name = "company", .replicas = three, .step = kolo_worker_step, .exchange = wait_for_company, .window = 1};

static void workers_exchange_with_several_servers_at_once(void **state)
{
    (void)state;
    kolo_data *data = small_data(SAMPLES);
    kolo_model *model = small_model();
    own.slow = own.fails = own.stops = -1;
    own.met = false;
    own.exchanges[0] = 0;
    assert_int_equal(kolo_compile(model, .optimizer = kolo_sgd(), .loss = KOLO_SPARSE_CROSSENTROPY,
                                  .strategy = kolo_strategy_of(&company_kind, .servers = 2)),
                     KOLO_OK);
    assert_non_null(kolo_fit(model, data, .batch_size = 2, .verbose = KOLO_NONE));
    assert_true(own.met);
    kolo_model_free(&model);
    kolo_data_free(&data);
}

static void a_failed_worker_ends_all_with_its_sentence(void **state)
{
    (void)state;
    kolo_data *data = small_data(SAMPLES);
    kolo_model *model = small_model();
    own.slow = own.stops = -1;
    for (int i = 0; i < 9; i++) {
        own.fails = i % 3;
        own.met = false;
        own.awaits = i < 6; /* or the others may take all batches; the last three come to each exchange together */
        assert_null(train_own(model, data, i < 6 ? &own_kind : &own_kind_at_once, i < 3));
        assert_non_null(strstr(kolo_last_error().text, "lost its way"));
        kolo_clear_error();
        own.fails = -1;
        own.awaits = false;
        assert_non_null(train_own(model, data, &own_kind, false)); /* the model can be trained again */
    }
    kolo_model_free(&model);
    kolo_data_free(&data);
}

static void a_requested_stop_ends_all(void **state)
{
    (void)state;
    kolo_data *data = small_data(SAMPLES);
    kolo_model *model = small_model();
    own.slow = own.fails = -1;
    for (int i = 0; i < 9; i++) {
        own.stops = i % 3;
        own.met = false;
        own.awaits = i < 6; /* as above */
        const kolo_history *history = train_own(model, data, i < 6 ? &own_kind : &own_kind_at_once, i < 3);
        assert_non_null(history);
        assert_true(history->stopped);
        assert_true(history->epochs < 2);
        kolo_clear_error();
    }
    kolo_model_free(&model);
    kolo_data_free(&data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_rule_has_the_bits_of_its_simulation),
        cmocka_unit_test(a_parameter_server_descends_by_each_gradient),
        cmocka_unit_test(servers_do_not_change_the_bits),
        cmocka_unit_test(exchanges_of_all_have_the_bits_of_their_simulation),
        cmocka_unit_test(members_of_an_ensemble_are_plain_trainings),
        cmocka_unit_test(only_an_ensemble_has_members),
        cmocka_unit_test(one_worker_is_plain_training),
        cmocka_unit_test(a_record_is_replayed_to_the_bit),
        cmocka_unit_test(workers_go_on_from_a_checkpoint),
        cmocka_unit_test(other_workers_drop_their_state),
        cmocka_unit_test(a_deferred_stream_has_the_same_bits),
        cmocka_unit_test(a_straggler_holds_up_nobody),
        cmocka_unit_test(workers_exchange_with_several_servers_at_once),
        cmocka_unit_test(a_failed_worker_ends_all_with_its_sentence),
        cmocka_unit_test(a_requested_stop_ends_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
