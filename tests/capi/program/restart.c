// A metaserver that goes away and comes back below an application with open files.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>

#include "check.h"

enum { kBytes = 300000 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t ended = PTHREAD_COND_INITIALIZER;
static int called;
static int64_t results[3];

static void note(void *user, int64_t result) {
  pthread_mutex_lock(&mutex);
  *(int64_t *)user = result;
  ++called;
  pthread_cond_broadcast(&ended);
  pthread_mutex_unlock(&mutex);
}

void test_restart(void) {
  static char bytes[kBytes], got[kBytes];
  kintsugi_t *connection = connected(NULL);
  kintsugi_file_t *file = NULL, *nameless = NULL, *made = NULL;
  struct kintsugi_stat about;
  fill(bytes, kBytes, 9);
  EXPECT(kintsugi_open(connection, "/restart", O_RDWR | O_CREAT, 0644, &file), 0);
  EXPECT(kintsugi_open(connection, "/", O_RDWR | O_TMPFILE, 0600, &nameless), 0);
  EXPECT(kintsugi_pwrite(nameless, "kept", 4, 0), 4);
  EXPECT(kintsugi_pwrite(file, bytes, kBytes, 0), kBytes);
  run("KILL_METASERVER");
  /* Calls that begin now wait until it is back. */
  EXPECT(kintsugi_aio_fsync(file, note, &results[0]), 0);
  EXPECT(kintsugi_aio_open(connection, "/made_meanwhile", O_RDWR | O_CREAT | O_EXCL, 0644, &made, note, &results[1]), 0);
  EXPECT(kintsugi_aio_stat(connection, "/restart", &about, note, &results[2]), 0);
  EXPECT(kintsugi_pwrite(file, "more", 4, kBytes), 4);
  EXPECT(kintsugi_pread(file, got, 4, kBytes), 4);
  pthread_mutex_lock(&mutex);
  EXPECT(called, 0);
  pthread_mutex_unlock(&mutex);
  run("START_METASERVER");
  pthread_mutex_lock(&mutex);
  while (called < 3)
    pthread_cond_wait(&ended, &mutex);
  pthread_mutex_unlock(&mutex);
  for (int i = 0; i < 3; ++i)
    EXPECT(results[i], 0);
  EXPECT(kintsugi_pread(file, got, kBytes, 0), kBytes);
  EXPECT(memcmp(got, bytes, kBytes), 0);
  EXPECT(kintsugi_pread(nameless, got, 10, 0), 4);
  EXPECT(kintsugi_fsync(nameless), 0);
  EXPECT(kintsugi_close(nameless), 0);
  EXPECT(kintsugi_close(made), 0);
  EXPECT(kintsugi_close(file), 0);
  EXPECT(kintsugi_stat(connection, "/restart", &about), 0);
  EXPECT(about.size, kBytes + 4);
  EXPECT(kintsugi_disconnect(connection), 0);
}
