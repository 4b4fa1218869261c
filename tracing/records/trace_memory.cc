#include "tracing/records/trace_memory.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <thread>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <x86intrin.h>

#include "common/base/crc32c.h"

namespace kintsugi::tracing {
namespace {

constexpr std::string_view kSuffix = ".trace";

/// The narrower the gap between two readings of the clock, the better they belong to the ticks between them.
ClockPair clock_pair() {
  constexpr int kTries = 5;
  ClockPair best;
  uint64_t best_gap = ~uint64_t{0};
  for (int i = 0; i < kTries; ++i) {
    timespec now{};
    const uint64_t before = __rdtsc();
    ::clock_gettime(CLOCK_REALTIME, &now);
    const uint64_t after = __rdtsc();
    if (after - before >= best_gap) continue;
    best_gap = after - before;
    best = {before + best_gap / 2, now.tv_sec * int64_t{1'000'000'000} + now.tv_nsec};
  }
  return best;
}

template <size_t N>
void copy_text(char (&into)[N], const std::string& text) {
  std::memcpy(into, text.data(), std::min(text.size(), N - 1));
}

/// Whoever looks for old traces has each of them locked for a moment, this one, too, if it was just made.
bool lock(int file) {
  constexpr int kTries = 1000;
  constexpr auto kPause = std::chrono::milliseconds(1);
  for (int tries = 0; ::flock(file, LOCK_EX | LOCK_NB) != 0; ++tries) {
    if (errno != EWOULDBLOCK || tries == kTries) return false;
    std::this_thread::sleep_for(kPause);
  }
  return true;
}

void seal(FileHeader& header) {
  header.crc = crc32c({reinterpret_cast<const std::byte*>(&header), offsetof(FileHeader, crc)});
}

void fill(FileHeader& header, uint64_t bytes, const TraceIdentity& identity) {
  std::memcpy(header.magic, kTraceMagic, sizeof(kTraceMagic));
  header.version = kFormatVersion;
  header.threads = kMostThreads;
  header.file_bytes = bytes;
  header.blocks = static_cast<uint32_t>((bytes - kBlocksOffset) / kTraceBlockBytes);
  header.block_bytes = kTraceBlockBytes;
  header.mode = identity.mode;
  header.functions = identity.functions;
  header.pid = static_cast<uint32_t>(::getpid());
  header.build_id_bytes = static_cast<uint32_t>(std::min(identity.build_id.size(), sizeof(header.build_id)));
  std::memcpy(header.build_id, identity.build_id.data(), header.build_id_bytes);
  copy_text(header.program, identity.program);
  copy_text(header.start, identity.start);
  header.began = clock_pair();
  seal(header);
}

}  // namespace

std::string default_trace_directory() {
  return fmt::format("/dev/shm/kintsugi-{}", ::geteuid());
}

Status make_trace_directory(const std::string& directory) {
  constexpr mode_t kOthers = 0077, kOwner = 0700;
  if (::mkdir(directory.c_str(), kOwner) != 0 && errno != EEXIST)
    return status_from_errno(errno, fmt::format("the directory of traces {}", directory));
  struct stat found{};
  if (::lstat(directory.c_str(), &found) != 0)
    return status_from_errno(errno, fmt::format("the directory of traces {}", directory));
  if (!S_ISDIR(found.st_mode) || found.st_uid != ::geteuid() || (found.st_mode & kOthers) != 0)
    return {Code::kPermissionDenied,
            fmt::format("{} is no directory that only this user can look into", directory)};
  return {};
}

void remove_old_traces(const std::string& directory, size_t kept) {
  std::vector<std::pair<std::filesystem::file_time_type, std::string>> ended;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(directory, error)) {
    if (entry.path().extension() != kSuffix) continue;
    const int file = ::open(entry.path().c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (file < 0) continue;
    if (::flock(file, LOCK_SH | LOCK_NB) == 0) ended.emplace_back(entry.last_write_time(error), entry.path());
    ::close(file);
  }
  std::ranges::sort(ended);
  for (size_t i = 0; i + kept < ended.size(); ++i)
    ::unlink(ended[i].second.c_str());
}

Result<TraceMemory> TraceMemory::make(const std::string& path, uint64_t bytes,
                                      const TraceIdentity& identity) {
  if (bytes < kLeastTraceBytes || bytes > kMostTraceBytes)
    return Status{Code::kInvalidArgument,
                  fmt::format("a trace has {} to {} bytes", kLeastTraceBytes, kMostTraceBytes)};
  bytes = kBlocksOffset +
          std::max<uint64_t>(bytes - kBlocksOffset, kTraceBlockBytes) / kTraceBlockBytes * kTraceBlockBytes;
  TraceMemory memory;
  constexpr mode_t kOwnerReadsAndWrites = 0600;
  memory.file_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, kOwnerReadsAndWrites);
  if (memory.file_ < 0) return status_from_errno(errno, path);
  const auto failed = [&](int error) {
    ::unlink(path.c_str());
    return status_from_errno(error, fmt::format("{} MiB for the trace {}", bytes >> 20, path));
  };
  if (!lock(memory.file_)) return failed(errno);
  if (const int error = ::posix_fallocate(memory.file_, 0, static_cast<off_t>(bytes)); error != 0)
    return failed(error);
  // Every page is there before the first record, which then costs no fault.
  void* const at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, memory.file_, 0);
  if (at == MAP_FAILED) return failed(errno);
  memory.bytes_ = bytes;
  memory.header_ = new (at) FileHeader;
  fill(*memory.header_, bytes, identity);
  memory.read_clock();
  return memory;
}

TraceMemory::TraceMemory(TraceMemory&& other) noexcept
    : header_(std::exchange(other.header_, nullptr)),
      bytes_(other.bytes_),
      file_(std::exchange(other.file_, -1)) {}

TraceMemory& TraceMemory::operator=(TraceMemory&& other) noexcept {
  std::swap(header_, other.header_);
  std::swap(bytes_, other.bytes_);
  std::swap(file_, other.file_);
  return *this;
}

TraceMemory::~TraceMemory() {
  if (header_ != nullptr) ::munmap(header_, bytes_);
  if (file_ >= 0) ::close(file_);
}

ThreadEntry* TraceMemory::threads() const {
  return reinterpret_cast<ThreadEntry*>(reinterpret_cast<char*>(header_) + kThreadsOffset);
}

Block* TraceMemory::blocks() const {
  return reinterpret_cast<Block*>(reinterpret_cast<char*>(header_) + kBlocksOffset);
}

void TraceMemory::read_clock() const {
  const uint32_t other = 1 - (header_->latest_at & 1);
  header_->latest[other] = clock_pair();
  std::atomic_ref(header_->latest_at).store(other, std::memory_order_release);
}

void TraceMemory::finish(End end) {
  read_clock();
  header_->end = end;
  header_->blocks = std::clamp(header_->blocks_taken, uint32_t{1}, header_->blocks);
  header_->file_bytes = kBlocksOffset + uint64_t{header_->blocks} * kTraceBlockBytes;
  seal(*header_);
  // It only makes the file shorter. Should it fail, a reader finds more than the header says, and refuses that.
  if (::ftruncate(file_, static_cast<off_t>(header_->file_bytes)) != 0) header_->file_bytes = bytes_;
}

}  // namespace kintsugi::tracing
