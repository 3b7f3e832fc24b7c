/* The plugin libkolo_curl.so: fetching with libcurl, SHA-256 with libcrypto. Read fetch.h first. */
#include "fetch/fetch.h"
#include "core/plugin.h"

#include <curl/curl.h>
#include <openssl/evp.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define CONNECT_SECONDS 30L
#define REDIRECTS       10L

typedef struct transfer {
    CURL *curl;
    kolo_fetch_sink *sink;
    int64_t from;
    bool begun;
    kolo_status status;
} transfer;

/* ------------------------------------------------------------------------------------------ hooks of curl */

/* A response of status 206 begins at the requested byte, one of status 200 at byte 0. file:// has no status and
 * begins at the requested byte. */
static kolo_status begin(transfer *t)
{
    long code = 0;
    curl_off_t length = -1;
    char *scheme = NULL;
    curl_easy_getinfo(t->curl, CURLINFO_RESPONSE_CODE, &code);
    curl_easy_getinfo(t->curl, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
    curl_easy_getinfo(t->curl, CURLINFO_SCHEME, &scheme);
    bool partial = code == 206 || (scheme && strcasecmp(scheme, "file") == 0);
    int64_t from = partial ? t->from : 0;
    t->begun = true;
    return t->sink->begin(t->sink, from, length < 0 ? -1 : from + length);
}

static size_t on_bytes(char *bytes, size_t one, size_t size, void *user)
{
    transfer *t = user;
    if (!t->begun) t->status = begin(t);
    if (t->status == KOLO_OK) t->status = t->sink->add(t->sink, bytes, one * size);
    return t->status == KOLO_OK ? one * size : 0;
}

static int on_progress(void *user, curl_off_t total, curl_off_t now, curl_off_t up_total, curl_off_t up_now)
{
    transfer *t = user;
    (void)total, (void)now, (void)up_total, (void)up_now;
    return t->sink->stopped(t->sink);
}

/* ------------------------------------------------------------------------------------------ one transfer */

static void set_options(transfer *t, const char *url, int patience, char why[CURL_ERROR_SIZE])
{
    CURL *curl = t->curl;
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https,file");
    curl_easy_setopt(curl, CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 1L);
    curl_easy_setopt(curl, CURLOPT_MAXREDIRS, REDIRECTS);
    curl_easy_setopt(curl, CURLOPT_FAILONERROR, 1L);
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L); /* signals are not safe with threads */
    curl_easy_setopt(curl, CURLOPT_USERAGENT, "kolo/" KOLO_VERSION);
    curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, CONNECT_SECONDS);
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, (long)patience);
    curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, why);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_bytes);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, t);
    curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, on_progress);
    curl_easy_setopt(curl, CURLOPT_XFERINFODATA, t);
}

/* Requests the bytes from t->from on. Sets the Range header itself, because curl's option fails if the server answers
 * with the whole file. The caller frees the list. */
static struct curl_slist *ask_range(transfer *t, const char *url)
{
    char header[64];
    if (t->from == 0) return NULL;
    if (strncmp(url, "file:", 5) == 0) {
        curl_easy_setopt(t->curl, CURLOPT_RESUME_FROM_LARGE, (curl_off_t)t->from);
        return NULL;
    }
    snprintf(header, sizeof header, "Range: bytes=%lld-", (long long)t->from);
    struct curl_slist *headers = curl_slist_append(NULL, header);
    curl_easy_setopt(t->curl, CURLOPT_HTTPHEADER, headers);
    return headers;
}

static bool worth_another_try(CURLcode code, long answer)
{
    switch (code) {
    case CURLE_PARTIAL_FILE:
    case CURLE_RECV_ERROR:
    case CURLE_GOT_NOTHING:
    case CURLE_OPERATION_TIMEDOUT:
    case CURLE_HTTP2:
    case CURLE_HTTP2_STREAM: return true;
    case CURLE_HTTP_RETURNED_ERROR: return answer >= 500 || answer == 429;
    default: return false;
    }
}

static kolo_fetch_result result_of(transfer *t, CURLcode code, const char *why)
{
    long answer = 0;
    kolo_fetch_result result = {.status = t->status};
    curl_easy_getinfo(t->curl, CURLINFO_RESPONSE_CODE, &answer);
    if (t->status == KOLO_OK && code == CURLE_OK && !t->begun) t->status = result.status = begin(t);
    if (t->status != KOLO_OK || code == CURLE_OK || answer == 416) return result; /* 416: no bytes from `from` on */
    bool missing = answer == 404 || answer == 410 || code == CURLE_FILE_COULDNT_READ_FILE;
    result.status = code == CURLE_ABORTED_BY_CALLBACK ? KOLO_INTERRUPTED : missing ? KOLO_NOT_FOUND : KOLO_IO;
    result.again = worth_another_try(code, answer);
    snprintf(result.why, sizeof result.why, "%s", *why ? why : curl_easy_strerror(code));
    return result;
}

static void start_curl(void)
{
    curl_global_init(CURL_GLOBAL_DEFAULT);
}

static kolo_fetch_result get(const char *url, int64_t from, int patience, kolo_fetch_sink *sink)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    static char none[] = "libcurl does not start";
    char why[CURL_ERROR_SIZE] = "";
    pthread_once(&once, start_curl);
    transfer t = {.curl = curl_easy_init(), .sink = sink, .from = from};
    if (!t.curl) {
        kolo_fetch_result result = {.status = KOLO_MEMORY};
        memcpy(result.why, none, sizeof none);
        return result;
    }
    set_options(&t, url, patience, why);
    struct curl_slist *headers = ask_range(&t, url);
    kolo_fetch_result result = result_of(&t, curl_easy_perform(t.curl), why);
    curl_easy_cleanup(t.curl);
    curl_slist_free_all(headers);
    return result;
}

/* ------------------------------------------------------------------------------------------ sums */

static void *sum_begin(void)
{
    EVP_MD_CTX *sum = EVP_MD_CTX_new();
    if (sum && EVP_DigestInit_ex(sum, EVP_sha256(), NULL) == 1) return sum;
    EVP_MD_CTX_free(sum);
    return NULL;
}

static void sum_add(void *sum, const void *bytes, size_t size)
{
    EVP_DigestUpdate(sum, bytes, size);
}

static void sum_end(void *sum, char text[KOLO_SHA256_TEXT])
{
    unsigned char digest[EVP_MAX_MD_SIZE] = {0};
    EVP_DigestFinal_ex(sum, digest, NULL);
    EVP_MD_CTX_free(sum);
    for (int i = 0; text && i < 32; i++) snprintf(text + 2 * i, 3, "%02x", digest[i]);
}

static const kolo_fetcher fetcher = {get, sum_begin, sum_add, sum_end};

extern const kolo_plugin kolo_plugin_entry;
const kolo_plugin kolo_plugin_entry = {.version = KOLO_PLUGIN_VERSION, .fetcher = &fetcher};
