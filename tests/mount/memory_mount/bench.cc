#include "tests/mount/memory_mount/bench.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <random>
#include <string>

#include <fcntl.h>
#include <liburing.h>
#include <sys/stat.h>
#include <unistd.h>

namespace kintsugi::mount {

namespace {

constexpr size_t kFileBytes = 256 << 20, kMega = 1 << 20, kPage = 4096;
constexpr double kSeconds = 1.5;

[[noreturn]] void fail(const char* what) {
  std::perror(what);
  std::exit(1);
}

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Calls `step`, which returns what it did, until the time is over. Prints the rate.
void measure(const char* what, double scale, const char* unit, const std::function<size_t()>& step) {
  const double start = now();
  double done = 0, took = 0;
  while ((took = now() - start) < kSeconds)
    done += static_cast<double>(step());
  std::printf("%-38s %10.0f %s\n", what, done / took * scale, unit);
  std::fflush(stdout);
}

struct Aligned {
  explicit Aligned(size_t bytes) : data(static_cast<char*>(std::aligned_alloc(kPage, bytes))) {
    std::memset(data, 'a', bytes);
  }
  ~Aligned() { std::free(data); }
  char* data;
};

void deep_reads(int file, unsigned depth) {
  io_uring ring;
  if (io_uring_queue_init(depth, &ring, 0) != 0) return (void)std::printf("no io_uring here\n");
  Aligned memory(depth * kPage);
  std::mt19937_64 random(1);
  const auto submit = [&](uint64_t slot) {
    io_uring_sqe* sqe = io_uring_get_sqe(&ring);
    io_uring_prep_read(sqe, file, memory.data + slot * kPage, kPage, random() % (kFileBytes / kPage) * kPage);
    sqe->user_data = slot;
  };
  for (unsigned slot = 0; slot < depth; ++slot)
    submit(slot);
  measure(("4 KiB direct reads, depth " + std::to_string(depth)).c_str(), 1, "/s", [&] {
    if (io_uring_submit_and_wait(&ring, 1) < 0) fail("io_uring");
    io_uring_cqe* cqes[64];
    const unsigned count = io_uring_peek_batch_cqe(&ring, cqes, 64);
    for (unsigned i = 0; i < count; ++i) {
      if (cqes[i]->res != static_cast<int>(kPage)) fail("read");
      submit(cqes[i]->user_data);
    }
    io_uring_cq_advance(&ring, count);
    return size_t{count};
  });
  io_uring_submit_and_wait(&ring, depth);
  io_uring_queue_exit(&ring);
}

}  // namespace

int run_bench(const char* directory) {
  const std::string base = std::string(directory) + "/";
  const std::string name = base + "bench";
  Aligned memory(kMega);
  uint64_t at = 0;
  const auto next = [&] { return static_cast<off_t>(at++ % (kFileBytes / kMega) * kMega); };

  int file = ::open(name.c_str(), O_CREAT | O_RDWR, 0600);
  if (file < 0) fail(name.c_str());
  for (size_t i = 0; i < kFileBytes / kMega; ++i)
    if (::pwrite(file, memory.data, kMega, next()) != static_cast<ssize_t>(kMega)) fail("write");
  measure("1 MiB buffered writes", kMega / 1e6, "MB/s",
          [&] { return size_t{::pwrite(file, memory.data, kMega, next()) > 0}; });
  measure("4 KiB buffered writes", 1, "/s",
          [&] { return size_t{::pwrite(file, memory.data, kPage, next()) > 0}; });
  ::fsync(file);
  ::close(file);
  file = ::open(name.c_str(), O_RDONLY);
  at = 0;
  measure("buffered reads in 1 MiB, cache dropped", kMega / 1e6, "MB/s", [&] {
    if (at % (kFileBytes / kMega) == 0) ::posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
    return size_t{::pread(file, memory.data, kMega, next()) > 0};
  });
  ::close(file);
  file = ::open(name.c_str(), O_RDWR | O_DIRECT);
  if (file < 0) fail("O_DIRECT");
  measure("1 MiB direct writes", kMega / 1e6, "MB/s",
          [&] { return size_t{::pwrite(file, memory.data, kMega, next()) > 0}; });
  measure("1 MiB direct reads", kMega / 1e6, "MB/s",
          [&] { return size_t{::pread(file, memory.data, kMega, next()) > 0}; });
  std::mt19937_64 random(2);
  measure("4 KiB direct reads, depth 1", 1, "/s", [&] {
    return size_t{
        ::pread(file, memory.data, kPage, static_cast<off_t>(random() % (kFileBytes / kPage) * kPage)) > 0};
  });
  measure("4 KiB direct writes, depth 1", 1, "/s", [&] {
    return size_t{
        ::pwrite(file, memory.data, kPage, static_cast<off_t>(random() % (kFileBytes / kPage) * kPage)) > 0};
  });
  deep_reads(file, 32);
  ::close(file);

  size_t files = 0;
  measure("creates (open, close)", 1, "/s", [&] {
    const int made = ::open((base + "f" + std::to_string(files++)).c_str(), O_CREAT | O_WRONLY, 0600);
    if (made < 0) fail("create");
    ::close(made);
    return size_t{1};
  });
  size_t looked = 0;
  struct stat found{};
  measure("stat", 1, "/s", [&] {
    return size_t{::stat((base + "f" + std::to_string(looked++ % files)).c_str(), &found) == 0};
  });
  for (size_t i = 0; i < files; ++i)
    ::unlink((base + "f" + std::to_string(i)).c_str());
  ::unlink(name.c_str());
  return 0;
}

}  // namespace kintsugi::mount
