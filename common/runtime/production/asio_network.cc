#include "common/runtime/production/asio_network.h"

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "common/runtime/event.h"
#include "common/runtime/production/patient_listen.h"
#include "common/runtime/production/tcp_connection.h"
#include "common/runtime/production/tcp_listener.h"
#include "common/runtime/task_group.h"

namespace kintsugi::runtime {

namespace {

using asio::ip::tcp;
using boost::system::error_code;

constexpr size_t kMaxAddresses = 8;  // a dial tries at most so many addresses of a name

/// The state that the callbacks of one dial share with its coroutine. They may outlive the coroutine: a lookup in the
/// system resolver cannot be interrupted, so a dial that runs out of time leaves it behind.
struct Attempt {
  Attempt(asio::io_context& io, Clock& clock)
      : resolver(io), socket(io), done(io.get_executor(), clock), error(asio::error::would_block) {}

  tcp::resolver resolver;
  tcp::socket socket;
  Event done;
  error_code error;  // would_block while under way
  bool stopped = false;
  tcp::resolver::results_type results;
};

/// Waits for the callback; false at the deadline, and once the group stops.
asio::awaitable<bool> finished(std::shared_ptr<Attempt> attempt, TimePoint deadline, TaskGroup* stops_with) {
  TaskGroup::StopCallback stop;
  if (stops_with != nullptr) {
    stop = stops_with->on_stop([attempt] {
      attempt->stopped = true;
      attempt->done.notify_all();
    });
  }
  while (attempt->error == asio::error::would_block && !attempt->stopped) {
    bool notified = co_await attempt->done.wait_until(deadline);
    if (!notified) break;
  }
  co_return attempt->error != asio::error::would_block;
}

Status given_up(const Attempt& attempt, const Endpoint& to, std::string_view stage) {
  if (attempt.stopped)
    return {Code::kCancelled, fmt::format("{}: stopped before it could {}", to.to_string(), stage)};
  return {Code::kDeadlineExceeded, fmt::format("{}: no time left to {}", to.to_string(), stage)};
}

asio::awaitable<Result<std::vector<tcp::endpoint>>> resolve(asio::io_context& io, Clock& clock,
                                                            const Endpoint& to, TimePoint deadline,
                                                            TaskGroup* stops_with) {
  error_code not_literal;
  auto literal = asio::ip::make_address(to.host, not_literal);
  if (!not_literal) co_return std::vector<tcp::endpoint>{{literal, to.port}};

  auto attempt = std::make_shared<Attempt>(io, clock);
  attempt->resolver.async_resolve(to.host, std::to_string(to.port), tcp::resolver::numeric_service,
                                  [attempt](error_code error, tcp::resolver::results_type results) {
                                    attempt->error = error;
                                    attempt->results = std::move(results);
                                    attempt->done.notify_all();
                                  });
  if (!co_await finished(attempt, deadline, stops_with)) {
    attempt->resolver.cancel();
    co_return given_up(*attempt, to, "look the name up");
  }
  if (attempt->error) {
    co_return Status{Code::kUnavailable, fmt::format("{}: {}", to.to_string(), attempt->error.message())};
  }
  std::vector<tcp::endpoint> addresses;
  for (const auto& entry : attempt->results) {
    if (addresses.size() < kMaxAddresses) addresses.push_back(entry.endpoint());
  }
  co_return addresses;
}

Result<tcp::endpoint> resolve_now(asio::io_context& io, const Endpoint& at) {
  error_code error;
  auto literal = asio::ip::make_address(at.host, error);
  if (!error) return tcp::endpoint(literal, at.port);
  tcp::resolver resolver(io);
  auto results = resolver.resolve(at.host, std::to_string(at.port), tcp::resolver::numeric_service, error);
  if (error || results.empty()) {
    return Status{Code::kUnavailable, fmt::format("listen on {}: {}", at.to_string(), error.message())};
  }
  return results.begin()->endpoint();
}

}  // namespace

asio::awaitable<Result<std::unique_ptr<Connection>>> AsioNetwork::dial(Endpoint to, TimePoint deadline,
                                                                       TaskGroup* stops_with) {
  KINTSUGI_CO_ASSIGN(auto addresses, co_await resolve(io_, clock_, to, deadline, stops_with));
  std::string last_error = "the name has no address";
  for (const tcp::endpoint& address : addresses) {
    auto attempt = std::make_shared<Attempt>(io_, clock_);
    attempt->socket.async_connect(address, [attempt](error_code error) {
      attempt->error = error;
      attempt->done.notify_all();
    });
    if (!co_await finished(attempt, deadline, stops_with)) {
      error_code ignored;
      attempt->socket.close(ignored);
      co_return given_up(*attempt, to, "connect");
    }
    if (!attempt->error)
      co_return std::make_unique<TcpConnection>(std::move(attempt->socket), losses_, to.to_string());
    last_error = attempt->error.message();
  }
  co_return Status{Code::kUnavailable, fmt::format("{}: {}", to.to_string(), last_error)};
}

Result<std::unique_ptr<Listener>> AsioNetwork::listen(Endpoint at) {
  KINTSUGI_ASSIGN(tcp::endpoint address, resolve_now(io_, at));
  tcp::acceptor acceptor(io_);
  error_code error;
  acceptor.open(address.protocol(), error);
  if (!error) acceptor.set_option(asio::socket_base::reuse_address(true), error);
  if (!error) listen_patiently(acceptor, address, error);
  if (error) return status_from_errno(error.value(), fmt::format("listen on {}", at.to_string()));
  return std::make_unique<TcpListener>(std::move(acceptor), clock_, losses_);
}

}  // namespace kintsugi::runtime
