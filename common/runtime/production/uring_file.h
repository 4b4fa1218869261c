/// An open file of UringDisk.
#pragma once

#include <memory>
#include <string>

#include "common/runtime/disk.h"
#include "common/runtime/production/disk_worker.h"

namespace kintsugi::runtime {

class UringFile final : public File {
 public:
  /// Owns `fd`. `direct`: opened with O_DIRECT.
  UringFile(std::shared_ptr<DiskWorker> worker, int fd, bool direct, std::string path);
  ~UringFile() override;

  asio::awaitable<Result<size_t>> read(uint64_t offset, std::span<std::byte> into) override;
  asio::awaitable<Status> write(uint64_t offset, std::span<const std::byte> from) override;
  asio::awaitable<Status> sync() override;
  asio::awaitable<Status> allocate(uint64_t bytes) override;
  asio::awaitable<Status> truncate(uint64_t bytes) override;
  asio::awaitable<Result<uint64_t>> size() override;

 private:
  /// Runs `call` again, a bounded number of times, while the kernel says that it was merely interrupted or short of
  /// something.
  asio::awaitable<int> run(DiskCall call);
  /// Makes sure that `bytes` fit: the filesystem would take all that is left before it finds that they do not, and
  /// starve everybody meanwhile.
  asio::awaitable<int> check_space(uint64_t bytes);
  Status failure(int negative_errno, std::string_view operation) const;

  std::shared_ptr<DiskWorker> worker_;
  int fd_;
  bool direct_;
  std::string path_;
};

}  // namespace kintsugi::runtime
