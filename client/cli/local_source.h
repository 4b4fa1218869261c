/// A local file, or standard input, as the source of a transfer. Bytes go straight between the file and the client's
/// buffers.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <boost/asio/thread_pool.hpp>
#include <sys/stat.h>

#include "client/cli/descriptor.h"
#include "client/lib/io.h"
#include "common/base/status.h"

namespace kintsugi::cli {

/// A regular file, which can be read at any offset, or standard input, which is read once from its beginning. So is a
/// file that has bytes though its size is 0 by stat, as those in /proc: only its end says how long it is.
class LocalSource : public client::Source {
 public:
  /// Opens a file for reading; "-" is standard input, whatever that is. kIsDirectory for a directory, kInvalidArgument
  /// for a pipe or a device, neither of which is waited for. `threads` must outlive the source. Once `cancelled` is
  /// readable, a read that would wait for a pipe is kCancelled.
  static Result<std::unique_ptr<LocalSource>> open(const std::string& path, asio::thread_pool& threads,
                                                   int cancelled = kNever);

  asio::awaitable<Result<size_t>> read(uint64_t offset, std::span<const std::span<std::byte>> into) override;
  /// None of what is read in order; of another file, as it is now.
  std::optional<uint64_t> size() const override;
  std::optional<std::vector<client::DataRange>> data() const override { return data_; }

  uint32_t mode() const { return mode_; }
  int64_t modified_ns() const { return modified_ns_; }

 private:
  static constexpr int kNever = -1;

  LocalSource(asio::thread_pool& threads, int cancelled) : threads_(threads), cancelled_(cancelled) {}
  Status take_regular(const struct stat& attributes);
  void find_holes(uint64_t allocated);
  Result<size_t> read_now(uint64_t offset, std::span<const std::span<std::byte>> into);
  /// Reads a small file without waiting for its disk; false when its bytes are not in the page cache.
  bool read_cached(uint64_t offset, std::span<const std::span<std::byte>> into) const;

  asio::thread_pool& threads_;
  const int cancelled_;
  std::string path_;
  Descriptor file_;
  std::optional<uint64_t> size_;  ///< size at the time of opening; none: it is read sequentially to its end
  std::optional<std::vector<client::DataRange>> data_;
  uint32_t mode_ = 0644;
  int64_t modified_ns_ = 0;
};

}  // namespace kintsugi::cli
