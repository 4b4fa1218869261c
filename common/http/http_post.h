/// One request of a process to somebody else's HTTP server. Real sockets only.
#pragma once

#include <string>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>

#include "common/base/status.h"
#include "common/runtime/clock.h"
#include "common/runtime/network.h"

namespace kintsugi::http {

/// "http://host:port/path". Without a port 80, without a path "/". kInvalidArgument for anything else: nothing here
/// speaks TLS.
struct Url {
  std::string host, port, path;
  static Result<Url> parse(std::string_view text);
};

/// Sends `body` and waits for the answer, whose status it returns. kUnavailable, and within `limit`, when there is
/// none. A look-up of the host's name that takes longer continues in the background, and `executor` must live until it
/// ends.
asio::awaitable<Result<int>> post(asio::any_io_executor executor, Url to, std::string content_type,
                                  std::string body, Duration limit);

}  // namespace kintsugi::http
