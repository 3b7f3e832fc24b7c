/* Made by keras_text.py with Keras 3.15.1: do not edit. */
/* clang-format off */
static const char keras_lines[] =
    "The cat sat. The CAT ran!\012"
    "a dog's bone; \303\234ber na\303\257ve caf\303\251\012"
    "tab\011sep b-c d_e [UNK] x\012"
    "zeta alpha zeta beta alpha 12 1.5\012"
    "non\302\240breaking \303\200\303\211\012"
    "<br />foo\012"
    "one two three four five six seven eight\012"
    "!\077\012"
    "don't stop\012";
static const char *const keras_plain_words[37] = {"", "[UNK]", "zeta", "the", "cat", "alpha", "\303\234ber", "\303\200\303\211", "x", "unk", "two", "three", "tab", "stop", "six", "seven", "sep", "sat", "ran", "one", "non\302\240breaking", "na\303\257ve", "four", "foo", "five", "eight", "dont", "dogs", "de", "caf\303\251", "br", "bone", "beta", "bc", "a", "15", "12"};
static const int keras_plain_rows[8][7] = {{3, 4, 17, 3, 4, 18, 0}, {34, 27, 31, 6, 21, 29, 0}, {12, 16, 33, 28, 9, 8, 0}, {2, 5, 2, 32, 5, 36, 35}, {20, 7, 0, 0, 0, 0, 0}, {30, 23, 0, 0, 0, 0, 0}, {19, 10, 11, 22, 24, 14, 15}, {26, 13, 0, 0, 0, 0, 0}};
static const char *const keras_small_words[8] = {"", "[UNK]", "zeta", "the", "cat", "alpha", "\303\234ber", "\303\200\303\211"};
static const int keras_small_rows[8][5] = {{3, 4, 1, 3, 4}, {1, 1, 1, 6, 1}, {1, 1, 1, 1, 1}, {2, 5, 2, 1, 5}, {1, 7, 0, 0, 0}, {1, 1, 0, 0, 0}, {1, 1, 1, 1, 1}, {1, 1, 0, 0, 0}};
static const char *const keras_separate_words[48] = {"", "[UNK]", "zeta", "the", "cat", "alpha", "!", "\303\234ber", "\303\200\303\211", "x", "two", "three", "tab", "stop", "six", "seven", "sep", "sat", "ran", "one", "non\302\240breaking", "na\303\257ve", "four", "five", "eight", "don", "dog", "d", "caf\303\251", "bone", "beta", "b", "a", "_e", "]", "[unk", "\077", ">foo", "<br", ";", "12", "1", "/", ".5", ".", "-c", "'t", "'s"};
static const int keras_separate_rows[9][7] = {{3, 4, 17, 44, 3, 4, 18}, {32, 26, 47, 29, 39, 7, 21}, {12, 16, 31, 45, 27, 33, 35}, {2, 5, 2, 30, 5, 40, 41}, {20, 8, 0, 0, 0, 0, 0}, {38, 42, 37, 0, 0, 0, 0}, {19, 10, 11, 22, 23, 14, 15}, {6, 36, 0, 0, 0, 0, 0}, {25, 46, 13, 0, 0, 0, 0}};
static const char *const keras_kept_words[38] = {"", "[UNK]", "zeta", "alpha", "The", "\303\234ber", "\303\200\303\211", "x", "two", "three", "tab", "stop", "six", "seven", "sep", "sat.", "ran!", "one", "non\302\240breaking", "na\303\257ve", "four", "five", "eight", "don't", "dog's", "d_e", "cat", "caf\303\251", "bone;", "beta", "b-c", "a", "CAT", "<br", "12", "1.5", "/>foo", "!\077"};
static const int keras_kept_rows[9][7] = {{4, 26, 15, 4, 32, 16, 0}, {31, 24, 28, 5, 19, 27, 0}, {10, 14, 30, 25, 1, 7, 0}, {2, 3, 2, 29, 3, 34, 35}, {18, 6, 0, 0, 0, 0, 0}, {33, 36, 0, 0, 0, 0, 0}, {17, 8, 9, 20, 21, 12, 13}, {37, 0, 0, 0, 0, 0, 0}, {23, 11, 0, 0, 0, 0, 0}};
