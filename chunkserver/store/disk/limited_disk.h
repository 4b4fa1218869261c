/// A disk that keeps to a speed limit, and knows how busy it is.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <boost/asio/awaitable.hpp>

#include "common/runtime/disk.h"
#include "common/runtime/event.h"
#include "common/runtime/runtime.h"

namespace kintsugi::chunkserver {

/// Wraps the runtime's disk for the files of one data disk. Reads and writes pass a token bucket in the order in which
/// they come; what was not used is kept for at most kBurst. Everything else passes at once.
class LimitedDisk final : public runtime::Disk {
 public:
  static constexpr Duration kBurst = std::chrono::milliseconds(50);

  /// 0 bytes a second: no limit. `runtime` outlives the disk, and the disk its files.
  LimitedDisk(const runtime::Runtime& runtime, uint64_t bytes_per_second)
      : disk_(runtime.disk),
        clock_(runtime.clock),
        faults_(runtime.faults),
        rate_(bytes_per_second),
        never_(runtime) {}

  asio::awaitable<Result<std::unique_ptr<runtime::File>>> open(std::string path,
                                                               runtime::OpenMode mode) override;
  asio::awaitable<Status> rename(std::string from, std::string to) override { return disk_.rename(from, to); }
  asio::awaitable<Status> remove(std::string path) override { return disk_.remove(path); }
  asio::awaitable<Status> make_directory(std::string path) override { return disk_.make_directory(path); }
  asio::awaitable<Status> sync_directory(std::string path) override { return disk_.sync_directory(path); }
  asio::awaitable<Result<std::vector<std::string>>> list(std::string path) override {
    return disk_.list(path);
  }
  asio::awaitable<Result<runtime::DiskSpace>> space(std::string path) override { return disk_.space(path); }
  asio::awaitable<Result<runtime::FileAttributes>> attributes(std::string path) override {
    return disk_.attributes(path);
  }
  asio::awaitable<Result<std::unique_ptr<runtime::FileLock>>> lock(std::string path) override {
    return disk_.lock(path);
  }

  /// How long, up to now, something was being read, written or synced, or waited for its turn.
  Duration busy_time() const;
  uint64_t bytes_read() const { return bytes_read_; }
  uint64_t bytes_written() const { return bytes_written_; }

 private:
  class LimitedFile;
  /// Counts an operation as under way.
  class Busy {
   public:
    explicit Busy(LimitedDisk& disk);
    ~Busy();
    Busy(const Busy&) = delete;

   private:
    LimitedDisk& disk_;
  };
  /// Returns when the bytes may have passed.
  asio::awaitable<void> pace(uint64_t bytes);

  runtime::Disk& disk_;
  runtime::Clock& clock_;
  runtime::FaultPoints* const faults_;
  const uint64_t rate_;
  runtime::Event never_;  ///< waited for with a deadline
  TimePoint passed_at_;   ///< when everything that was let in has passed
  size_t under_way_ = 0;
  TimePoint busy_since_;
  Duration busy_time_{};
  uint64_t bytes_read_ = 0, bytes_written_ = 0;
};

}  // namespace kintsugi::chunkserver
