/* Strategies of workers. Each rule is written out once more here, in a plain simulation without threads: with the same
 * order of exchanges, training gives its bits. */
#include "ext/strategy/workers.h"

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

/* xᵢ ← xᵢ − η·gᵢ − α(xᵢ − c), c ← c + α·Σᵢ(xᵢ − c) in the last step of each window of each of 3 workers */
static void simulate_easgd(simulation *s, int window)
{
    float alpha = (float)(0.1 * 4);
    for (int b = 0; b < EPOCHS * BATCHES; b += WORKERS * window) {
        for (int w = 0; w < WORKERS; w++)
            for (int k = 0; k < window; k++) step_from_old(s, w, (b + w * window + k) % BATCHES);
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
    for (int i = 0; i < 3; i++) {
        float got[WEIGHTS];
        int o = (i + window / 2) % count; /* over the windows each optimizer meets each script */
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
        for (int which = 0; which < 5; which++) {
            float got[WEIGHTS];
            simulation *s = begin(optimizer[o]);
            const kolo_strategy strategies[] = {
                kolo_easgd(.workers = WORKERS, .rho = 4), kolo_averaging(.workers = WORKERS),
                kolo_local_sgd(.workers = WORKERS, .window = 1), kolo_local_sgd(.workers = WORKERS),
                kolo_easgd(.workers = WORKERS, .rho = 4, .window = 2)};
            static const int windows[] = {1, BATCHES / WORKERS, 1, 8, 2};
            if (which == 0 || which == 4) simulate_easgd(s, windows[which]);
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

/* Each batch has another rate. */
static kolo_optimizer scheduled(void)
{
    return kolo_adam(.schedule = kolo_cosine_decay(.initial_learning_rate = 0.01, .decay_steps = EPOCHS * BATCHES));
}

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
    for (int o = 0; o <= count; o++)
        for (size_t i = 0; i < sizeof strategies / sizeof *strategies; i++) {
            float wanted[WEIGHTS], got[WEIGHTS];
            kolo_optimizer used = o < count ? optimizer[o] : scheduled();
            train((kolo_strategy){0}, used, wanted);
            train(strategies[i], used, got);
            assert_memory_equal(got, wanted, sizeof got);
        }
}

/* A rate that a callback sets before a batch is that batch's. */
static void set_no_rate(kolo_callback *self, int batch, const kolo_logs *logs)
{
    (void)logs;
    if (batch >= 1) kolo_set_learning_rate(self->model, 0);
}

static void a_callback_sets_the_rate_of_its_batch(void **state)
{
    (void)state;
    const kolo_strategy strategies[] = {
        {0}, kolo_downpour(.workers = 1, .window = 1), kolo_parameter_server(.workers = 1)};
    float got[3][WEIGHTS] = {{0}};
    kolo_data *data = small_data(SAMPLES);
    for (int i = 0; i < 3; i++) {
        kolo_model *model = plain_model(kolo_sgd(.learning_rate = 0.1), strategies[i]);
        assert_non_null(kolo_fit(model, data, .batch_size = BATCH, .no_shuffle = true, .verbose = KOLO_NONE,
                                 .callbacks = {{.on_train_batch_begin = set_no_rate}}));
        memcpy(got[i], weights_of(model), bytes_of(model));
        kolo_model_free(&model);
    }
    assert_memory_equal(got[1], got[0], sizeof got[0]);
    assert_memory_equal(got[2], got[0], sizeof got[0]);
    kolo_data_free(&data);
}

static void a_schedule_does_not_depend_on_time(void **state)
{
    (void)state;
    const kolo_strategy strategies[] = {kolo_parameter_server(.workers = 4), kolo_downpour(.workers = 4, .window = 2),
                                        kolo_async_easgd(.workers = 4, .window = 2), kolo_easgd(.workers = 4)};
    for (size_t i = 0; i < sizeof strategies / sizeof *strategies; i++) {
        float first[WEIGHTS], again[WEIGHTS];
        train(strategies[i], scheduled(), first);
        for (int run = 0; run < 3; run++) {
            train(strategies[i], scheduled(), again);
            assert_memory_equal(first, again, sizeof first);
        }
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
        kolo_optimizer optimizer = i % 2 ? kolo_adam() : scheduled();
        float recorded[WEIGHTS], replayed[WEIGHTS];
        strategy.workers = 4;
        strategy.window = strategy.kind->updates_center ? 1 : 2;
        strategy.servers = strategy.kind->exchange_all ? 1 : 3;
        strategy.record = file;
        train(strategy, optimizer, recorded);
        strategy.record = NULL;
        strategy.replay = file;
        strategy.servers = 0;
        train(strategy, optimizer, replayed);
        assert_memory_equal(recorded, replayed, sizeof recorded);
    }
    as_it_happens = false;
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
        cmocka_unit_test(a_callback_sets_the_rate_of_its_batch),
        cmocka_unit_test(a_schedule_does_not_depend_on_time),
        cmocka_unit_test(a_record_is_replayed_to_the_bit),
        cmocka_unit_test(a_deferred_stream_has_the_same_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
