/// The files of one disk that were found damaged, kept for people: only so many, for they take room from chunks.
#pragma once

#include <deque>
#include <string>

#include <boost/asio/awaitable.hpp>

#include "common/base/status.h"
#include "common/runtime/disk.h"

namespace kintsugi::chunkserver {

/// Files are called NAME.NUMBER, with a number that grows over restarts, so that no damaged file takes the place of
/// another. When they become too many or too large, the oldest are removed. What people put there under other names is
/// left alone.
class DiskQuarantine {
 public:
  static constexpr size_t kMostFiles = 1000;
  static constexpr uint64_t kMostBytes = 4ull << 30;

  /// `disk` outlives it.
  DiskQuarantine(runtime::Disk& disk, std::string directory)
      : disk_(disk), directory_(std::move(directory)) {}

  /// Learns what is there from before, and removes what is too much of it. REQUIRES: the directory is there.
  asio::awaitable<Status> load();
  /// Moves a file there under this name, and returns its path.
  asio::awaitable<Result<std::string>> take(std::string path, std::string name);

  size_t files() const { return kept_.size(); }
  uint64_t bytes() const { return bytes_; }

 private:
  struct Kept {
    uint64_t number;
    std::string path;
    uint64_t bytes;
  };

  asio::awaitable<void> keep(uint64_t number, std::string path);
  asio::awaitable<void> remove_oldest();

  runtime::Disk& disk_;
  const std::string directory_;
  std::deque<Kept> kept_;  ///< oldest first
  uint64_t bytes_ = 0;
  uint64_t next_number_ = 1;
};

}  // namespace kintsugi::chunkserver
