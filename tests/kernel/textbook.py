"""Programs as textbooks have them: idiomatic C, of which gcc -Wall says nothing and the kernel must not either."""

PROGRAMS = {
    "temperatures": r"""
#include <stdio.h>
#define LOWER 0
#define UPPER 300
#define STEP 20
int main(void)
{
    int fahr;
    for (fahr = LOWER; fahr <= UPPER; fahr = fahr + STEP)
        printf("%3d %6.1f\n", fahr, (5.0 / 9.0) * (fahr - 32));
    return 0;
}""",
    "word count": r"""
#include <stdio.h>
#define IN 1
#define OUT 0
int main(void)
{
    int c, nl, nw, nc, state;
    const char *text = "now is the time\nfor all good men\n";
    state = OUT;
    nl = nw = nc = 0;
    while ((c = *text++) != '\0') {
        ++nc;
        if (c == '\n') ++nl;
        if (c == ' ' || c == '\n' || c == '\t') state = OUT;
        else if (state == OUT) {
            state = IN;
            ++nw;
        }
    }
    printf("%d %d %d\n", nl, nw, nc);
    return 0;
}""",
    "copy": r"""
#include <stdio.h>
void copy_string(char *s, const char *t)
{
    while ((*s++ = *t++))
        ;
}
int main(void)
{
    char into[20];
    copy_string(into, "textbook");
    puts(into);
    return 0;
}""",
    "string length": r"""
#include <stdio.h>
int length_of(const char s[])
{
    int i;
    for (i = 0; s[i] != '\0'; ++i);
    return i;
}
int main(void)
{
    printf("%d\n", length_of("length"));
    return 0;
}""",
    "longest line": r"""
#include <stdio.h>
#include <string.h>
#define MAXLINE 1000
static char longest[MAXLINE];
static void take(const char *line)
{
    if (strlen(line) > strlen(longest)) strcpy(longest, line);
}
int main(void)
{
    const char *lines[] = {"short", "a longer line", "mid"};
    size_t i;
    for (i = 0; i < sizeof lines / sizeof lines[0]; i++) take(lines[i]);
    printf("%s\n", longest);
    return 0;
}""",
    "binary search": r"""
#include <stdio.h>
int binsearch(int x, int v[], int n)
{
    int low = 0, high = n - 1, mid;
    while (low <= high) {
        mid = (low + high) / 2;
        if (x < v[mid]) high = mid - 1;
        else if (x > v[mid]) low = mid + 1;
        else return mid;
    }
    return -1;
}
int main(void)
{
    int v[] = {1, 3, 5, 7, 9};
    printf("%d %d\n", binsearch(7, v, 5), binsearch(4, v, 5));
    return 0;
}""",
    "atoi": r"""
#include <ctype.h>
#include <stdio.h>
int to_number(const char s[])
{
    int i, n, sign;
    for (i = 0; isspace((unsigned char)s[i]); i++)
        ;
    sign = (s[i] == '-') ? -1 : 1;
    if (s[i] == '+' || s[i] == '-') i++;
    for (n = 0; isdigit((unsigned char)s[i]); i++) n = 10 * n + (s[i] - '0');
    return sign * n;
}
int main(void)
{
    printf("%d\n", to_number("  -42x"));
    return 0;
}""",
    "shell sort": r"""
#include <stdio.h>
void shellsort(int v[], int n)
{
    int gap, i, j, temp;
    for (gap = n / 2; gap > 0; gap /= 2)
        for (i = gap; i < n; i++)
            for (j = i - gap; j >= 0 && v[j] > v[j + gap]; j -= gap) {
                temp = v[j];
                v[j] = v[j + gap];
                v[j + gap] = temp;
            }
}
int main(void)
{
    int v[] = {5, 2, 8, 1}, i;
    shellsort(v, 4);
    for (i = 0; i < 4; i++) printf("%d%c", v[i], (i == 3) ? '\n' : ' ');
    return 0;
}""",
    "reverse": r"""
#include <stdio.h>
#include <string.h>
void reverse(char s[])
{
    int c, i, j;
    for (i = 0, j = (int)strlen(s) - 1; i < j; i++, j--) c = s[i], s[i] = s[j], s[j] = (char)c;
}
int main(void)
{
    char word[] = "desserts";
    reverse(word);
    printf("%s\n", word);
    return 0;
}""",
    "bits": r"""
#include <stdio.h>
unsigned getbits(unsigned x, int p, int n) { return (x >> (p + 1 - n)) & ~(~0u << n); }
int bitcount(unsigned x)
{
    int b;
    for (b = 0; x != 0; x &= (x - 1)) b++;
    return b;
}
int main(void)
{
    printf("%u %d %#x\n", getbits(0xf5, 4, 3), bitcount(255), 0x7fu << 1 | 1);
    return 0;
}""",
    "calculator": r"""
#include <stdio.h>
#include <stdlib.h>
static int sp = 0;
static double val[100];
void push(double f)
{
    if (sp < 100) val[sp++] = f;
    else fprintf(stderr, "stack full\n");
}
double pop(void) { return sp > 0 ? val[--sp] : 0.0; }
int main(void)
{
    const char *p = "12 3 - 4 *";
    for (; *p; p++) {
        double op2;
        switch (*p) {
        case ' ': break;
        case '+': push(pop() + pop()); break;
        case '*': push(pop() * pop()); break;
        case '-':
            op2 = pop();
            push(pop() - op2);
            break;
        default: {
            char *end;
            push(strtod(p, &end));
            p = end - 1;
        }
        }
    }
    printf("%.8g\n", pop());
    return 0;
}""",
    "fall through": r"""
#include <stdio.h>
int days(int month, int leap)
{
    switch (month) {
    case 2:
        return leap ? 29 : 28;
    case 4:
    case 6:
    case 9:
    case 11:
        return 30;
    default:
        return 31;
    }
}
int main(void)
{
    printf("%d %d\n", days(2, 1), days(6, 0));
    return 0;
}""",
    "quick sort": r"""
#include <stdio.h>
#include <stdlib.h>
static int compare(const void *a, const void *b)
{
    int x = *(const int *)a, y = *(const int *)b;
    return (x > y) - (x < y);
}
int main(void)
{
    int v[] = {3, 1, 2};
    qsort(v, sizeof v / sizeof *v, sizeof *v, compare);
    printf("%d %d %d\n", v[0], v[1], v[2]);
    return 0;
}""",
    "list": r"""
#include <stdio.h>
#include <stdlib.h>
struct node {
    int value;
    struct node *next;
};
struct node *push_front(struct node *head, int value)
{
    struct node *n = malloc(sizeof *n);
    if (n == NULL) return head;
    n->value = value;
    n->next = head;
    return n;
}
int main(void)
{
    struct node *head = NULL, *p;
    for (int i = 0; i < 3; i++) head = push_front(head, i);
    for (p = head; p; p = p->next) printf("%d\n", p->value);
    while (head) {
        p = head->next;
        free(head);
        head = p;
    }
    return 0;
}""",
    "tree": r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
struct tnode {
    char *word;
    int count;
    struct tnode *left, *right;
};
struct tnode *addtree(struct tnode *p, const char *w)
{
    int cond;
    if (p == NULL) {
        p = (struct tnode *)malloc(sizeof(struct tnode));
        p->word = strdup(w);
        p->count = 1;
        p->left = p->right = NULL;
    } else if ((cond = strcmp(w, p->word)) == 0)
        p->count++;
    else if (cond < 0)
        p->left = addtree(p->left, w);
    else
        p->right = addtree(p->right, w);
    return p;
}
void treeprint(struct tnode *p)
{
    if (p != NULL) {
        treeprint(p->left);
        printf("%4d %s\n", p->count, p->word);
        treeprint(p->right);
    }
}
int main(void)
{
    const char *words[] = {"the", "quick", "the", "fox"};
    struct tnode *root = NULL;
    for (int i = 0; i < 4; i++) root = addtree(root, words[i]);
    treeprint(root);
    return 0;
}""",
    "hash table": r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define HASHSIZE 101
struct nlist { struct nlist *next; char *name; char *defn; };
static struct nlist *hashtab[HASHSIZE];
unsigned hash(const char *s)
{
    unsigned hashval;
    for (hashval = 0; *s != '\0'; s++) hashval = (unsigned)*s + 31 * hashval;
    return hashval % HASHSIZE;
}
struct nlist *lookup(const char *s)
{
    struct nlist *np;
    for (np = hashtab[hash(s)]; np != NULL; np = np->next)
        if (strcmp(s, np->name) == 0) return np;
    return NULL;
}
struct nlist *install(const char *name, const char *defn)
{
    struct nlist *np;
    unsigned hashval;
    if ((np = lookup(name)) == NULL) {
        np = malloc(sizeof(*np));
        if (np == NULL || (np->name = strdup(name)) == NULL) return NULL;
        hashval = hash(name);
        np->next = hashtab[hashval];
        hashtab[hashval] = np;
    } else
        free((void *)np->defn);
    if ((np->defn = strdup(defn)) == NULL) return NULL;
    return np;
}
int main(void)
{
    install("IN", "1");
    printf("%s\n", lookup("IN")->defn);
    return 0;
}""",
    "function pointers": r"""
#include <math.h>
#include <stdio.h>
typedef double (*function)(double);
static double integrate(function f, double a, double b, int n)
{
    double sum = 0, h = (b - a) / n;
    for (int i = 0; i < n; i++) sum += f(a + (i + 0.5) * h);
    return sum * h;
}
int main(void)
{
    function table[] = {sin, cos, exp};
    for (unsigned i = 0; i < sizeof table / sizeof *table; i++) printf("%.4f\n", integrate(table[i], 0, 1, 100));
    return 0;
}""",
    "union": r"""
#include <stdio.h>
typedef union {
    float f;
    unsigned u;
} bits;
int main(void)
{
    bits b = {.f = 1.0f};
    printf("%08x\n", b.u);
    return 0;
}""",
    "bit-fields": r"""
#include <stdio.h>
struct {
    unsigned is_keyword : 1;
    unsigned is_extern : 1;
    unsigned is_static : 1;
} flags;
int main(void)
{
    flags.is_extern = flags.is_static = 1;
    if (flags.is_extern && !flags.is_keyword) puts("extern");
    return 0;
}""",
    "variadic": r"""
#include <stdarg.h>
#include <stdio.h>
int sum(int count, ...)
{
    va_list ap;
    int total = 0;
    va_start(ap, count);
    while (count-- > 0) total += va_arg(ap, int);
    va_end(ap);
    return total;
}
int main(void)
{
    printf("%d\n", sum(3, 1, 2, 3));
    return 0;
}""",
    "matrix": r"""
#include <stdio.h>
#define N 3
static double a[N][N] = {{1, 2, 3}, {4, 5, 6}, {7, 8, 10}}, product[N][N];
static void multiply(int n, double x[n][n], double y[n][n], double out[n][n])
{
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            out[i][j] = 0;
            for (int k = 0; k < n; k++) out[i][j] += x[i][k] * y[k][j];
        }
}
int main(void)
{
    multiply(N, a, a, product);
    printf("%g\n", product[2][2]);
    return 0;
}""",
    "primes": r"""
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
enum { LIMIT = 50 };
int main(void)
{
    bool composite[LIMIT + 1];
    memset(composite, 0, sizeof composite);
    for (int i = 2; i <= LIMIT; i++) {
        if (composite[i]) continue;
        printf("%d ", i);
        for (int j = i * i; j <= LIMIT; j += i) composite[j] = true;
    }
    putchar('\n');
    return 0;
}""",
    "greatest common divisor": r"""
#include <stdio.h>
int gcd(int a, int b) { return b ? gcd(b, a % b) : a; }
int main()
{
    int a = 84, b = 36;
    printf("gcd(%d, %d) = %d\n", a, b, gcd(a, b));
}""",
    "mean": r"""
#include <stdio.h>
int main(void)
{
    int marks[] = {3, 4, 4, 5}, n = sizeof(marks) / sizeof(marks[0]), sum = 0;
    for (int i = 0; i < n; i++) sum += marks[i];
    double mean = (double)sum / n;
    printf("%.2f\n", mean);
    return 0;
}""",
    "goto": r"""
#include <stdio.h>
#include <stdlib.h>
static int work(void)
{
    int result = -1;
    char *first = malloc(10), *second = NULL;
    if (!first) goto done;
    second = malloc(10);
    if (!second) goto done;
    result = 0;
done:
    free(second);
    free(first);
    return result;
}
int main(void)
{
    do {
        if (work() != 0) break;
        puts("done");
    } while (0);
    return EXIT_SUCCESS;
}""",
    "files": r"""
#include <stdio.h>
int main(void)
{
    FILE *f = tmpfile();
    int c;
    if (f == NULL) {
        perror("tmpfile");
        return 1;
    }
    fputs("one\ntwo\n", f);
    rewind(f);
    while ((c = getc(f)) != EOF) putchar(c);
    fclose(f);
    return 0;
}""",
    "enum and table": r"""
#include <stdio.h>
enum day { MON, TUE, WED, DAYS };
static const char *const names[DAYS] = {[MON] = "Monday", [TUE] = "Tuesday", [WED] = "Wednesday"};
int main(void)
{
    for (enum day d = MON; d < DAYS; d++) printf("%d %s\n", d, names[d]);
    return 0;
}""",
    "macros": r"""
#include <stdio.h>
#define max(A, B) ((A) > (B) ? (A) : (B))
#define dprint(expr) printf(#expr " = %g\n", expr)
#define swap(t, x, y) do { t swap_ = x; x = y; y = swap_; } while (0)
int main(void)
{
    double x = 3, y = 4;
    swap(double, x, y);
    dprint(x / y);
    printf("%d\n", max(2, 5));
    return 0;
}""",
    "command line": r"""
#include <stdio.h>
int main(int argc, char *argv[])
{
    while (--argc > 0) printf((argc > 1) ? "%s " : "%s", *++argv);
    printf("\n");
    return 0;
}""",
    "queue of structs": r"""
#include <stdio.h>
#include <time.h>
typedef struct { double x, y; } point;
typedef struct { point min, max; } rect;
static inline point make(double x, double y) { return (point){x, y}; }
static double area(rect r) { return (r.max.x - r.min.x) * (r.max.y - r.min.y); }
int main(void)
{
    rect screen = {.min = {0, 0}, .max = make(3, 4)};
    const rect *p = &screen;
    clock_t begin = clock();
    printf("%g %d\n", area(*p), (int)sizeof(point));
    return clock() < begin;
}""",
    "recursion and digits": r"""
#include <stdio.h>
void printd(int n)
{
    if (n < 0) {
        putchar('-');
        n = -n;
    }
    if (n / 10) printd(n / 10);
    putchar(n % 10 + '0');
}
int main(void)
{
    printd(-123);
    putchar('\n');
    return 0;
}""",
    "threads": r"""
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long total;
static void *add(void *argument)
{
    long number = (long)(intptr_t)argument;
    pthread_mutex_lock(&lock);
    total += number;
    pthread_mutex_unlock(&lock);
    return NULL;
}
int main(void)
{
    pthread_t threads[4];
    for (intptr_t i = 0; i < 4; i++) pthread_create(&threads[i], NULL, add, (void *)i);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    printf("%ld\n", total);
    return 0;
}""",
}
