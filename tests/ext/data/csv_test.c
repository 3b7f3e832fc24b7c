/* CSV files: headers, kinds of columns, labels, missing values, and a sentence for each thing that is wrong. */
#include "ext/data/files.h"
#include "data/csv_scan.h"
#include "data/higgs.h"

#include <locale.h>
#include <math.h>

static int clean(void **state)
{
    (void)state;
    kolo_clear_error();
    return system("rm -rf *");
}

static void write_text(const char *path, const char *text)
{
    write_file(path, text, strlen(text));
}

static float features[64];
static int label;

static void assert_row(const kolo_data *data, int64_t row, int wanted_label, int count, const float *wanted)
{
    assert_int_equal(kolo_data_sample(data, row, features, &label), KOLO_OK);
    for (int i = 0; i < count; i++)
        if (features[i] != wanted[i])
            fail_msg("row %d, feature %d: wanted %g, got %g", (int)row, i, wanted[i], features[i]);
    assert_int_equal(label, wanted_label);
}

static void a_header_names_the_features(void **state)
{
    (void)state;
    write_text("plain", "height,width,Label,depth\n1,2,0,3\n4,5.5,2,-6e1\n");
    kolo_data *data = kolo_csv("plain");
    kolo_data_info info = kolo_data_get_info(data);
    assert_int_equal(info.samples, 2);
    assert_int_equal(info.shape[0], 3);
    assert_int_equal(info.classes, 3);
    assert_null(info.class_names);
    assert_string_equal(info.feature_names[2], "depth");
    assert_string_equal(info.source, "plain");
    assert_row(data, 0, 0, 3, (float[]){1, 2, 3});
    assert_row(data, 1, 2, 3, (float[]){4, 5.5f, -60});
    kolo_data_free(&data);
}

static void whatever_ends_lines_and_separates_cells(void **state)
{
    (void)state;
    static const char *const files[] = {
        "1,2,0\n3,4,1\n",
        "1,2,0\n3,4,1",
        "1,2,0\r\n3,4,1\r\n",
        "1,2,0\r3,4,1\r",
        "\xef\xbb\xbf"
        "1;2;0\n3;4;1",
        "1\t2\t0\n3\t4\t1\n",
        " 1 , 2,0\n\n\n3,4 ,1\n\n",
        "\"1\",\"2\",0\n3,\"4\",\"1\"\n",
        "1|2|0\n3|4|1\n",
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        write_text("file", files[i]);
        kolo_data *data = kolo_csv("file");
        assert_int_equal(kolo_data_get_info(data).samples, 2);
        assert_null(kolo_data_get_info(data).feature_names);
        assert_row(data, 0, 0, 2, (float[]){1, 2});
        assert_row(data, 1, 1, 2, (float[]){3, 4});
        kolo_data_free(&data);
        write_gzip("file.gz", files[i], strlen(files[i]));
        data = kolo_csv("file.gz");
        assert_row(data, 1, 1, 2, (float[]){3, 4});
        kolo_data_free(&data);
    }
}

static void words_are_numbered_by_how_often_they_come(void **state)
{
    (void)state;
    write_text("words", "colour,size,kind\nred,1,\"a, \"\"b\"\"\"\nblue,2,s\nblue,3,s\ngreen,4,\"two\nlines\"\n");
    kolo_data *data = kolo_csv("words");
    kolo_data_info info = kolo_data_get_info(data);
    assert_int_equal(info.classes, 3);
    assert_string_equal(info.class_names[0], "s");
    assert_string_equal(info.class_names[1], "a, \"b\""); /* before "two": equally often */
    assert_string_equal(info.class_names[2], "two\nlines");
    assert_row(data, 0, 1, 2, (float[]){2, 1}); /* blue, green, red */
    assert_row(data, 1, 0, 2, (float[]){0, 2});
    assert_row(data, 3, 2, 2, (float[]){1, 4});
    kolo_data_free(&data);
    data = kolo_csv("words", .label_column = "kind", .classes = {"two\nlines", "s", "a, \"b\"", "never"});
    assert_int_equal(kolo_data_get_info(data).classes, 4);
    assert_row(data, 1, 1, 2, (float[]){0, 2});
    kolo_data_free(&data);
    assert_null(kolo_csv("words", .classes = {"s", "b"}));
    assert_failure(KOLO_FORMAT,
                   "kolo_csv: words: line 2: column 2 (\"kind\"): wanted one of .classes, got \"a, \"b\"\"", NULL);
}

static void the_label_is_named_or_numbered(void **state)
{
    (void)state;
    write_text("numbers", "1,10,100\n0,20,200\n");
    kolo_data *data = kolo_csv("numbers", .label_column = "0");
    assert_row(data, 0, 1, 2, (float[]){10, 100});
    kolo_data_free(&data);
    data = kolo_csv("numbers", .label_column = "-3", .drop = {"1"});
    assert_row(data, 1, 0, 1, (float[]){200});
    kolo_data_free(&data);
    data = kolo_csv("numbers", .no_label = true);
    assert_row(data, 1, -1, 3, (float[]){0, 20, 200});
    kolo_data_free(&data);
    data = kolo_csv("numbers", .header = 1);
    assert_int_equal(kolo_data_get_info(data).samples, 1);
    assert_string_equal(kolo_data_get_info(data).feature_names[1], "10");
    kolo_data_free(&data);
    assert_null(kolo_csv("numbers", .label_column = "3"));
    assert_failure(KOLO_INVALID, "wanted .label_column a column of 0 to 2 (there is no header), got \"3\"", NULL);
    write_text("header", "a,b\n1,2\n");
    assert_null(kolo_csv("header", .drop = {"c"}));
    assert_failure(KOLO_INVALID, "wanted .drop a column of the file (a, b), got \"c\"", NULL);
    assert_null(kolo_csv("header", .drop = {"a"}));
    assert_failure(KOLO_FORMAT, "wanted at least one column of features, got 2 columns in all", NULL);
}

static void real_labels_are_targets(void **state)
{
    (void)state;
    write_text("real", "a,price,w\n1,2.5,1\n2,3,0.5\n");
    kolo_data *data = kolo_csv("real", .label_column = "price", .weight_column = "w");
    kolo_data_info info = kolo_data_get_info(data);
    assert_int_equal(info.classes, 0);
    assert_int_equal(info.labels, 0);
    assert_int_equal(info.target_shape[0], 1);
    assert_int_equal(info.shape[0], 1);
    kolo_data_free(&data);
    write_text("whole", "a,price\n1,200000\n2,300000\n");
    data = kolo_csv("whole");
    assert_int_equal(kolo_data_get_info(data).target_rank, 1);
    kolo_data_free(&data);
    write_text("words", "a,y\n1,much\n");
    write_text("signs", "a,y\n1,-1\n2,1\n3,1\n");
    data = kolo_csv("signs");
    info = kolo_data_get_info(data);
    assert_string_equal(info.class_names[0], "1");
    assert_string_equal(info.class_names[1], "-1");
    kolo_data_free(&data);
    assert_null(kolo_csv("words", .regression = true, .categorical = {"y"}));
    assert_failure(KOLO_FORMAT, "words: line 2: column 1 (\"y\"): wanted a number", NULL);
    data = kolo_csv("signs", .regression = true);
    assert_int_equal(kolo_data_get_info(data).target_rank, 1);
    kolo_data_free(&data);
}

static void what_is_missing_is_filled_as_asked(void **state)
{
    (void)state;
    write_text("holes", "a,b,c,y\n1,x,-999,0\n,y,4,1\n3,NA,8,0\n5,y,-999.0,1\n");
    assert_null(kolo_csv("holes"));
    assert_failure(KOLO_FORMAT, "holes: line 3: column 0 (\"a\"): wanted something (or .on_missing", "got \"\"", NULL);
    kolo_data *data = kolo_csv("holes", .missing = -999, .on_missing = KOLO_MISSING_MEAN);
    assert_row(data, 0, 0, 3, (float[]){1, 1, 6});
    assert_row(data, 1, 1, 3, (float[]){3, 0, 4});
    assert_row(data, 2, 0, 3, (float[]){3, 0, 8});
    kolo_data_free(&data);
    data = kolo_csv("holes", .on_missing = KOLO_MISSING_ZERO);
    assert_row(data, 1, 1, 3, (float[]){0, 0, 4});
    assert_row(data, 3, 1, 3, (float[]){5, 0, -999});
    kolo_data_free(&data);
    data = kolo_csv("holes", .missing = -999, .on_missing = KOLO_MISSING_KEEP);
    assert_int_equal(kolo_data_sample(data, 2, features, NULL), KOLO_OK);
    assert_true(isnan(features[1]) && features[2] == 8);
    kolo_data_free(&data);
    data = kolo_csv("holes", .on_missing = KOLO_MISSING_DROP);
    assert_int_equal(kolo_data_get_info(data).samples, 2);
    assert_row(data, 1, 1, 3, (float[]){5, 0, -999});
    kolo_data_free(&data);
    write_text("question", "a,y\n?,1\n2,0\n");
    data = kolo_csv("question", .missing_text = "?", .on_missing = KOLO_MISSING_ZERO);
    assert_row(data, 0, 1, 1, (float[]){0});
    kolo_data_free(&data);
    write_text("no label", "a,y\n1,1\n2,\n3,0\n");
    assert_null(kolo_csv("no label", .on_missing = KOLO_MISSING_MEAN));
    assert_failure(KOLO_FORMAT, "no label: line 3: column 1 (\"y\"): wanted a label, got \"\"", NULL);
    data = kolo_csv("no label", .on_missing = KOLO_MISSING_DROP);
    assert_row(data, 1, 0, 1, (float[]){3});
    kolo_data_free(&data);
}

static void a_test_table_is_read_as_its_training_table(void **state)
{
    (void)state;
    write_text("train", "colour,size,kind\nred,1,a\nblue,2,b\nblue,3,b\n");
    write_text("test", "colour,size,kind\nred,,a\nred,7,a\n");
    kolo_data *train = kolo_csv("train"), *part = kolo_data_slice(train, 1, 2);
    kolo_data *test = kolo_csv("test", .like = part, .on_missing = KOLO_MISSING_MEAN);
    kolo_data_free(&part);
    assert_int_equal(kolo_data_get_info(test).classes, 2);
    assert_string_equal(kolo_data_get_info(test).class_names[0], "b");
    assert_row(test, 0, 1, 2, (float[]){1, 2}); /* by itself: red 0, a 0, mean 7 */
    assert_row(test, 1, 1, 2, (float[]){1, 7});
    kolo_data *again = kolo_csv("train", .like = test);
    assert_row(again, 1, 0, 2, (float[]){0, 2});
    kolo_data_free(&test), kolo_data_free(&again);
    static const struct {
        const char *text, *why;
    } wrong[] = {
        {"colour,size,kind\nred,1,a\npink,1,a\n",
         "line 3: column 0 (\"colour\"): wanted a word that .like has here, got \"pink\""},
        {"colour,size,kind\nred,1,c\n", "line 2: column 2 (\"kind\"): wanted a word that .like has here"},
        {"colour,size,kind\nred,x,a\n", "column 1 (\"size\"): wanted a number"},
        {"colour,length,kind\nred,1,a\n", "feature 1: wanted \"size\", as .like has, got \"length\""},
        {"colour,kind\nred,a\n", "wanted 2 features, as .like has, got 1"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        write_text("wrong", wrong[i].text);
        assert_null(kolo_csv("wrong", .like = train));
        assert_failure(KOLO_FORMAT, "kolo_csv: wrong: ", wrong[i].why, NULL);
    }
    kolo_data_free(&train);
    write_text("numbers", "1,0\n2,1\n");
    write_text("beyond", "1,0\n2,2\n");
    write_text("one", "1,0\n");
    train = kolo_csv("numbers");
    assert_null(kolo_csv("beyond", .like = train));
    assert_failure(KOLO_FORMAT, "beyond: column 1: wanted classes of 0 to 1, as .like has, got 0 to 2", NULL);
    test = kolo_csv("one", .like = train);
    assert_int_equal(kolo_data_get_info(test).classes, 2);
    kolo_data_free(&test), kolo_data_free(&train);
    train = kolo_synthetic_table(KOLO_TRAIN, .samples = 2, .features = 1);
    assert_null(kolo_csv("one", .like = train));
    assert_failure(KOLO_INVALID, "wanted .like made by kolo_csv(), got data of a table drawn", NULL);
    kolo_data_free(&train);
}

static void a_test_table_has_its_label_where_its_training_table_has(void **state)
{
    (void)state;
    write_text("train", "1,5,9,0.5\n0,6,8,0.25\n");
    write_text("test", "1,7,1,0.5\n");
    kolo_data *train = kolo_csv("train", .label_column = "0", .weight_column = "2", .drop = {"3"});
    kolo_data *test = kolo_csv("test", .like = train), *bare;
    assert_int_equal(kolo_data_get_info(test).classes, 2);
    assert_int_equal(kolo_data_get_info(test).shape[0], 1);
    assert_row(test, 0, 1, 1, (float[]){7});
    write_text("bare", "7\n");
    bare = kolo_csv("bare", .like = test, .no_label = true);
    assert_row(bare, 0, -1, 1, (float[]){7});
    kolo_data_free(&bare), kolo_data_free(&test);
    write_text("short", "1,7\n");
    assert_null(kolo_csv("short", .like = train));
    assert_failure(KOLO_FORMAT, "short: wanted 4 columns, as .like has, got 2", NULL);
    kolo_data_free(&train);
    write_text("named", "kind,size,id\n1,5,3\n0,6,4\n");
    write_text("moved", "id,kind,size\n9,1,7\n");
    train = kolo_csv("named", .label_column = "kind", .drop = {"id"});
    test = kolo_csv("moved", .like = train);
    assert_row(test, 0, 1, 1, (float[]){7});
    kolo_data_free(&test);
    write_text("unlabelled", "id,size\n9,7\n");
    assert_null(kolo_csv("unlabelled", .like = train));
    assert_failure(KOLO_FORMAT, "unlabelled: wanted a column \"kind\", the label as .like has it, got none", NULL);
    kolo_data_free(&train);
    write_text("features", "1,2\n3,4\n");
    train = kolo_csv("features", .no_label = true);
    test = kolo_csv("features", .like = train);
    assert_int_equal(kolo_data_get_info(test).shape[0], 2);
    kolo_data_free(&train), kolo_data_free(&test);
}

static void all_columns_of_a_name_are_dropped(void **state)
{
    (void)state;
    write_text("twice", "a,b,a,y\n1,2,3,0\n4,5,6,1\n");
    kolo_data *data = kolo_csv("twice", .drop = {"a"});
    assert_int_equal(kolo_data_get_info(data).shape[0], 1);
    assert_row(data, 1, 1, 1, (float[]){5});
    kolo_data_free(&data);
}

static void only_what_becomes_of_missing_cells_is_taken(void **state)
{
    (void)state;
    write_text("file", "a,y\n,1\n2,0\n");
    assert_null(kolo_csv("file", .on_missing = (kolo_missing)99));
    assert_failure(KOLO_INVALID, "wanted .on_missing one of KOLO_MISSING_FAIL", "got 99", NULL);
}

static void a_stray_word_is_no_category(void **state)
{
    (void)state;
    write_text("stray", "a,y\n1,0\n2,1\n1.2.3,1\n");
    assert_null(kolo_csv("stray"));
    assert_failure(KOLO_FORMAT, "stray: line 4: column 0 (\"a\"): wanted a number, as in 2 of its rows, got a word",
                   NULL);
    kolo_data *data = kolo_csv("stray", .categorical = {"a"});
    assert_row(data, 2, 1, 1, (float[]){1});
    kolo_data_free(&data);
}

static void wrong_files_are_one_sentence(void **state)
{
    (void)state;
    static const struct {
        const char *text, *why;
    } wrong[] = {
        {"a,b\n1,2\n1,2,3\n", "line 3: wanted 2 columns as in the first, got 3"},
        {"a,b\n\n\n1,2\n\"4\n\",2\n1\n", "line 7: wanted 2 columns as in the first, got 1"},
        {"a,b\n1,\"2\n", "line 2: truncated: a quoted cell that begins here has no end"},
        {"a,b\n1,2\n1,\"2\"x\n", "line 3: wanted quotes around a whole cell"},
        {"a,b\n", "wanted rows, got a header alone"},
        {"\n\n", "wanted rows, got none"},
        {"a\n1\n", "wanted at least one column of features, got 1 columns in all"},
        {"a,b\n1e300,0\n", "line 2: column 0 (\"a\"): wanted a number that a float holds, got \"1e300\""},
        {"\xff\xfe"
         "a,b",
         "wanted text in UTF-8, got UTF-16"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        write_text("wrong", wrong[i].text);
        assert_null(kolo_csv("wrong"));
        assert_failure(KOLO_FORMAT, "kolo_csv: wrong: ", wrong[i].why, NULL);
    }
    write_text("wrong", "");
    assert_null(kolo_csv("wrong"));
    assert_failure(KOLO_FORMAT, "wanted a CSV file, got an empty file", NULL);
    write_file("wrong", "a,b\n1,2\n3\0,4\n", 13);
    assert_null(kolo_csv("wrong"));
    assert_failure(KOLO_FORMAT, "wrong: line 3: wanted text, got a byte of 0", NULL);
    assert_null(kolo_csv("missing"));
    assert_failure(KOLO_NOT_FOUND, "missing: wanted a file to read", NULL);
    assert_null(kolo_csv(NULL));
    assert_failure(KOLO_INVALID, "wanted the name of a CSV file, got NULL", NULL);
}

/* The fast way and strtod must agree to the last bit. */
static void numbers_are_rounded_correctly(void **state)
{
    (void)state;
    static const char *const texts[] = {"0",
                                        "-0",
                                        "1",
                                        "+1.5",
                                        ".5",
                                        "5.",
                                        "1e22",
                                        "1e23",
                                        "1e-22",
                                        "8.692932128906250000e-01",
                                        "0.1",
                                        "123456789012345678901234567890",
                                        "1e-320",
                                        "4.9e-324",
                                        "1e400",
                                        "-1E+05",
                                        "0.000000000000000000000000000001",
                                        "9007199254740993",
                                        "3.4028235e38",
                                        "1.7976931348623157e308"};
    static const char *const none[] = {"", ".", "-", "1e", "1e+", "0x10", "1 2", "1,5", "nan", "1.2.3", "--1", "1f"};
    locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    double number;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        assert_true(kolo_csv_number((kolo_csv_cell){texts[i], strlen(texts[i])}, c, &number));
        double wanted = strtod(texts[i], NULL);
        if (memcmp(&number, &wanted, sizeof number) != 0)
            fail_msg("%s: wanted %.17g, got %.17g", texts[i], wanted, number);
    }
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        if (kolo_csv_number((kolo_csv_cell){none[i], strlen(none[i])}, c, &number))
            fail_msg("\"%s\" is no number", none[i]);
    assert_true(kolo_csv_number((kolo_csv_cell){"-Infinity", 9}, c, &number) && number == -INFINITY);
    for (int i = 0; i < 20000; i++) { /* what printf writes of any double */
        char text[64];
        uint64_t bits = (uint64_t)i * 0x9E3779B97F4A7C15u;
        double value;
        memcpy(&value, &bits, sizeof value);
        if (!isfinite(value)) continue;
        snprintf(text, sizeof text, i % 2 ? "%.17g" : "%.9g", value);
        double wanted = strtod(text, NULL);
        assert_true(kolo_csv_number((kolo_csv_cell){text, strlen(text)}, c, &number));
        assert_memory_equal(&number, &wanted, sizeof number);
    }
    freelocale(c);
}

static void every_truncation_and_change_is_survived(void **state)
{
    (void)state;
    static const char text[] = "colour,size,kind\nred,1,\"a, \"\"b\"\"\"\nblue,2,s\nblue,,s\ngreen,4,\"two\nlines\"\n";
    char bytes[sizeof text];
    for (size_t cut = 1; cut < sizeof text; cut++) {
        write_file("cut", text, cut);
        kolo_data *data = kolo_csv("cut", .on_missing = KOLO_MISSING_MEAN);
        kolo_data_free(&data);
        kolo_clear_error();
    }
    for (size_t at = 0; at < sizeof text - 1; at++)
        for (int to = 0; to < 256; to += 3) {
            memcpy(bytes, text, sizeof text);
            bytes[at] = (char)to;
            write_file("changed", bytes, sizeof text - 1);
            kolo_data *data = kolo_csv("changed", .on_missing = KOLO_MISSING_DROP);
            kolo_data_free(&data);
            kolo_clear_error();
        }
}

/* ------------------------------------------------------------------------------------------ HIGGS */

static void write_atlas(int rows)
{
    mkdir("higgs", 0755);
    FILE *file = fopen("higgs/atlas-higgs-challenge-2014-v2.csv", "w");
    assert_non_null(file);
    fprintf(file, "EventId");
    for (int i = 0; i < 30; i++) fprintf(file, ",F%d", i);
    fprintf(file, ",Weight,Label,KaggleSet,KaggleWeight\n");
    for (int row = 0; row < rows; row++) {
        fprintf(file, "%d", 100000 + row);
        for (int i = 0; i < 30; i++)
            if (i == 4 && row % 2) fprintf(file, ",-999.0");
            else fprintf(file, ",%d", row);
        fprintf(file, ",0.5,%c,t,0.25\n", "sssb"[row % 4]); /* s is the more frequent: b is 0 all the same */
    }
    fclose(file);
}

static void atlas_columns_are_sorted_out(void **state)
{
    (void)state;
    write_atlas(40);
    setenv("KOLO_DATA", ".", 1);
    bool seen[40] = {false};
    for (kolo_split split = KOLO_TRAIN; split <= KOLO_TEST; split++) {
        kolo_data *data = kolo_higgs(split);
        kolo_data_info info = kolo_data_get_info(data);
        assert_int_equal(info.samples, split == KOLO_TRAIN ? 28 : 12);
        assert_int_equal(info.shape[0], 30);
        assert_string_equal(info.class_names[0], "b");
        float mean = 0;
        for (int i = 0; i < info.samples; i++) {
            assert_int_equal(kolo_data_sample(data, i, features, &label), KOLO_OK);
            int row = (int)features[0];
            assert_false(seen[row]);
            seen[row] = true;
            assert_int_equal(label, row % 4 != 3);
            if (row % 2 == 0) assert_float_equal(features[4], (float)row, 0);
            else if (mean == 0) mean = features[4];
            else assert_float_equal(features[4], mean, 0);
        }
        assert_true(mean > 5 && mean < 35);
        kolo_data_free(&data);
    }
}

static void ucis_columns_with_and_without_a_header(void **state)
{
    (void)state;
    for (int header = 0; header < 2; header++) {
        if (system("rm -rf higgs") != 0) fail();
        mkdir("higgs", 0755);
        FILE *file = fopen("higgs/HIGGS.csv", "w");
        for (int i = 0; header && i < 29; i++) fprintf(file, i < 28 ? "f%d," : "label\n", i);
        for (int row = 0; row < 10; row++)
            for (int i = 0; i < 29; i++) {
                bool is_label = i == (header ? 28 : 0);
                fprintf(file, "%.18e%c", is_label ? row % 2 : row + 0.25, i < 28 ? ',' : '\n');
            }
        fclose(file);
        setenv("KOLO_DATA", ".", 1);
        kolo_data *data = kolo_dataset("higgs", KOLO_TRAIN);
        assert_int_equal(kolo_data_get_info(data).samples, 7);
        assert_int_equal(kolo_data_get_info(data).shape[0], 28);
        assert_int_equal(kolo_data_get_info(data).classes, 2);
        for (int i = 0; i < 7; i++) {
            assert_int_equal(kolo_data_sample(data, i, features, &label), KOLO_OK);
            assert_int_equal(label, (int)features[0] % 2);
        }
        kolo_data_free(&data);
    }
    write_text("higgs/HIGGS.csv", "a,b\n1,2\n");
    assert_null(kolo_higgs(KOLO_TRAIN));
    assert_failure(KOLO_FORMAT, "kolo_higgs: ./higgs/HIGGS.csv: wanted ATLAS's columns", "got 2 others", NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_header_names_the_features, clean),
        cmocka_unit_test_setup(whatever_ends_lines_and_separates_cells, clean),
        cmocka_unit_test_setup(words_are_numbered_by_how_often_they_come, clean),
        cmocka_unit_test_setup(the_label_is_named_or_numbered, clean),
        cmocka_unit_test_setup(real_labels_are_targets, clean),
        cmocka_unit_test_setup(what_is_missing_is_filled_as_asked, clean),
        cmocka_unit_test_setup(a_test_table_is_read_as_its_training_table, clean),
        cmocka_unit_test_setup(a_test_table_has_its_label_where_its_training_table_has, clean),
        cmocka_unit_test_setup(all_columns_of_a_name_are_dropped, clean),
        cmocka_unit_test_setup(only_what_becomes_of_missing_cells_is_taken, clean),
        cmocka_unit_test_setup(a_stray_word_is_no_category, clean),
        cmocka_unit_test_setup(wrong_files_are_one_sentence, clean),
        cmocka_unit_test_setup(numbers_are_rounded_correctly, clean),
        cmocka_unit_test_setup(every_truncation_and_change_is_survived, clean),
        cmocka_unit_test_setup(atlas_columns_are_sorted_out, clean),
        cmocka_unit_test_setup(ucis_columns_with_and_without_a_header, clean),
    };
    return cmocka_run_group_tests_name("data/csv", tests, enter_folder, leave_folder);
}
