/// A local file, or standard output, as the sink of a transfer. Bytes go straight between the client's buffers and the
/// file.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include <boost/asio/thread_pool.hpp>

#include "client/cli/descriptor.h"
#include "client/lib/io.h"
#include "common/base/status.h"

namespace kintsugi::cli {

/// Writes a file in the directory of its target and puts it there at the end, so that the target is whole or not
/// there. Until then the file has no name, where the file system can do that, so that nothing is left however the
/// process ends; elsewhere its name is ".kintsugi-" and six letters. A small file is kept in memory, and made by
/// finish(): that is one visit of a thread instead of several.
class LocalSink : public client::Sink {
 public:
  /// Files up to this size are kept in memory until they are complete.
  static constexpr uint64_t kKeptBytes = 64 << 10;

  /// A file of probably `bytes`, which may turn out to be more or fewer. kAlreadyExists when there is something at
  /// `path` and `replace` is false, and other errors of making it: of a small file by finish(). `threads` must outlive
  /// the sink.
  static Result<std::unique_ptr<LocalSink>> create(const std::string& path, uint64_t bytes, bool replace,
                                                   asio::thread_pool& threads);
  /// A sink that writes to standard output in order and needs no finish().
  static std::unique_ptr<LocalSink> standard_output(asio::thread_pool& threads);
  ~LocalSink() override;  ///< removes the file unless finish() was called

  asio::awaitable<Status> write(uint64_t offset, std::span<const std::span<const std::byte>> from) override;
  asio::awaitable<Status> hole(uint64_t offset, uint64_t length) override;
  /// Sets mode and time, and puts the file at its place. kAlreadyExists when somebody made one there meanwhile.
  asio::awaitable<Status> finish(uint32_t mode, int64_t modified_ns);

 private:
  explicit LocalSink(asio::thread_pool& threads) : threads_(threads) {}
  Status open_file();
  Status open_file_for_kept();
  Status finish_now(uint32_t mode, int64_t modified_ns);
  Status put_in_place();
  Status write_now(uint64_t offset, std::span<const std::span<const std::byte>> from);
  void choose_direct(uint64_t offset, std::span<const std::span<const std::byte>> from);

  asio::thread_pool& threads_;
  bool direct_ = false;         ///< the file has O_DIRECT set
  std::string path_;            ///< path of the target; empty: standard output
  std::string temporary_path_;  ///< name of the file until it is complete; empty: it has none
  bool replace_ = false;
  Descriptor file_;
  uint64_t end_ = 0;             ///< end of the data written so far, holes included
  std::vector<std::byte> kept_;  ///< contents of the file while it is not open
};

}  // namespace kintsugi::cli
