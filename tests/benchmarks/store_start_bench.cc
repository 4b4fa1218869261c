// How long a chunk store takes to start from a cold disk, and what it reads.
//
//   store_start_bench DIRECTORY [large chunks] [small chunks]
//
// The first call makes a store in the new directory, as an older version would have left it: files of chunks that do not say by their
// names what they are, and segments without footers. Each start then drops the kernel's caches first (as root) and tells what the
// disk was asked. The first start reads all of that, and names and seals it; the second is what every later start is. Large chunks
// are zeros, of which only header and table take space: 12 KiB each. Small ones are of 4 KiB and take 8.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "chunkserver/store/chunk_store.h"
#include "chunkserver/store/disk/chunk_format.h"
#include "common/log/log.h"
#include "common/runtime/production/run.h"

namespace kintsugi::chunkserver {
namespace {

constexpr uint64_t kLargeBytes = 1 << 20, kSmallBytes = 4096;
constexpr uint64_t kRecordsPerSegment = (128 << 20) / (kRecordHeaderBytes + kSmallBytes);
constexpr uint64_t kRecordsAtOnce = 256;

/// A file that is written front to back, or where it must be.
class NewFile {
 public:
  explicit NewFile(const std::string& path) : fd_(::open(path.c_str(), O_CREAT | O_EXCL | O_WRONLY, 0600)) {
    KINTSUGI_ASSERT(fd_ >= 0);
  }
  ~NewFile() { ::close(fd_); }
  void write(uint64_t offset, std::span<const std::byte> bytes) {
    KINTSUGI_ASSERT(::pwrite(fd_, bytes.data(), bytes.size(), off_t(offset)) == ssize_t(bytes.size()));
  }
  void resize(uint64_t bytes) { KINTSUGI_ASSERT(::ftruncate(fd_, off_t(bytes)) == 0); }

 private:
  const int fd_;
};

void make_large(const std::string& root, uint64_t count) {
  const std::vector<std::byte> zeros(kLargeBytes);
  const std::vector<uint32_t> crcs = crc32c_blocks(zeros);
  std::vector<std::byte> table(chunk_table_bytes(kLargeBytes));
  std::memcpy(table.data(), crcs.data(), crcs.size() * sizeof(uint32_t));
  ChunkHeader header{{{}, kLargeBytes, crc32c(zeros)}, "rs-6-3-1024k"};
  for (uint64_t stripe = 1; stripe <= count; ++stripe) {
    header.info.id = {StripeId(stripe), uint32_t(stripe % 9)};
    const std::string directory = fmt::format("{}/chunks/{:02x}", root, stripe & 0xff);
    if (stripe <= 256) std::filesystem::create_directories(directory);
    std::vector<std::byte> bytes(kChunkHeaderBytes);
    encode_chunk_header(header, bytes);
    NewFile file(directory + "/" + chunk_file_name(header.info.id));
    file.resize(chunk_file_bytes(kLargeBytes));
    file.write(0, bytes);
    file.write(chunk_table_offset(kLargeBytes), table);
  }
}

void make_small(const std::string& root, uint64_t count) {
  std::filesystem::create_directories(root + "/segments");
  const std::vector<std::byte> zeros(kSmallBytes);
  for (uint64_t made = 0; made < count;) {
    const uint64_t number = made / kRecordsPerSegment + 1, salt = number * kGoldenRatio;
    NewFile file(root + "/segments/" + segment_file_name(number, salt));
    for (uint64_t offset = 0; offset < 128 << 20 && made < count;) {
      std::vector<std::byte> group(kRecordsAtOnce * (kRecordHeaderBytes + kSmallBytes));
      for (uint64_t at = 0; at < group.size(); at += kRecordHeaderBytes + kSmallBytes) {
        RecordHeader header{.salt = salt, .offset = offset + at, .group = made + 1, .sequence = ++made};
        header.info = {
            {StripeId((uint64_t{1} << 32) + made), uint32_t(made % 9)}, kSmallBytes, crc32c(zeros)};
        header.policy = "rs-6-3-1024k";
        header.block_crcs = {crc32c(zeros)};
        encode_record_header(header, std::span(group).subspan(at, kRecordHeaderBytes));
      }
      file.write(offset, group);
      offset += group.size();
    }
  }
}

struct DiskReads {
  uint64_t calls = 0, bytes = 0;
};

/// What the device of the directory has read, by the kernel's count.
DiskReads device_reads(const std::string& directory) {
  struct stat here{};
  KINTSUGI_ASSERT(::stat(directory.c_str(), &here) == 0);
  std::ifstream stats("/proc/diskstats");
  for (std::string line; std::getline(stats, line);) {
    std::istringstream fields(line);
    unsigned major_number, minor_number;
    std::string name;
    uint64_t reads, merged, sectors;
    fields >> major_number >> minor_number >> name >> reads >> merged >> sectors;
    if (major_number == major(here.st_dev) && minor_number == minor(here.st_dev))
      return {reads, sectors * 512};
  }
  return {};
}

void drop_caches() {
  ::sync();
  std::ofstream("/proc/sys/vm/drop_caches") << "3";
}

asio::awaitable<void> start_once(const runtime::Runtime& runtime, std::string directory, int number) {
  ChunkStore store(runtime, StoreOptions{.disks = {directory}});
  const DiskReads before = device_reads(directory);
  const auto began = std::chrono::steady_clock::now();
  const Status started = co_await store.start();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
  const DiskReads after = device_reads(directory);
  std::printf("start %d: %.1f s, %zu chunks, the disk was read %zu times, %.1f MiB%s\n", number, took.count(),
              store.chunks(), size_t(after.calls - before.calls),
              double(after.bytes - before.bytes) / (1 << 20),
              started.ok() ? "" : started.to_string().c_str());
  std::fflush(stdout);
  co_await store.stop();
}

int run(int argc, char** argv) {
  if (argc < 2) return std::fprintf(stderr, "usage: store_start_bench DIRECTORY [large] [small]\n"), 2;
  const std::string directory = std::filesystem::absolute(argv[1]).string();
  if (!std::filesystem::exists(directory)) {
    make_large(directory, argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 250'000);
    make_small(directory, argc > 3 ? std::strtoull(argv[3], nullptr, 10) : 1'000'000);
  }
  log::set_sink([](log::Level level, std::string_view line) {
    if (level >= log::Level::kWarning) std::fprintf(stderr, "%.*s\n", int(line.size()), line.data());
  });
  for (int number = 1; number <= 3; ++number) {
    drop_caches();
    runtime::ProductionRuntime production;
    production.disk().separate({directory});
    runtime::run_on(production, start_once(production.runtime(), directory, number));
  }
  return 0;
}

}  // namespace
}  // namespace kintsugi::chunkserver

int main(int argc, char** argv) {
  return kintsugi::chunkserver::run(argc, argv);
}
