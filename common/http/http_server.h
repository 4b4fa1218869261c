/// A daemon's small HTTP side: /metrics, /healthz and /debug pages, which are read by GET, and what is changed by POST.
/// Bounded connections of which those that ask nothing make room (OpenConnections), short deadlines. The simulator reads
/// the same functions directly.
#pragma once

#include <functional>
#include <memory>
#include <stop_token>
#include <string>

#include <boost/asio/awaitable.hpp>

#include "common/base/status.h"
#include "common/http/page_guard.h"
#include "common/runtime/network.h"
#include "common/runtime/runtime.h"

namespace kintsugi::http {

struct Response {
  int status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body;
  /// When it is set it makes the body, on a thread of the server's own: for long pages, which would hold the daemon's
  /// thread. It owns all that it touches.
  std::function<std::string()> late_body{};
};

/// A POST without a body. A browser sends it only for a page of this server: one of another server (the field Origin) was
/// refused.
struct Change {
  std::string path;
  std::string query;          ///< the part of the URL after '?', or empty
  std::string authorization;  ///< the field of that name; empty: there is none
  std::string peer;           ///< the address of whoever asks
};

/// Changes something when it is asked to.
class Changer {
 public:
  virtual ~Changer() = default;
  /// Whoever asks need have shown nothing: at a loopback address no guard is asked. Runs on the daemon's thread. An HTTP
  /// server that was stopped asks for nothing new, and drops the answer.
  virtual asio::awaitable<Response> change(Change change) = 0;
};

class HttpServer {
 public:
  explicit HttpServer(const runtime::Runtime& runtime);
  ~HttpServer();

  /// Makes a page. `query` is the part of the URL after '?', or empty. It runs on the daemon's thread: keep it short.
  /// An exception becomes a 500. REQUIRES: handle() is called before the executor runs.
  using Handler = std::function<Response(std::string_view query)>;
  void handle(std::string path, Handler handler);
  /// POST to this path is for `changer`, which has to outlive its own calls: it ends them itself after stop().
  /// REQUIRES: as of handle().
  void change_by(std::string path, Changer& changer);
  /// `guard` decides about each request of a peer that is no host of the cluster; without one all are let in. It is asked
  /// nothing once the server has stopped. REQUIRES: start() was not called.
  void guard_by(const PageGuard& guard);

  Status start(const runtime::Endpoint& at);
  runtime::Endpoint local_endpoint() const;
  /// Closes the listener and every connection. No handler is called any more, and no coroutine of the server is left
  /// after the executor's next turns, but for those that wait for a Changer. Waits for a late body that is being made;
  /// those that have not begun are dropped. Idempotent.
  void stop();
  /// Says from the begin of stop() on that the server stops. A late body that takes long looks at it now and then, from
  /// any thread: what it makes from then on is sent to nobody, and the end of the daemon waits for it.
  std::stop_token stopping() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace kintsugi::http
