/* What the chapters of the test program share. */
#ifndef KINTSUGI_TESTS_CAPI_CHECK_H
#define KINTSUGI_TESTS_CAPI_CHECK_H

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <kintsugi/kintsugi.h>

/* Ends the program unless the call returns what is expected. */
#define EXPECT(call, expected)                                                                                    \
  do {                                                                                                            \
    const int64_t got_ = (call);                                                                                  \
    if (got_ != (int64_t)(expected)) {                                                                            \
      fprintf(stderr, "%s:%d: %s is %" PRId64 ", not %" PRId64 " (%s)\n", __FILE__, __LINE__, #call, got_,        \
              (int64_t)(expected), kintsugi_last_error());                                                        \
      exit(1);                                                                                                    \
    }                                                                                                             \
  } while (0)
#define EXPECT_TRUE(condition) EXPECT((condition) ? 1 : 0, 1)

/* Connected by the environment, as users are. */
kintsugi_t *connected(const struct kintsugi_options *options);
/* Bytes that differ from place to place. */
void fill(char *bytes, size_t size, unsigned seed);
/* Runs a shell command that an environment variable holds. */
void run(const char *variable);

void test_arguments(void); /* bad ones, and handles that were ended */
void test_files(void);     /* everything that is done with an open file */
void test_names(void);     /* everything that is done with paths */
void test_users(void);     /* permissions of others than root */
void test_threads(void);   /* asynchronous calls, and calls of many threads */
void test_snapshots(void); /* what is in a snapshot */
void test_restart(void);   /* the metaserver goes away and comes back */

#endif
