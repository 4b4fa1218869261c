/// The production disk: O_DIRECT files through io_uring.
#pragma once

#include <memory>

#include "common/runtime/disk.h"
#include "common/runtime/production/uring_queue.h"

namespace kintsugi::runtime {

/// Files on a filesystem that refuses O_DIRECT are read and written through the page cache instead.
/// Belongs to the thread of `io`. Open files may outlive it; their operations fail with kCancelled then.
class UringDisk final : public Disk {
 public:
  explicit UringDisk(asio::io_context& io);
  ~UringDisk() override;

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
  std::shared_ptr<UringQueue> queue_;
};

}  // namespace kintsugi::runtime
