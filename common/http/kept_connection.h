/// Asks one HTTP server again and again over a connection that stays open.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include <boost/asio/awaitable.hpp>

#include "common/base/status.h"
#include "common/runtime/runtime.h"

namespace kintsugi::http {

/// One request at a time. Speaks only what HttpServer answers: bodies with a length, at most kMostBytes.
class KeptConnection {
 public:
  static constexpr size_t kMostBytes = 4 << 20;

  /// The parts of `runtime` outlive it.
  KeptConnection(const runtime::Runtime& runtime, runtime::Endpoint to)
      : runtime_(runtime), to_(std::move(to)) {}

  /// The body of an answer 200. Connects first when there is no connection; after an error there is none.
  /// kDeadlineExceeded, kUnavailable, kNotFound (another answer than 200; the message has its first line), kCorrupt,
  /// kLimitExceeded.
  asio::awaitable<Result<std::string>> get(std::string path, TimePoint deadline);

  bool is_open() const { return connection_ != nullptr && connection_->is_open(); }
  void close() { connection_.reset(); }

 private:
  asio::awaitable<Result<std::string>> ask(std::string path);
  /// Reads until `buffer_` has at least so many bytes.
  asio::awaitable<Status> fill(size_t bytes);

  runtime::Runtime runtime_;
  const runtime::Endpoint to_;
  std::unique_ptr<runtime::Connection> connection_;
  std::string buffer_;  ///< what was read and not used yet
};

/// The length of the body by the head of an answer, from its first line to the last one before the empty line.
/// kNotFound: the answer is not 200. kCorrupt: it is none, or has no length.
Result<size_t> body_length(std::string_view head);

}  // namespace kintsugi::http
