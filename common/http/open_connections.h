/// The connections that an HTTP server has open, and which of them makes room for a new one.
#pragma once

#include <list>
#include <string>

#include "common/runtime/network.h"

namespace kintsugi::http {

struct OpenConnection {
  runtime::Connection* connection;
  std::string host;  ///< the peer's address without its port
  bool answering = false;
  bool closed = false;  ///< whether the connection's coroutine is about to end
};

/// Anybody can connect and send nothing, or read nothing. So the number of connections is limited, in all and from one
/// address, and the one that has waited longest for a whole request makes room for the newest; when all are being
/// answered, the oldest does. An honest client sends its request at once, and so it is never the one that waited
/// longest of dozens.
class OpenConnections {
 public:
  static constexpr size_t kMost = 128;
  static constexpr size_t kMostOfAnAddress = 64;

  /// A connection is open as long as this lives, and until it is closed to make room.
  class [[nodiscard]] Guard {
   public:
    Guard(OpenConnections& all, runtime::Connection& connection);
    ~Guard() { all_.connections_.erase(at_); }
    Guard(const Guard&) = delete;

    /// A request has come as a whole; false when the connection was closed meanwhile.
    bool begin_answer();
    /// From now on the connection waits for the next request.
    void end_answer();

   private:
    friend class OpenConnections;
    OpenConnections& all_;
    std::list<OpenConnection>::iterator at_;
  };

  void close_all();

 private:
  void make_room(const std::string& newcomer);

  /// Ordered by when each connection began to wait for a request or to be answered; the oldest comes first.
  std::list<OpenConnection> connections_;
};

}  // namespace kintsugi::http
