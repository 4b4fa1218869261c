// Asynchronous calls, and calls of many threads on one connection.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "check.h"

enum { kThreads = 8, kCalls = 200, kBytes = 4096, kOutstanding = 16 };

/* Calls that a test waits for. */
struct Pending {
  pthread_mutex_t mutex;
  pthread_cond_t ended;
  int calls, called;
  int64_t last;
};

static void begin(struct Pending *pending, int calls) {
  memset(pending, 0, sizeof *pending);
  pthread_mutex_init(&pending->mutex, NULL);
  pthread_cond_init(&pending->ended, NULL);
  pending->calls = calls;
}

static void note(void *user, int64_t result) {
  struct Pending *pending = user;
  pthread_mutex_lock(&pending->mutex);
  pending->last = result;
  ++pending->called;
  pthread_cond_broadcast(&pending->ended);
  pthread_mutex_unlock(&pending->mutex);
}

static int64_t wait_for(struct Pending *pending) {
  pthread_mutex_lock(&pending->mutex);
  while (pending->called < pending->calls)
    pthread_cond_wait(&pending->ended, &pending->mutex);
  EXPECT(pending->called, pending->calls);
  pthread_mutex_unlock(&pending->mutex);
  return pending->last;
}

/* One call after the other, each begun by the callback of the one before. */
struct Chain {
  struct Pending pending;
  kintsugi_t *connection;
  kintsugi_file_t *file;
  char bytes[kBytes];
  int step;
};

static void next(void *user, int64_t result) {
  struct Chain *chain = user;
  EXPECT(result, chain->step == 0 ? 0 : kBytes);
  if (chain->step == kCalls) {
    /* What would wait for this very thread is refused, and harms nothing. */
    EXPECT(kintsugi_fsync(chain->file), -EDEADLK);
    EXPECT(kintsugi_close(chain->file), -EDEADLK);
    EXPECT(kintsugi_disconnect(chain->connection), -EDEADLK);
    EXPECT(kintsugi_aio_close(chain->file, note, &chain->pending), 0);
    return;
  }
  fill(chain->bytes, kBytes, (unsigned)chain->step);
  const int64_t offset = (int64_t)chain->step++ * kBytes;
  EXPECT(kintsugi_aio_pwrite(chain->file, chain->bytes, kBytes, offset, next, chain), 0);
}

static void chain_of_callbacks(kintsugi_t *connection) {
  struct Chain chain = {.connection = connection};
  struct kintsugi_stat about;
  struct Pending pending;
  begin(&chain.pending, 1);
  EXPECT(kintsugi_aio_open(connection, "/chain", O_RDWR | O_CREAT, 0644, &chain.file, next, &chain), 0);
  EXPECT(wait_for(&chain.pending), 0);
  EXPECT(kintsugi_close(chain.file), -EBADF);
  begin(&pending, 1);
  EXPECT(kintsugi_aio_stat(connection, "/chain", &about, note, &pending), 0);
  EXPECT(wait_for(&pending), 0);
  EXPECT(about.size, kCalls * kBytes);
  begin(&pending, 1);
  EXPECT(kintsugi_aio_stat(connection, "/nothing", &about, note, &pending), 0);
  EXPECT(wait_for(&pending), -ENOENT);
  begin(&pending, 1);
  EXPECT(kintsugi_aio_open(connection, "/nothing", O_RDONLY, 0, &chain.file, note, &pending), 0);
  EXPECT(wait_for(&pending), -ENOENT);
  EXPECT_TRUE(chain.file == NULL);
}

/* A callback that stays, so that nothing else can end. */
struct Gate {
  pthread_mutex_t mutex;
  struct Pending entered;
};

static void hold(void *user, int64_t result) {
  struct Gate *gate = user;
  note(&gate->entered, result);
  pthread_mutex_lock(&gate->mutex);
  pthread_mutex_unlock(&gate->mutex);
}

/* A callback reads a directory that another thread is reading. */
struct Reading {
  kintsugi_dir_t *directory;
  pthread_t other;
  int64_t read;
  struct Pending pending;
};

static void *read_directory(void *argument) {
  struct kintsugi_dirent entry;
  EXPECT(kintsugi_readdir(argument, &entry), 1);
  return NULL;
}

static void read_in_callback(void *user, int64_t result) {
  struct Reading *reading = user;
  struct kintsugi_dirent entry;
  EXPECT(pthread_create(&reading->other, NULL, read_directory, reading->directory), 0);
  usleep(200000); /* It has asked for the entries by then, and waits for this thread. */
  reading->read = kintsugi_readdir(reading->directory, &entry);
  note(&reading->pending, result);
}

static void directory_in_callback(kintsugi_t *connection) {
  struct Reading reading = {.read = 0};
  struct kintsugi_stat about;
  begin(&reading.pending, 1);
  EXPECT(kintsugi_opendir(connection, "/", &reading.directory), 0);
  EXPECT(kintsugi_aio_stat(connection, "/", &about, read_in_callback, &reading), 0);
  EXPECT(wait_for(&reading.pending), 0);
  EXPECT(reading.read, -EDEADLK);
  EXPECT(pthread_join(reading.other, NULL), 0);
  EXPECT(kintsugi_closedir(reading.directory), 0);
}

/* Beyond the bound calls are refused, until others have ended. */
static void bound(kintsugi_t *connection) {
  struct Gate gate = {.mutex = PTHREAD_MUTEX_INITIALIZER};
  struct Pending pending;
  kintsugi_file_t *file = NULL;
  static char bytes[kOutstanding][kBytes];
  EXPECT(kintsugi_open(connection, "/chain", O_RDONLY, 0, &file), 0);
  begin(&gate.entered, 1);
  pthread_mutex_lock(&gate.mutex);
  EXPECT(kintsugi_aio_fsync(file, hold, &gate), 0);
  EXPECT(wait_for(&gate.entered), 0);
  begin(&pending, kOutstanding);
  for (int i = 0; i < kOutstanding; ++i)
    EXPECT(kintsugi_aio_pread(file, bytes[i], kBytes, i * kBytes, note, &pending), 0);
  EXPECT(kintsugi_aio_fsync(file, note, &pending), -EAGAIN);
  EXPECT(kintsugi_aio_close(file, note, &pending), -EAGAIN);
  pthread_mutex_unlock(&gate.mutex);
  EXPECT(wait_for(&pending), kBytes);
  begin(&pending, 1);
  EXPECT(kintsugi_aio_close(file, note, &pending), 0);
  EXPECT(wait_for(&pending), 0);
}

struct Worker {
  pthread_t thread;
  kintsugi_t *connection;
  unsigned number;
};

/* Each thread writes and reads its own file, and all of them one that they share; half of the calls are asynchronous. */
static void *work(void *argument) {
  struct Worker *worker = argument;
  kintsugi_file_t *own = NULL, *shared = NULL;
  struct Pending pending;
  char path[32], bytes[kBytes], got[kBytes];
  snprintf(path, sizeof path, "/own%u", worker->number);
  EXPECT(kintsugi_open(worker->connection, path, O_RDWR | O_CREAT, 0644, &own), 0);
  EXPECT(kintsugi_open(worker->connection, "/shared", O_RDWR | O_CREAT, 0644, &shared), 0);
  for (unsigned i = 0; i < kCalls; ++i) {
    kintsugi_file_t *file = i % 3 == 0 ? shared : own;
    const int64_t offset = ((int64_t)i * kThreads + worker->number) * kBytes;
    fill(bytes, kBytes, worker->number * 1000 + i);
    if (i % 2 == 0) {
      EXPECT(kintsugi_pwrite(file, bytes, kBytes, offset), kBytes);
    } else {
      int begun;
      begin(&pending, 1);
      /* Others may have used up what the connection allows. */
      while ((begun = kintsugi_aio_pwrite(file, bytes, kBytes, offset, note, &pending)) == -EAGAIN)
        sched_yield();
      EXPECT(begun, 0);
      EXPECT(wait_for(&pending), kBytes);
    }
    EXPECT(kintsugi_pread(file, got, kBytes, offset), kBytes);
    EXPECT(memcmp(got, bytes, kBytes), 0);
  }
  EXPECT(kintsugi_close(shared), 0);
  EXPECT(kintsugi_close(own), 0);
  return NULL;
}

static void many_threads(kintsugi_t *connection) {
  struct Worker workers[kThreads];
  for (unsigned i = 0; i < kThreads; ++i) {
    workers[i] = (struct Worker){.connection = connection, .number = i};
    EXPECT(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
  }
  for (int i = 0; i < kThreads; ++i)
    EXPECT(pthread_join(workers[i].thread, NULL), 0);
  kintsugi_file_t *shared = NULL;
  char bytes[kBytes], got[kBytes];
  EXPECT(kintsugi_open(connection, "/shared", O_RDONLY, 0, &shared), 0);
  for (unsigned i = 0; i < kCalls; i += 3) {
    for (unsigned number = 0; number < kThreads; ++number) {
      fill(bytes, kBytes, number * 1000 + i);
      EXPECT(kintsugi_pread(shared, got, kBytes, ((int64_t)i * kThreads + number) * kBytes), kBytes);
      EXPECT(memcmp(got, bytes, kBytes), 0);
    }
  }
  EXPECT(kintsugi_close(shared), 0);
}

static void *close_it(void *argument) {
  const int result = kintsugi_close(argument);
  EXPECT_TRUE(result == 0 || result == -EBADF);
  return result == 0 ? argument : NULL;
}

/* Of threads that end the same handle one does; calls that were begun before end well. */
static void races_of_close(kintsugi_t *connection) {
  static char bytes[kOutstanding][kBytes];
  for (int round = 0; round < 20; ++round) {
    kintsugi_file_t *file = NULL;
    struct Pending pending;
    pthread_t threads[4];
    int closed = 0;
    EXPECT(kintsugi_open(connection, "/shared", O_RDONLY, 0, &file), 0);
    begin(&pending, kOutstanding);
    for (int i = 0; i < kOutstanding; ++i)
      EXPECT(kintsugi_aio_pread(file, bytes[i], kBytes, i * kBytes, note, &pending), 0);
    for (int i = 0; i < 4; ++i)
      EXPECT(pthread_create(&threads[i], NULL, close_it, file), 0);
    for (int i = 0; i < 4; ++i) {
      void *won = NULL;
      EXPECT(pthread_join(threads[i], &won), 0);
      closed += won != NULL;
    }
    EXPECT(closed, 1);
    EXPECT(wait_for(&pending), kBytes);
  }
}

void test_threads(void) {
  struct kintsugi_options options;
  EXPECT(kintsugi_options_init(&options, sizeof options), 0);
  options.max_outstanding = kOutstanding;
  kintsugi_t *connection = connected(&options);
  chain_of_callbacks(connection);
  bound(connection);
  directory_in_callback(connection);
  many_threads(connection);
  races_of_close(connection);
  EXPECT(kintsugi_disconnect(connection), 0);
}
