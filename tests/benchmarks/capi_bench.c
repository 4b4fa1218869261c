// How fast the C interface is: capi_bench PATH [MIB [SECONDS]], against the cluster that the environment names.
//
// Writes a file in pieces of 1 MiB and syncs it, reads it in order over a new connection, and then reads 4 KiB at random places, as fast as that goes
// with 1 and with 32 asynchronous calls under way. Prints one line for each. The file stays.
#define _GNU_SOURCE
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <kintsugi/kintsugi.h>

enum { kPiece = 1 << 20, kSmall = 4096, kMaxDepth = 32 };

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static int64_t check(int64_t result, const char *what) {
  if (result < 0) {
    fprintf(stderr, "capi_bench: %s: %s\n", what, kintsugi_last_error());
    exit(1);
  }
  return result;
}

static void write_in_order(const char *path, int64_t mib) {
  kintsugi_t *cluster;
  kintsugi_file_t *file;
  char *piece = malloc(kPiece);
  check(kintsugi_connect(NULL, NULL, NULL, &cluster), "connect");
  check(kintsugi_open(cluster, path, O_WRONLY | O_CREAT | O_TRUNC, 0644, &file), "open");
  for (int i = 0; i < kPiece; ++i)
    piece[i] = (char)rand();
  const double began = now();
  for (int64_t i = 0; i < mib; ++i)
    check(kintsugi_pwrite(file, piece, kPiece, i * kPiece), "write");
  check(kintsugi_fsync(file), "fsync");
  printf("write in order and fsync: %.0f MB/s\n", (double)(mib * kPiece) / 1e6 / (now() - began));
  check(kintsugi_close(file), "close");
  check(kintsugi_disconnect(cluster), "disconnect");
  free(piece);
}

static void read_in_order(kintsugi_file_t *file, int64_t mib) {
  char *piece = malloc(kPiece);
  const double began = now();
  for (int64_t i = 0; i < mib; ++i)
    check(kintsugi_pread(file, piece, kPiece, i * kPiece), "read");
  printf("read in order: %.0f MB/s\n", (double)(mib * kPiece) / 1e6 / (now() - began));
  free(piece);
}

/* Reads at random places; everything but `under_way` and what it guards belongs to the connection's thread. */
struct Load {
  kintsugi_file_t *file;
  int64_t blocks, done;
  double until;
  pthread_mutex_t mutex;
  pthread_cond_t ended;
  int under_way;
};
struct Reader {
  struct Load *load;
  uint64_t dice;
  char bytes[kSmall];
};

static void next(void *user, int64_t result);

static void begin(struct Reader *reader) {
  reader->dice = reader->dice * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  const int64_t block = (int64_t)((reader->dice >> 16) % (uint64_t)reader->load->blocks);
  check(kintsugi_aio_pread(reader->load->file, reader->bytes, kSmall, block * kSmall, next, reader), "read");
}

static void next(void *user, int64_t result) {
  struct Reader *reader = user;
  struct Load *load = reader->load;
  check(result, "read");
  ++load->done;
  if (now() < load->until) {
    begin(reader);
    return;
  }
  pthread_mutex_lock(&load->mutex);
  --load->under_way;
  pthread_cond_signal(&load->ended);
  pthread_mutex_unlock(&load->mutex);
}

static void read_at_random(kintsugi_file_t *file, int64_t mib, int depth, double seconds) {
  static struct Reader readers[kMaxDepth];
  struct Load load = {.file = file,
                      .blocks = mib * (kPiece / kSmall),
                      .mutex = PTHREAD_MUTEX_INITIALIZER,
                      .ended = PTHREAD_COND_INITIALIZER,
                      .under_way = depth};
  const double began = now();
  load.until = began + seconds;
  for (int i = 0; i < depth; ++i) {
    readers[i].load = &load;
    readers[i].dice = (uint64_t)i + 1;
    begin(&readers[i]);
  }
  pthread_mutex_lock(&load.mutex);
  while (load.under_way > 0)
    pthread_cond_wait(&load.ended, &load.mutex);
  pthread_mutex_unlock(&load.mutex);
  printf("random reads of 4 KiB, %d under way: %.0f /s\n", depth, (double)load.done / (now() - began));
}

int main(int argc, char **argv) {
  if (argc < 2 || argc > 4) {
    fprintf(stderr, "usage: capi_bench PATH [MIB [SECONDS]]\n");
    return 2;
  }
  const int64_t mib = argc > 2 ? atoll(argv[2]) : 1024;
  const double seconds = argc > 3 ? atof(argv[3]) : 5;
  kintsugi_t *cluster;
  kintsugi_file_t *file;
  if (mib < 1 || !(seconds > 0)) {
    fprintf(stderr, "capi_bench: at least 1 MiB, and some time\n");
    return 2;
  }
  write_in_order(argv[1], mib);
  check(kintsugi_connect(NULL, NULL, NULL, &cluster), "connect");
  check(kintsugi_open(cluster, argv[1], O_RDONLY, 0, &file), "open");
  read_in_order(file, mib);
  read_at_random(file, mib, 1, seconds);
  read_at_random(file, mib, kMaxDepth, seconds);
  check(kintsugi_close(file), "close");
  check(kintsugi_disconnect(cluster), "disconnect");
  return 0;
}
