/// A disk that keeps to a speed limit, and tells its health of every call.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <boost/asio/awaitable.hpp>

#include "chunkserver/store/disk/disk_health.h"
#include "common/runtime/disk.h"
#include "common/runtime/event.h"
#include "common/runtime/runtime.h"

namespace kintsugi::chunkserver {

/// Wraps the runtime's disk for the files of one data disk. Reads and writes pass a token bucket in the order in which
/// they come; what was not used is kept for at most kBurst. Everything else passes at once. What waits for its turn
/// here is no call to the disk yet.
class LimitedDisk final : public runtime::Disk {
 public:
  static constexpr Duration kBurst = std::chrono::milliseconds(50);

  /// 0 bytes a second: no limit. `runtime` and `health` outlive the disk, and the disk its files.
  LimitedDisk(const runtime::Runtime& runtime, DiskHealth& health, uint64_t bytes_per_second)
      : disk_(runtime.disk),
        health_(health),
        clock_(runtime.clock),
        faults_(runtime.faults),
        rate_(bytes_per_second),
        never_(runtime) {}

  asio::awaitable<Result<std::unique_ptr<runtime::File>>> open(std::string path,
                                                               runtime::OpenMode mode) override;
  asio::awaitable<Status> rename(std::string from, std::string to) override {
    return call(disk_.rename(std::move(from), std::move(to)));
  }
  asio::awaitable<Status> remove(std::string path) override { return call(disk_.remove(std::move(path))); }
  asio::awaitable<Status> make_directory(std::string path) override {
    return call(disk_.make_directory(std::move(path)));
  }
  asio::awaitable<Status> sync_directory(std::string path) override {
    return call(disk_.sync_directory(std::move(path)));
  }
  asio::awaitable<Result<std::vector<std::string>>> list(std::string path) override {
    return call(disk_.list(std::move(path)));
  }
  asio::awaitable<Result<runtime::DiskSpace>> space(std::string path) override {
    return call(disk_.space(std::move(path)));
  }
  asio::awaitable<Result<runtime::FileAttributes>> attributes(std::string path) override {
    return call(disk_.attributes(std::move(path)));
  }
  asio::awaitable<Result<std::unique_ptr<runtime::FileLock>>> lock(std::string path) override {
    return call(disk_.lock(std::move(path)));
  }

  /// How long, up to now, something was being read, written or synced, or waited for its turn.
  Duration busy_time() const;
  /// How many of those are under way now.
  size_t under_way() const { return under_way_; }
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
  /// Has its health know of a call while it runs.
  template <class T>
  asio::awaitable<T> call(asio::awaitable<T> made) {
    const DiskHealth::Call under_way(health_);
    co_return co_await std::move(made);
  }
  /// Returns when the bytes may have passed.
  asio::awaitable<void> pace(uint64_t bytes);

  runtime::Disk& disk_;
  DiskHealth& health_;
  runtime::Clock& clock_;
  runtime::FaultPoints* const faults_;
  const uint64_t rate_;
  runtime::Event never_;  ///< never notified: waiting for it with a deadline is a pause
  TimePoint passed_at_;   ///< when the bytes admitted so far will have passed
  size_t under_way_ = 0;
  TimePoint busy_since_;
  Duration busy_time_{};
  uint64_t bytes_read_ = 0, bytes_written_ = 0;
};

}  // namespace kintsugi::chunkserver
