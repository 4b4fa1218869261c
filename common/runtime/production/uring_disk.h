/// The production disk: O_DIRECT files through io_uring.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/runtime/disk.h"
#include "common/runtime/production/disk_worker.h"

namespace kintsugi::runtime {

/// Files on a filesystem that refuses O_DIRECT are read and written through the page cache instead.
/// Belongs to the thread of `io`. Open files may outlive it; their operations fail with kCancelled then.
class UringDisk final : public Disk {
 public:
  explicit UringDisk(asio::io_context& io);
  ~UringDisk() override;

  /// Gives each of these directories a worker of its own, for everything below it: one that hangs holds up the calls
  /// to no other. REQUIRES: called once at most, before anything is asked of the disk.
  void separate(const std::vector<std::string>& roots);

  asio::awaitable<Result<std::unique_ptr<File>>> open(std::string path, OpenMode mode) override;
  asio::awaitable<Status> rename(std::string from, std::string to) override;
  asio::awaitable<Status> remove(std::string path) override;
  asio::awaitable<Status> make_directory(std::string path) override;
  asio::awaitable<Status> sync_directory(std::string path) override;
  asio::awaitable<Result<std::vector<std::string>>> list(std::string path) override;
  asio::awaitable<Result<DiskSpace>> space(std::string path) override;
  asio::awaitable<Result<FileAttributes>> attributes(std::string path) override;
  asio::awaitable<Result<std::unique_ptr<FileLock>>> lock(std::string path) override;

 private:
  /// Calls to one disk that are with the kernel at once, when it has a worker of its own.
  static constexpr unsigned kInFlightEach = 128;

  struct Separate {
    std::string root;
    std::shared_ptr<DiskWorker> worker;
  };
  DiskWorker& worker_of(const std::string& path) const { return *shared_worker_of(path); }
  const std::shared_ptr<DiskWorker>& shared_worker_of(const std::string& path) const;

  asio::io_context& io_;
  const std::shared_ptr<DiskWorker> rest_;  ///< worker of the paths that lie below no separate root
  std::vector<Separate> separate_;
};

}  // namespace kintsugi::runtime
