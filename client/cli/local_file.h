/// Local files as source and sink of transfers. Bytes go straight between the file and the client's buffers, on threads of
/// their own, so that a slow disk never stops the network.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <boost/asio/thread_pool.hpp>
#include <sys/stat.h>

#include "client/lib/io.h"
#include "common/base/status.h"

namespace kintsugi::cli {

/// An open file descriptor, closed at the end. Standard input, output and error are left open.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept;
  ~Descriptor() { (void)close(); }
  int get() const { return fd_; }
  /// Closes it and returns the error that closing reported, if any: a write that was delayed may fail only here.
  Status close();

 private:
  int fd_ = -1;
};

/// A regular file, which can be read at any offset, or standard input, which is read once from its beginning. So is a file that
/// has bytes though its size is 0 by stat, as those in /proc: only its end says how long it is.
class LocalSource : public client::Source {
 public:
  /// Opens a file for reading; "-" is standard input, whatever that is. kIsDirectory for a directory, kInvalidArgument for
  /// a pipe or a device, neither of which is waited for. `threads` must outlive the source. Once `cancelled` is readable, a
  /// read that would wait for a pipe is kCancelled.
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
  std::optional<uint64_t> size_;  ///< when it was opened; none: it is read in order, to its end
  std::optional<std::vector<client::DataRange>> data_;
  uint32_t mode_ = 0644;
  int64_t modified_ns_ = 0;
};

/// Writes a file in the directory of its target and puts it there at the end, so that the target is whole or not there. Until
/// then the file has no name, where the file system can do that, so that nothing is left however the process ends; elsewhere
/// its name is ".kintsugi-" and six letters. A small file is kept in memory, and made by finish(): that is one visit of a thread
/// instead of several.
class LocalSink : public client::Sink {
 public:
  static constexpr uint64_t kKeptBytes = 64 << 10;  ///< a file of at most so many is kept in memory

  /// A file of probably `bytes`, which may turn out to be more or fewer. kAlreadyExists when there is something at `path` and
  /// `replace` is false, and other errors of making it: of a small file by finish(). `threads` must outlive the sink.
  static Result<std::unique_ptr<LocalSink>> create(const std::string& path, uint64_t bytes, bool replace,
                                                   asio::thread_pool& threads);
  /// A sink that writes to standard output in order and needs no finish().
  static std::unique_ptr<LocalSink> standard_output(asio::thread_pool& threads);
  ~LocalSink() override;  ///< removes the file unless it was finished

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
  bool direct_ = false;         ///< O_DIRECT is set on the file
  std::string path_;            ///< the target; empty: standard output
  std::string temporary_path_;  ///< the file's name before it is in its place; empty: it has none
  bool replace_ = false;
  Descriptor file_;
  uint64_t end_ = 0;             ///< of what was written, holes included
  std::vector<std::byte> kept_;  ///< the file's bytes, while it is not open
};

}  // namespace kintsugi::cli
