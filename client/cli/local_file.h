/// Local files as source and sink: plain reads and writes from and to the pool's buffers, on a thread of
/// their own, so that a slow disk never stops the network.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include <boost/asio/thread_pool.hpp>

#include "client/lib/io.h"
#include "common/base/status.h"

namespace kintsugi::cli {

/// An open file descriptor.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept;
  ~Descriptor() { (void)close(); }
  int get() const { return fd_; }
  /// The error that closing reported, if any.
  Status close();

 private:
  int fd_ = -1;
};

/// A regular file (which can be read again) or a pipe.
class LocalSource : public client::Source {
 public:
  /// "-" is standard input.
  static Result<std::unique_ptr<LocalSource>> open(const std::string& path, asio::thread_pool& threads);

  asio::awaitable<Result<size_t>> read(uint64_t offset, std::span<const std::span<std::byte>> into) override;
  std::optional<uint64_t> size() const override { return size_; }

  uint32_t mode() const { return mode_; }
  int64_t modified_ns() const { return modified_ns_; }

 private:
  LocalSource(asio::thread_pool& threads) : threads_(threads) {}
  Result<size_t> read_now(uint64_t offset, std::span<const std::span<std::byte>> into);

  asio::thread_pool& threads_;
  std::string path_;
  Descriptor file_;
  std::optional<uint64_t> size_;
  uint32_t mode_ = 0644;
  int64_t modified_ns_ = 0;
};

/// Writes beside the target and renames over it at the end, so that the target is whole or not there.
class LocalSink : public client::Sink {
 public:
  /// kAlreadyExists when there is something at `path` and `replace` is false.
  static Result<std::unique_ptr<LocalSink>> create(const std::string& path, bool replace,
                                                   asio::thread_pool& threads);
  /// Standard output.
  static std::unique_ptr<LocalSink> standard_output(asio::thread_pool& threads);
  ~LocalSink() override;  ///< removes what was not finished

  asio::awaitable<Status> write(uint64_t offset, std::span<const std::span<const std::byte>> from) override;
  /// Sets mode and time, and puts the file at its place.
  Status finish(uint32_t mode, int64_t modified_ns);

 private:
  explicit LocalSink(asio::thread_pool& threads) : threads_(threads) {}
  Status write_now(uint64_t offset, std::span<const std::span<const std::byte>> from);
  void choose_direct(uint64_t offset, std::span<const std::span<const std::byte>> from);

  asio::thread_pool& threads_;
  bool direct_ = false;                // the file has O_DIRECT set
  std::string path_, temporary_path_;  // both empty: standard output
  bool replace_ = false;
  Descriptor file_;
};

}  // namespace kintsugi::cli
